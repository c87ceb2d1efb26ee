"""Class paths from committed poms, resolved by Maven into the cache and compared with committed checksums."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Literal

from infra.toolchain import command, jar_lock
from infra.toolchain.cache import Cache, digest
from infra.versions import MAVEN_DEPENDENCY_PLUGIN

POMS = Path(__file__).parent / "jars"
GOAL = f"org.apache.maven.plugins:maven-dependency-plugin:{MAVEN_DEPENDENCY_PLUGIN}:copy-dependencies"

ClassPathName = Literal["jmx", "kafka", "s3a", "spark"]


def resolve_jars(cache: Cache, name: ClassPathName) -> Path:
    """Return a directory with the jars of `jars/<name>/pom.xml` and nothing else but the cache's marker.

    Raises ToolchainError when Maven is missing, a version is not to be had, or a jar is not the one of `jars.lock`.
    """
    return resolve_pom(cache, name, POMS / name / "pom.xml")


def resolve_pom(cache: Cache, name: str, pom: Path) -> Path:
    """Do the same for a pom that lies elsewhere, under a name of its own; its lock lies beside it."""
    key = digest({"pom": pom.read_bytes(), "goal": GOAL})
    lock = pom.with_name(jar_lock.NAME)

    def build(directory: Path) -> None:
        layout = directory / "repository"
        _fetch(cache, name, pom, layout)
        jar_lock.require_resolved(jar_lock.read_layout(layout), lock)
        for path in layout.rglob("*.jar"):
            path.rename(directory / path.name)
        shutil.rmtree(layout)

    folder = cache.get(f"jars-{name}", key, build)
    jar_lock.require_kept(folder, lock)
    return folder


def write_locks(cache: Cache, checkout: Path) -> None:
    """Write the lock beside every pom of a checkout, those of benchmarks among them.

    Raises ToolchainError as above, and for a release that has other bytes than its lock has.
    """
    for pom in sorted(one for top in ("infra", "tests") for one in (checkout / top).rglob("pom.xml")):
        with tempfile.TemporaryDirectory() as folder:
            _fetch(cache, pom.parent.name, pom, Path(folder))
            jar_lock.write(pom.with_name(jar_lock.NAME), jar_lock.read_layout(Path(folder)))


def _fetch(cache: Cache, name: str, pom: Path, layout: Path) -> None:
    """Have Maven lay out the jars as in a repository: the coordinates of each are in its path."""
    maven = shutil.which("mvn")
    if maven is None:
        raise command.ToolchainError(f"{name} jars: mvn not found; install Maven (Debian: apt install maven)")
    options = [f"-DoutputDirectory={layout}", "-Dmdep.useRepositoryLayout=true"]
    command.run(
        f"{name} jars",
        [maven, "--quiet", "--batch-mode", "--file", pom, GOAL, *options],
        log=cache.root / "logs" / f"jars-{name}.log",
        hint="check that Maven reaches its repository (~/.m2/settings.xml) and serves the versions of the pom",
    )
    if not any(layout.rglob("*.jar")):
        raise command.ToolchainError(f"{name} jars: Maven copied nothing to {layout}; read {pom}")
