"""The wheel of the pipelines: what Spark runs, built from the checkout, equal bytes for equal sources."""

from __future__ import annotations

import compileall
import hashlib
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from infra.toolchain import command
from infra.toolchain.cache import Cache, digest

# 2020-01-01 UTC: zip entries carry it instead of the time of the build.
SOURCE_DATE_EPOCH = "1577836800"


@dataclass(frozen=True)
class Wheel:
    """A built wheel, the SHA-256 (hex) of its bytes, which an epoch's declaration pins, and its content installed.

    Python workers import from the installed folder: from the archive itself every start would compile every module.
    """

    path: Path
    sha256: str
    installed: Path


def read_sources(project: Path) -> dict[str, bytes]:
    """Everything the wheel is made of, by path below `project`: pyproject.toml and src/ without compiled leftovers."""
    files = [project / "pyproject.toml", *sorted((project / "src").rglob("*"))]
    return {
        path.relative_to(project).as_posix(): path.read_bytes()
        for path in files
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def build_wheel(cache: Cache, project: Path) -> Wheel:
    """Return the wheel of `project`, keyed by the content it was built from.

    The sources are read once and built from that copy, so an edit during the build cannot end up under another key.
    Raises ToolchainError when the build backend refuses.
    """
    sources = read_sources(project)
    key = digest({**sources, "backend": version("hatchling"), "epoch": SOURCE_DATE_EPOCH, "form": "installed"})

    def build(directory: Path) -> None:
        copy = directory / "project"
        for name, content in sources.items():
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        command.run(
            "wheel",
            [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory / "dist", copy],
            env={"SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH, "PYTHONPATH": ""},
            log=cache.root / "logs" / "wheel.log",
            hint=f"correct {project / 'pyproject.toml'}",
        )

        (built,) = (directory / "dist").glob("*.whl")
        with zipfile.ZipFile(built) as archive:
            archive.extractall(directory / "installed")
        compileall.compile_dir(directory / "installed", quiet=1)

    made = cache.get("wheel", key, build)
    (path,) = (made / "dist").glob("*.whl")
    return Wheel(path, hashlib.sha256(path.read_bytes()).hexdigest(), made / "installed")
