"""A home for Spark beside the pyspark package: the same files, but executors do not work inside the package.

In `local-cluster` a worker keeps the folders of its executors in `$SPARK_HOME/work`, and nothing else can be said: with
pyspark's own home every run leaves its logs in the Python environment, and two drivers started in one second share
them. The home's path must also be the same for every run, because shared class data holds for one class path only. So
`work` is a link to a folder below whatever directory the driver was started in.

Spark's own `python` folder is left out: it holds pyspark as a zip of sources, which Spark puts before the package on
the path of Python workers, and which each executor's daemon compiles anew (0.6 s of CPU, ADR 0079).
"""

from __future__ import annotations

from pathlib import Path

from infra.toolchain.cache import Cache, digest
from infra.toolchain.jvm import pyspark_jars
from infra.versions import SPARK

EXECUTORS = "executors"
"""Where a driver finds its executors' folders, below its working directory."""
LEFT_OUT = ("python", "work")


def spark_home(cache: Cache) -> Path:
    """Return the home for the pyspark of this Python. Raises ToolchainError when there is none."""
    package = pyspark_jars().parent
    key = digest({"package": str(package), "spark": SPARK, "left out": " ".join(LEFT_OUT)})

    def build(directory: Path) -> None:
        for entry in package.iterdir():
            if entry.name not in LEFT_OUT:
                (directory / entry.name).symlink_to(entry)
        (directory / "work").symlink_to(Path("/proc/self/cwd") / EXECUTORS)

    return cache.get("spark-home", key, build)
