"""Rows that a sink refuses for what they are: no task is repeated for them, and the error keeps its name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.toolchain.prepare import Toolchain
from tests.spark.conftest import OPTIONS

pytestmark = pytest.mark.spark

FAILURES = 16
JOB = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from effectively_once import errors
from effectively_once.driver import session
from effectively_once.driver.worker_errors import name_error

begun, kind, options, jars = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
spark = (
    SparkSession.builder.master("local[1,16]")
    .config("spark.driver.extraClassPath", jars).config("spark.driver.extraJavaOptions", options)
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false").config("spark.local.dir", str(begun.parent))
    .config("spark.plugins", session.REQUIRED["spark.plugins"]).getOrCreate()
)

def step(batches):
    with begun.open("a") as told:
        told.write("x")
    raise getattr(errors, kind)("a row is larger than the topic takes", "topic p.rows", "Raise it.")

try:
    spark.range(3).mapInArrow(step, "id long").toArrow()
except Exception as error:
    found = name_error(error)
    print("named", type(found).__name__, found)
spark.stop()
"""


def attempts(toolchain: Toolchain, folder: Path, kind: str) -> tuple[int, str]:
    """Run a job whose only task fails; return how often it was begun, and how the driver names what it came to."""
    begun = folder / "begun"
    env = {**os.environ, "JAVA_HOME": str(toolchain.java.parent.parent), "PYSPARK_PYTHON": sys.executable}
    jars = f"{toolchain.jvm_jar}:{toolchain.spark_jars}/*"
    asked = [sys.executable, "-c", JOB, str(begun), kind, f"{OPTIONS} -Djava.io.tmpdir={folder}", jars]
    ran = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=300, check=True)
    named = [line for line in ran.stdout.splitlines() if line.startswith("named ")]
    assert len(named) == 1, ran.stdout + ran.stderr
    return len(begun.read_text()), named[0]


def test_no_task_is_repeated_for_rows_that_a_sink_refuses(toolchain: Toolchain, tmp_path: Path) -> None:
    """One repeat may have begun before the stage was ended."""
    begun, named = attempts(toolchain, tmp_path, "RefusedRowsError")
    assert begun <= 3
    assert named == "named RefusedRowsError a row is larger than the topic takes (topic p.rows). Raise it."


def test_for_other_errors_it_is(toolchain: Toolchain, tmp_path: Path) -> None:
    begun, named = attempts(toolchain, tmp_path, "UnreachableError")
    assert begun == FAILURES
    assert named.startswith("named UnreachableError ")
