"""Spark is asked to end a task or a stage: the driver's side on a Spark of plain data, and the fault on real files."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.harness import with_requests
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.spark_requests import SparkRequests
from tests.harness.faults import spark_request
from tests.harness.faults.spark_request import EndedBySpark
from tests.harness.schedule import DECLARED, PlannedFault, Strike
from tests.harness.with_requests import ASKED, FAILED, KILLED, STAGE_CANCEL, TASK_KILL, serve
from tests.unit.harness.sleepers import soon

PLANNED = PlannedFault(1, DECLARED, None, 0, Strike(TASK_KILL, "task"))


class Value:
    """Anything of Spark's that is read by calling it."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        return lambda: self.values[name]


class Spark:
    """A SparkContext of plain data: stage 4 runs two tasks; what is killed is begun again, what is cancelled fails."""

    def __init__(self, *, begins_again: bool = True, ends: str = KILLED) -> None:
        self.tasks = {7: "RUNNING", 8: "RUNNING"}
        self.index = {7: 0, 8: 1}
        self.active, self.states = [4], {4: "ACTIVE"}
        self.begins_again, self.ends = begins_again, ends
        self.asked: list[tuple[Any, ...]] = []
        self._jsc = self
        self.sc = self.statusTracker = self.statusStore = lambda: self

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 - Spark's name
        return self.active

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802 - Spark's name
        return type("Info", (), {"currentAttemptId": 0})()

    def taskList(self, stage: int, attempt: int, most: int) -> Any:  # noqa: N802 - Spark's name
        there = [Value(taskId=one, index=self.index[one], status=state) for one, state in self.tasks.items()]
        return type("Seq", (), {"size": lambda _: len(there), "apply": lambda _, number: there[number]})()

    def lastStageAttempt(self, stage: int) -> Value:  # noqa: N802 - Spark's name
        return Value(status=Value(toString=self.states[stage]))

    def killTaskAttempt(self, number: int, interrupt: bool, reason: str) -> bool:  # noqa: N802 - Spark's name
        self.asked.append(("kill", number, interrupt))
        self.tasks[number] = self.ends
        if self.begins_again:
            self.tasks[12], self.index[12] = "RUNNING", self.index[number]
        return True

    def cancelStage(self, stage: int, reason: str) -> None:  # noqa: N802 - Spark's name
        self.asked.append(("cancel", stage))
        self.states[stage] = FAILED if self.ends == KILLED else self.ends
        self.active = [6] if self.begins_again else []


class Driver:
    """Who serves requests beside a job, in a thread."""

    def __init__(self, folder: Path, spark: Spark | None) -> None:
        self.requests = SparkRequests(folder)
        self.driver: int | str | None = 99
        self.spark, self.ended = spark, threading.Event()
        self.thread = threading.Thread(target=serve, args=(folder, lambda: self.spark, self.ended), daemon=True)
        self.thread.start()

    def fault(self, kind: str) -> EndedBySpark:
        made = EndedBySpark(self.requests, kind, self)  # type: ignore[arg-type]
        made.prepare(PLANNED)
        return made

    def end(self) -> None:
        self.ended.set()
        self.thread.join(5.0)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setattr(with_requests, "OUTCOME_S", 0.3)
    made = Driver(tmp_path / "requests", Spark())
    yield made
    made.end()


@pytest.mark.parametrize(
    ("kind", "follows", "says"),
    [(TASK_KILL, "task 12 of stage 4.0", KILLED), (STAGE_CANCEL, "stage 6.0", FAILED)],
)
def test_what_runs_is_ended_and_its_work_is_begun_again(driver: Driver, kind: str, follows: str, says: str) -> None:
    fault = driver.fault(kind)
    ((who, at),) = fault.strike({})
    assert driver.spark is not None
    ((what, number, *interrupted),) = driver.spark.asked
    assert who.startswith(f"task {number} of stage 4.0@driver-" if what == "kill" else "stage 4.0@driver-")
    assert all(interrupted), "the thread of a task is interrupted, as by a user"
    soon("what became of it", lambda: fault.after() != [])
    assert fault.after()[0].startswith(f"{follows}@driver-")
    assert fault.landed()
    assert fault.evidence() == {"spark_says": says}
    assert at > 0


@pytest.mark.parametrize("kind", [TASK_KILL, STAGE_CANCEL])
@pytest.mark.parametrize("spark", [{"begins_again": False}, {"ends": "SUCCESS"}, {"ends": "COMPLETE"}])
def test_what_was_done_before_or_is_not_begun_again_did_not_land(
    driver: Driver, kind: str, spark: dict[str, Any]
) -> None:
    driver.spark = Spark(**spark)
    fault = driver.fault(kind)
    fault.strike({})
    soon("what became of it", lambda: fault.after() != [])
    assert not fault.landed()


@pytest.mark.parametrize(("kind", "why"), [(TASK_KILL, "no task runs"), (STAGE_CANCEL, "no stage runs")])
def test_where_nothing_runs_it_misses(driver: Driver, kind: str, why: str) -> None:
    assert driver.spark is not None
    driver.spark.active = []
    with pytest.raises(NoProcessError, match=why):
        driver.fault(kind).strike({})
    driver.spark = None
    with pytest.raises(NoProcessError, match="no session"):
        driver.fault(kind).strike({})


def test_an_error_of_spark_is_an_answer_and_the_next_request_is_taken(driver: Driver) -> None:
    driver.spark = None
    broken = driver.fault("nothing")
    driver.spark = Spark()
    with pytest.raises(NoProcessError, match="KeyError"):
        broken.strike({})
    assert driver.fault(TASK_KILL).strike({})


def test_a_driver_that_does_not_answer_is_a_miss_and_the_request_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_request, "ANSWER_S", 0.1)
    requests = SparkRequests(tmp_path)
    with pytest.raises(NoProcessError, match="no answer"):
        EndedBySpark(requests, TASK_KILL, type("D", (), {"driver": 1})()).strike({})
    assert not (tmp_path / ASKED).exists(), "the next driver does not carry it out"


def test_with_its_driver_what_became_of_it_is_lost_and_that_is_a_miss(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(with_requests, "OUTCOME_S", 60.0)
    driver.spark = Spark(begins_again=False)
    fault = driver.fault(TASK_KILL)
    ((who, _),) = fault.strike({})
    assert fault.after() == []
    driver.driver = 100
    assert fault.after() == [who]
    assert not fault.landed()
    driver.spark.begins_again = True
    driver.spark.tasks[12], driver.spark.index[12] = "RUNNING", driver.spark.index[int(who.split()[1])]
    soon("its thread to be free again", fault.landed)


def test_a_job_runs_below_it_as_it_does_alone(tmp_path: Path) -> None:
    (tmp_path / "a_job.py").write_text(
        "import sys\nif __name__ == '__main__':\n    print(__name__, sys.argv[1:])\n    sys.exit(7)\n"
    )
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"job": "a_job"}))
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.with_requests", str(settings)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{CHECKOUT}:{tmp_path}", with_requests.VARIABLE: str(tmp_path)},
    )
    assert (done.returncode, done.stdout.strip()) == (7, f"__main__ ['{settings}']"), done.stderr
