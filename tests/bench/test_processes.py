"""CPU seconds and the largest memory of a family of processes, by what they are."""

from __future__ import annotations

import os
import sys
import time

import pytest

from infra.embedded.process import wait_for
from tests.bench.cpu import Spent, watch_cpu
from tests.bench.errors import BenchError
from tests.bench.memory import ALL, DRIVER, EXECUTORS, WORKERS, Peaks, role_of, watch_memory

ONE, TWO, AGAIN = (7, 1.0), (8, 1.0), (7, 2.0)


def _looked() -> Spent:
    spent = Spent()
    spent.look(1_000, {"arm": [(ONE, 2.0)], "broker": [(TWO, 1.0)]})
    spent.look(2_000, {"arm": [(ONE, 4.0), (TWO, 1.0)], "broker": []})
    spent.look(3_000, {"arm": [(AGAIN, 0.5)], "broker": [(TWO, 3.0)]})
    return spent


def test_what_a_process_took_that_has_ended_still_counts_and_its_id_may_come_again() -> None:
    assert _looked().between(1_000, 3_000) == {"arm": 3.5, "broker": 2.0}


def test_between_two_looks_it_goes_on_evenly() -> None:
    assert _looked().between(1_500, 2_500) == {"arm": pytest.approx(1.75), "broker": pytest.approx(1.0)}


@pytest.mark.parametrize(("began", "ended"), [(999, 2_000), (1_000, 3_001)])
def test_moments_that_nobody_looked_at_have_no_time(began: int, ended: int) -> None:
    with pytest.raises(BenchError, match="not looked at from the warm-up to the end"):
        _looked().between(began, ended)


def test_this_process_takes_time_while_it_works() -> None:
    with watch_cpu({"arm": os.getpid(), "gone": 2**22 + 1}) as spent:
        began = time.time() * 1000
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        ended = time.time() * 1000
    found = spent.between(began, ended)
    assert 0.1 < found["arm"] < 3
    assert found["gone"] == 0


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
