"""Our few Java classes, compiled against the very jars that Spark runs with."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from infra.toolchain import command
from infra.toolchain.cache import Cache, digest
from infra.toolchain.jdk import Jdk
from infra.versions import JAVA_RELEASE, SPARK

JAR = "effectively-once-jvm.jar"
# A fixed time in every entry: equal sources and compiler give equal bytes.
ENTRY_TIME = "2000-01-01T00:00:00Z"


def pyspark_jars() -> Path:
    """Return the directory of jars that pyspark ships. Raises ToolchainError when pyspark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise command.ToolchainError("pyspark is not installed in this Python; run through `make`, which installs it")
    return Path(spec.submodule_search_locations[0]) / "jars"


def build_jvm_jar(cache: Cache, jdk: Jdk, jars: Sequence[Path], source_root: Path) -> Path:
    """One jar of everything below `source_root`, compiled for Java 17 against folders of jars.

    Raises ToolchainError with the compiler's messages, or when there is no source.
    """
    sources = sorted(source_root.rglob("*.java"))
    if not sources:
        raise command.ToolchainError(f"Java classes: no source below {source_root}; is the checkout complete?")
    contents = {f"source {path.relative_to(source_root)}": path.read_bytes() for path in sources}
    key = digest(
        {
            **contents,
            "spark": SPARK,
            "jars": " ".join(folder.name for folder in jars),
            "release": f"{JAVA_RELEASE} jdk {jdk.major}",
        }
    )

    def build(directory: Path) -> None:
        classes = directory / "classes"
        log = cache.root / "logs" / "jvm.log"
        class_path = ":".join(f"{folder}/*" for folder in (pyspark_jars(), *jars))
        options = ["-source", str(JAVA_RELEASE), "-target", str(JAVA_RELEASE), "-proc:none", "-Xlint:-options"]
        options += ["-encoding", "UTF-8", "-classpath", class_path, "-d", str(classes)]
        command.run(
            "Java classes",
            [jdk.javac, *options, *sources],
            log=log,
            hint=f"correct what the compiler names below {source_root}",
        )
        command.run(
            "Java classes",
            [jdk.jar, "--create", f"--date={ENTRY_TIME}", "--file", directory / JAR, "-C", classes, "."],
            log=log,
            hint="check that the JDK is complete",
        )

    return cache.get("jvm", key, build) / JAR
