"""The largest memory by what processes are."""

from __future__ import annotations

import os
import sys

import pytest

from infra.embedded.process import wait_for
from tests.bench.memory import ALL, DRIVER, EXECUTORS, WORKERS, Peaks, role_of, watch_memory

MIB = 2**20
JAVA = ["java", "-cp", "jars/*", "org.apache.spark.deploy.SparkSubmit"]
EXECUTOR = ["java", "-Xmx2048M", "org.apache.spark.executor.CoarseGrainedExecutorBackend", "--driver-url", "spark://"]
WORKER = ["python", "-m", "pyspark.daemon", "pyspark.worker"]
PYTHON = ["python", "-m", "effectively_once_jobs.user_counts", "h0.json"]


@pytest.mark.parametrize(
    ("command", "role"), [(JAVA, DRIVER), (PYTHON, DRIVER), ([], DRIVER), (EXECUTOR, EXECUTORS), (WORKER, WORKERS)]
)
def test_a_process_is_what_its_command_line_says(command: list[str], role: str) -> None:
    assert role_of(command) == role


def test_the_largest_is_that_of_one_moment_not_of_one_process() -> None:
    peaks = Peaks()
    peaks.look([(JAVA, 10 * MIB), (PYTHON, MIB), (EXECUTOR, 20 * MIB), (EXECUTOR, 30 * MIB), (WORKER, 5 * MIB)])
    peaks.look([(JAVA, 12 * MIB), (EXECUTOR, 40 * MIB), (WORKER, 6 * MIB), (WORKER, 6 * MIB)])
    peaks.look([])
    assert peaks.mib == {DRIVER: 12.0, EXECUTORS: 50.0, WORKERS: 12.0, ALL: 66.0}


def test_a_process_is_watched_for_the_time_of_the_block() -> None:
    with watch_memory(os.getpid()) as peaks:
        wait_for("a look", 10, lambda: peaks.mib[ALL] > 0)
    seen = peaks.mib
    assert seen[ALL] >= seen[DRIVER] > 1, sys.argv


def test_one_that_is_not_there_takes_nothing() -> None:
    with watch_memory(2**22 + 1) as peaks:
        pass
    assert set(peaks.mib.values()) == {0.0}
