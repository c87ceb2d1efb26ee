"""The home of Spark: the package's files, but no sources that workers would compile at each start."""

import subprocess
import sys
from pathlib import Path

from infra.toolchain.cache import Cache
from infra.toolchain.jvm import pyspark_jars
from infra.toolchain.spark_home import spark_home


def test_a_home_has_the_packages_files_and_works_elsewhere(tmp_path: Path) -> None:
    home = spark_home(Cache(tmp_path))
    assert (home / "jars").resolve() == pyspark_jars().resolve()
    assert (home / "bin" / "spark-submit").is_file()
    assert (home / "work").readlink().is_relative_to("/proc/self/cwd")


def test_a_worker_finds_pyspark_beside_the_other_packages(tmp_path: Path) -> None:
    """Spark puts the zip of its home first; a module of a zip is compiled anew in every process."""
    first = spark_home(Cache(tmp_path)) / "python" / "lib" / "pyspark.zip"
    found = subprocess.run(
        [sys.executable, "-c", "import pyspark; print(pyspark.__file__)"],
        env={"PYTHONPATH": str(first)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ".zip" not in found
