"""The JDK: JAVA_HOME when it is set, else what is on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.toolchain.command import ToolchainError
from infra.versions import JDK_MIN

INSTALL = f"install a JDK {JDK_MIN} or newer (Debian: apt install openjdk-17-jdk-headless), or set JAVA_HOME to one"


@dataclass(frozen=True)
class Jdk:
    """A JDK's programs and its major version."""

    java: Path
    javac: Path
    jar: Path
    major: int


def parse_java_major(text: str) -> int | None:
    """Major version out of `java -version` or `javac -version`; 8 for the old `1.8.0_x` scheme."""
    found = re.search(r'(?:version "|javac )(\d+)(?:\.(\d+))?', text)
    if not found:
        return None
    major = int(found[1])
    return int(found[2]) if major == 1 and found[2] else major


def locate(program: str, env: Mapping[str, str] | None = None) -> Path | None:
    """Where `program` of the JDK is, or None."""
    env = os.environ if env is None else env
    home = env.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / program
        return candidate if os.access(candidate, os.X_OK) else None
    found = shutil.which(program, path=env.get("PATH"))
    return Path(found) if found else None


def major_of(program: Path) -> int | None:
    """Return the major version `program` reports of itself, or None when it cannot be asked."""
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_major(answer.stderr + answer.stdout)


def find_jdk() -> Jdk:
    """Return the JDK to use. Raises ToolchainError when there is none, or only a JRE, or an old one."""
    java, javac, jar = (locate(program) for program in ("java", "javac", "jar"))
    if java is None or javac is None or jar is None:
        missing = ", ".join(n for n, p in (("java", java), ("javac", javac), ("jar", jar)) if p is None)
        raise ToolchainError(f"JDK: {missing} not found; {INSTALL}")
    major = min(major_of(java) or 0, major_of(javac) or 0)
    if major < JDK_MIN:
        raise ToolchainError(f"JDK: {java} and {javac} are version {major or 'unknown'}; {INSTALL}")
    return Jdk(java, javac, jar, major)
