"""A driver in a pod is asked to have Spark end a task or stage: scripts in a real shell, its side in a thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness import with_requests
from tests.harness.adapters import pod_requests
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.pod_log import DRIVER, Pod, driver_name
from tests.harness.adapters.pod_requests import PodRequests, values_of_requests
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults import spark_request
from tests.harness.faults.spark_request import EndedBySpark
from tests.harness.schedule import DECLARED, PlannedFault
from tests.harness.stall_sorts import REQUESTS
from tests.harness.with_requests import ASKED, FAILED, KILLED, STAGE_CANCEL, TASK_KILL, VARIABLE, serve
from tests.unit.cluster.fake_platform import Shell
from tests.unit.harness.sleepers import soon
from tests.unit.harness.test_spark_requests import Spark

ROOT = Path(__file__).parents[3]
POD = Pod("uc-1-driver", "0000000a-0000-0000-0000-000000000000", DRIVER, "uc-1", "spark", started=True)
NEXT = replace(POD, uid="0000000b-0000-0000-0000-000000000000")


class Pods:
    """Drivers and the cluster that they are in: a shell of this machine in the place of each exec."""

    def __init__(self) -> None:
        self.pod, self.cluster, self.name = POD, self, "uc-1"
        self.dumb, self.gone = False, False

    @property
    def driver(self) -> str:
        return driver_name(self.pod)

    def running(self) -> Pod:
        if not self.pod.runs:
            raise NoProcessError("no driver of uc-1 runs")
        return self.pod

    def enter(self, _pod: str, _container: str, script: str) -> Shell:
        if self.gone:
            raise NoProcessError("pod uc-1-driver cannot be entered: 404 Not Found")
        return Shell("read -r _ < /dev/null; echo" if self.dumb else script)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pod_requests, "FOLDER", str(tmp_path / "requests"))
    monkeypatch.setattr(with_requests, "OUTCOME_S", 0.3)
    return tmp_path / "requests"


@pytest.fixture
def pods() -> Pods:
    return Pods()


@pytest.fixture
def spark(folder: Path) -> Iterator[Spark]:
    """What the driver has, which takes requests as long as the test lasts."""
    made, ended = Spark(), threading.Event()
    thread = threading.Thread(target=serve, args=(folder, lambda: made, ended), daemon=True)
    thread.start()
    yield made
    ended.set()
    thread.join(5.0)


def fault(pods: Pods, kind: str) -> EndedBySpark:
    drivers = cast("SupervisedPods", pods)
    made = EndedBySpark(PodRequests(drivers), kind, drivers)
    strike = next(one for one in REQUESTS.values() if one.kind == kind)
    made.prepare(PlannedFault(1, DECLARED, None, 0, strike))
    return made


@pytest.mark.parametrize(
    ("kind", "says", "after"),
    [(TASK_KILL, KILLED, "task 12 of stage 4.0"), (STAGE_CANCEL, FAILED, "stage 6.0")],
)
def test_spark_in_a_pod_ends_it_and_it_is_named_by_the_drivers_pod(
    pods: Pods, spark: Spark, kind: str, says: str, after: str
) -> None:
    one = fault(pods, kind)
    ((who, at),) = one.strike({})
    assert who.endswith("stage 4.0@driver-0000000a")
    assert at > 0
    soon("what became of it", lambda: one.after() != [])
    assert one.after() == [f"{after}@driver-0000000a"]
    assert one.landed()
    assert one.evidence() == {"spark_says": says}
    assert len(spark.asked) == 1


def test_with_its_pod_an_answer_is_lost_and_that_is_a_miss(
    pods: Pods, spark: Spark, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next driver's pod has the name of the one before, and an empty folder."""
    spark.begins_again = False
    monkeypatch.setattr(with_requests, "OUTCOME_S", 0.5)
    one = fault(pods, TASK_KILL)
    ((who, _),) = one.strike({})
    assert one.after() == [], "as long as the driver lives it may still say so"
    for left in folder.iterdir():
        left.unlink()
    pods.pod = NEXT
    assert one.after() == [who]
    assert not one.landed()
    pods.gone = True
    assert one.after() == [who]
    assert not one.landed()


def test_what_a_pod_said_last_holds_when_it_cannot_be_entered_any_more(pods: Pods, spark: Spark) -> None:
    one = fault(pods, TASK_KILL)
    one.strike({})
    soon("what became of it", lambda: one.after() != [])
    pods.gone, pods.pod = True, NEXT
    assert one.landed()
    assert one.evidence() == {"spark_says": KILLED}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"gone": True}, "cannot be entered"),
        ({"dumb": True}, "does not take a request"),
        ({"pod": replace(POD, exit_code=137)}, "no driver of uc-1 runs"),
        ({}, "no answer"),
    ],
)
def test_a_driver_that_is_gone_or_silent_is_a_miss_and_no_later_one_is_asked(
    pods: Pods, folder: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], why: str
) -> None:
    monkeypatch.setattr(spark_request, "ANSWER_S", 0.1)
    for name, value in change.items():
        setattr(pods, name, value)
    with pytest.raises(NoProcessError, match=why):
        fault(pods, TASK_KILL).strike({})
    assert not (folder / ASKED).exists()


def test_the_file_takes_requests_without_this_repository_and_runs_the_job_below_it(tmp_path: Path) -> None:
    """As a pod does: by the image's own starter, with nothing of ours on the path but what is mounted there."""
    values = values_of_requests()
    for name, text in values["extraFiles"].items():
        (tmp_path / name).write_text(text)
    (tmp_path / "a_job.py").write_text(
        "import sys, time\nif __name__ == '__main__':\n    print(__name__, sys.argv[1:])\n    time.sleep(0.8)\n"
        "    sys.exit(7)\n"
    )
    settings, requests = tmp_path / "settings.json", tmp_path / "requests"
    settings.write_text(json.dumps({"job": "a_job"}))
    requests.mkdir()
    (requests / ASKED).write_text(json.dumps({"number": 1, "kind": TASK_KILL, "draw": 0}))
    done = subprocess.run(
        [sys.executable, ROOT / "images" / "spark" / "job.py", values["module"], settings],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": os.defpath, VARIABLE: str(requests)},
    )
    assert (done.returncode, done.stdout.strip()) == (7, f"__main__ ['{settings}']"), done.stderr
    answer = json.loads((requests / with_requests.ANSWER).read_text())
    assert answer["missed"] == "there is no session"


def test_pods_know_where_requests_are() -> None:
    values = values_of_requests()
    assert values["environment"] == {VARIABLE: pod_requests.FOLDER}
    assert list(values["extraFiles"]) == [f"{values['module']}.py"]
