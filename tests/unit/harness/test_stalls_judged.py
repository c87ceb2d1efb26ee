"""A stall is believed only when somebody stood still as planned, and tells what the pipeline did beyond a time-out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.checkers import faults
from tests.harness.checkers.stalls import LEAST_TIME_OUT_S
from tests.harness.report import naming
from tests.unit.harness.test_roles_judged import HISTORY, LATER, Row, assert_missed, checked, fault
from tests.unit.harness.witnessed import witnessed

SAME = "1@0.50"


def stall(target: str, after: str = SAME, **more: Any) -> Row:
    told = {"planned_s": 3.0, "stopped_s": 3.001, **more}
    return fault("stall", target, after=after, **told)


LAST: list[Row] = [
    {"t": 196_000, "event": "epoch", "epoch": 1, "state": "declared", "driver": 9},
    {"t": 196_500, "event": "epoch", "epoch": 1, "state": "published", "driver": 9, "ms": {"total": 500}},
]
"""Of a driver that goes on, whoever was away is back."""
STILL: list[Row] = [
    HISTORY[0],
    {**HISTORY[3], "t": 195_000, "driver": 1, "ms": {"total": 194_000}},
    *({**one, "driver": 1} for one in LAST),
]
"""The epoch stands still, and its driver goes on with it."""
GOOD = [
    stall("executor"),
    stall("executor", response="same"),
    stall("executor", stopped_s=40.0, planned_s=40.0, response="same"),
    stall("executor", after="5@5.50", stopped_s=27.5, planned_s=70.0, response="executor replaced"),
    stall("executor JVM", after="5@5.50", stopped_s=40.1, planned_s=40.0, response="executor replaced"),
    stall("python worker", after="5@5.50", stopped_s=150.0, planned_s=150.0, response="python worker replaced"),
    stall("driver", stopped_s=70.0, planned_s=70.0, response="executor replaced"),
    stall("driver", after="9@5.50", stopped_s=70.0, planned_s=70.0, response="driver replaced"),
    stall("broker", stopped_s=70.0, planned_s=70.0, response="driver replaced"),
    stall("object store", stopped_s=12.0, planned_s=12.0, response="driver replaced + executor replaced"),
    stall("kubelet", stopped_s=12.0, planned_s=12.0, response="same"),
    fault("task_kill", "task", spark_says="KILLED"),
    fault("stage_cancel", "stage", spark_says="FAILED"),
]


@pytest.mark.parametrize("event", GOOD, ids=lambda one: f"{one['target']} {one.get('response')}")
def test_a_stall_with_its_evidence_hit(event: Row) -> None:
    early = [HISTORY[0], {**HISTORY[1], "t": 5_500}, *HISTORY[2:]]
    stood_still = "stopped_s" in event and "driver replaced" not in event.get("response", "")
    one = checked(event, STILL if stood_still else [*early, *LAST])
    assert one.fault.hit, one.refuted
    assert one.fault.planned_s == event.get("planned_s")


@pytest.mark.parametrize("driver", ["driver-1578", "driver-1f0c2a7b"])
def test_tasks_are_named_by_their_driver_on_either_stack_and_no_witness_is_asked_for_them(driver: str) -> None:
    task = {"process_before": f"task 7 of stage 4.0@{driver}", "process_after": f"task 8 of stage 4.0@{driver}"}
    early = [HISTORY[0], {**HISTORY[1], "t": 5_500}, *HISTORY[2:]]
    seen = {"t": 900, "event": "process", "state": "seen", "process": "1@0.50"}
    (one,) = faults.check([*early, seen, {**fault("task_kill", "task", spark_says="KILLED"), **task}])
    assert one.fault.hit, one.refuted


LONG: dict[str, Any] = {"stopped_s": LEAST_TIME_OUT_S + 0.1, "planned_s": 10.0}
BAD = [
    (stall("executor", stopped_s=None), "stood still is not known"),
    (stall("executor", planned_s=None), "it was to stand still is not known"),
    (stall("executor", stopped_s=2.9), "2.9 s, and 3 s were planned"),
    (stall("executor", **LONG), "outlasted a time-out"),
    (stall("executor", **LONG, response="waited"), "nothing that a pipeline does"),
    (stall("executor", **LONG, response="same + executor replaced"), "nothing that a pipeline does"),
    (stall("executor", **LONG, response=""), "nothing that a pipeline does"),
    (stall("executor", after="5@5.50", **LONG, response="same"), "the response says same"),
    (stall("broker", **LONG, response="driver replaced", injected_at=6_500, healed_at=7_500), "none started after it"),
    (stall("broker", **LONG, response="same", healed_at=6_000), "a driver started while it stood still"),
    (stall("broker", **LONG, response="executor replaced", healed_at=6_000), "a driver started while it stood still"),
    (stall("driver", after="8@5.50", **LONG, response="driver replaced"), "took over"),
    (stall("executor", after=""), "before and after it is not known"),
    (stall("executor", healed_at=1_999), "undone before it came"),
    (fault("task_kill", "task"), "Spark does not say that it was killed, but nothing"),
    (fault("task_kill", "task", spark_says="SUCCESS"), "killed, but SUCCESS"),
    (fault("task_kill", "task", after=SAME, spark_says="KILLED"), "survived"),
    (fault("stage_cancel", "stage", spark_says="COMPLETE"), "failed, but COMPLETE"),
]


@pytest.mark.parametrize(("event", "why"), BAD)
def test_a_stall_without_its_evidence_did_not_hit(event: Row, why: str) -> None:
    assert_missed(event, why)


@pytest.mark.parametrize("at", [999, 8_500])
def test_a_stall_outside_a_running_epoch_did_not_hit(at: int) -> None:
    assert_missed(stall("executor", injected_at=at, healed_at=9_000), "was not running")


def test_a_process_that_stalled_can_be_struck_again() -> None:
    last = [{**one, "t": one["t"] + 12_000, "epoch": 2} for one in LATER]
    again = stall("executor", injected_at=10_000, healed_at=13_001, epoch=1)
    twice = [*HISTORY, *LATER, *last, stall("executor"), again]
    assert [one.fault.hit for one in faults.check(witnessed(twice))] == [True, True]


def test_reports_have_words_for_stalls() -> None:
    assert naming.describe_deed(stall("executor")) == "stalled, for 3.0\u202fs"
    assert naming.place("executor JVM") < naming.place("broker")
    assert naming.place("kubelet") < naming.place("anything else")
