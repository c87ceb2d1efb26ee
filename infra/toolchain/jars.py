"""Class paths from committed poms, resolved by Maven into the cache."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from infra.toolchain import command
from infra.toolchain.cache import Cache, digest
from infra.versions import MAVEN_DEPENDENCY_PLUGIN

POMS = Path(__file__).parent / "jars"
GOAL = f"org.apache.maven.plugins:maven-dependency-plugin:{MAVEN_DEPENDENCY_PLUGIN}:copy-dependencies"

ClassPathName = Literal["kafka", "s3a", "spark"]


def resolve_jars(cache: Cache, name: ClassPathName) -> Path:
    """Return a directory with the jars of `jars/<name>/pom.xml` and nothing else but the cache's marker.

    Raises ToolchainError when Maven is missing or a version is not to be had.
    """
    return resolve_pom(cache, name, POMS / name / "pom.xml")


def resolve_pom(cache: Cache, name: str, pom: Path) -> Path:
    """Do the same for a pom that lies elsewhere, under a name of its own."""
    key = digest({"pom": pom.read_bytes(), "goal": GOAL})

    def build(directory: Path) -> None:
        maven = shutil.which("mvn")
        if maven is None:
            raise command.ToolchainError(f"{name} jars: mvn not found; install Maven (Debian: apt install maven)")
        command.run(
            f"{name} jars",
            [maven, "--quiet", "--batch-mode", "--file", pom, GOAL, f"-DoutputDirectory={directory}"],
            log=cache.root / "logs" / f"jars-{name}.log",
            hint="check that Maven reaches its repository (~/.m2/settings.xml) and serves the versions of the pom",
        )
        if not any(directory.glob("*.jar")):
            raise command.ToolchainError(f"{name} jars: Maven copied nothing to {directory}; read {pom}")

    return cache.get(f"jars-{name}", key, build)
