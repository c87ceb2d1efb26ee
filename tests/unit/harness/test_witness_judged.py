"""What an injector invents is caught by what others tell: kernel or Kubernetes, and the pipeline itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.witness import UNWITNESSED, complaint
from tests.harness.judge.verdict import judge
from tests.harness.results import Fault, Verdict
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.tamper import change_lines


def of_faults(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["event"] == "fault"]


def never_existed(rows: list[Row]) -> None:
    of_faults(rows)[0]["process_before"] = "31999@1749999999.00"


def successor_never_existed(rows: list[Row]) -> None:
    of_faults(rows)[0]["process_after"] = "31999@1750000009.00"


def began_before(rows: list[Row]) -> None:
    """The successor is a process that really was there, and long before."""
    first = of_faults(rows)[0]
    who = first["process_after"] = "31999@1749999999.00"
    rows.insert(1, {"t": rows[0]["t"], "event": "process", "state": "seen", "process": who, "role": "executor"})


def driver_as_executor(rows: list[Row]) -> None:
    """The successor is a driver."""
    first, second = of_faults(rows)
    first["process_after"] = second["process_before"]


def full_moon(rows: list[Row]) -> None:
    of_faults(rows)[0]["phase"] = "full_moon"


def step_of_another_epoch(rows: list[Row]) -> None:
    of_faults(rows)[0]["phase"] = "transaction_open:user_counts"


def step_before(rows: list[Row]) -> None:
    """The epoch had come by it too, and the blow was at a later one."""
    of_faults(rows)[0]["phase"] = "ids_decided"


def another_shard(rows: list[Row]) -> None:
    of_faults(rows)[0]["shard"] = 1


def another_moment(rows: list[Row]) -> None:
    of_faults(rows)[0]["announced_at"] += 1


def no_announcement(rows: list[Row]) -> None:
    del of_faults(rows)[0]["announced_at"]


def driver_of_another_start(rows: list[Row]) -> None:
    """Its pid announced itself, and the witness knows since when it was there."""
    fault = of_faults(rows)[1]
    fault["process_before"] = fault["process_before"].partition("@")[0] + "@1749990000.00"


def successor_of_another_start(rows: list[Row]) -> None:
    fault = of_faults(rows)[1]
    fault["process_after"] = fault["process_after"].partition("@")[0] + "@1850000000.00"


def told_twice(rows: list[Row]) -> None:
    """The second fault is the first one again, some moments later and by another name."""
    first, second = of_faults(rows)
    second.update(first, process_before="31999@1749999999.00", injected_at=first["injected_at"] + 1)


def told_twice_by_its_name(rows: list[Row]) -> None:
    first, second = of_faults(rows)
    second.update(first, injected_at=first["injected_at"] + 1)


def stretched(rows: list[Row]) -> None:
    """The struck epoch is told to have run from the begin to the end, so that no fault can miss it."""
    epoch = of_faults(rows)[0]["epoch"]
    mine = [row for row in rows if row["event"] == "epoch" and row["epoch"] == epoch]
    mine[0]["t"], mine[-1]["t"] = rows[0]["t"], rows[-1]["t"] + 60_000
    of_faults(rows)[0]["injected_at"] = rows[-1]["t"] + 10


def survived(rows: list[Row]) -> None:
    """It was never seen to end."""
    who = of_faults(rows)[0]["process_before"]
    rows[:] = [row for row in rows if not (row.get("process") == who and row["state"] == "gone")]


def gone_before(rows: list[Row], ms: int = 500) -> None:
    who = of_faults(rows)[0]["process_before"]
    gone = next(row for row in rows if row.get("process") == who and row["state"] == "gone")
    gone["t"] = of_faults(rows)[0]["injected_at"] - ms


def struck_first_before_its_epoch(rows: list[Row]) -> None:
    of_faults(rows)[0]["first_at"] = of_faults(rows)[0]["injected_at"] - 60_000


def struck_first_after_the_last(rows: list[Row]) -> None:
    of_faults(rows)[0]["first_at"] = of_faults(rows)[0]["injected_at"] + 1


def ended_by_itself(rows: list[Row]) -> None:
    who = of_faults(rows)[0]["process_before"]
    next(row for row in rows if row.get("process") == who and row["state"] == "gone")["code"] = 0


def another_role(rows: list[Row]) -> None:
    who = of_faults(rows)[0]["process_before"]
    for row in rows:
        if row.get("process") == who:
            row["role"] = "broker"


def nobody_looked(rows: list[Row]) -> None:
    rows[:] = [row for row in rows if row["event"] != "process"]


@pytest.mark.parametrize(
    ("invents", "why"),
    [
        (never_existed, "nobody but the injector saw 31999@"),
        (successor_never_existed, "nobody but the injector saw 31999@"),
        (began_before, "took no place: it began"),
        (driver_as_executor, "is no executor: it announced itself as a driver"),
        (full_moon, "had not come by 'full_moon'"),
        (step_of_another_epoch, "had not come by 'transaction_open:user_counts'"),
        (step_before, "did not announce 'ids_decided' of shard 0 at"),
        (another_shard, "did not announce 'transaction_open:accepted' of shard 1 at"),
        (another_moment, "did not announce 'transaction_open:accepted' of shard 0 at"),
        (no_announcement, "names no announcement that it struck at, and other faults do"),
        (driver_of_another_start, "its pid was that of"),
        (successor_of_another_start, "its pid was that of"),
        (told_twice, ""),
        (told_twice_by_its_name, "was killed before"),
        (stretched, "is told to have taken"),
        (survived, "was not seen to end"),
        (gone_before, "500 ms before it is told to have been struck"),
        (struck_first_before_its_epoch, "its first blow fell before its epoch was running"),
        (struck_first_after_the_last, "its first blow fell before its epoch was running, or not before the last"),
        (ended_by_itself, "was not killed: it ended with exit code 0"),
        (another_role, "is no executor, but a broker"),
        (nobody_looked, UNWITNESSED),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_was_invented_is_unknown(run: Path, invents: Callable[[list[Row]], Any], why: str) -> None:
    change_lines(run / "history.jsonl", invents)
    found = judge(run, write=False).oracle("faults")
    assert found.verdict is Verdict.UNKNOWN
    assert any(why in one for one in found.evidence), found.evidence


def test_of_two_that_are_struck_one_after_the_other_the_first_may_be_gone_before_the_second(run: Path) -> None:
    def first(rows: list[Row], before_ms: int) -> None:
        gone_before(rows, ms=5)
        of_faults(rows)[0]["first_at"] = of_faults(rows)[0]["injected_at"] - before_ms

    change_lines(run / "history.jsonl", lambda rows: first(rows, 5))
    assert judge(run, write=False).oracle("faults").verdict is Verdict.PASS
    change_lines(run / "history.jsonl", lambda rows: first(rows, 4))
    found = judge(run, write=False).oracle("faults")
    assert found.verdict is Verdict.UNKNOWN
    assert any("was gone 1 ms before" in one for one in found.evidence), found.evidence


POD, UID = "uc-exec-2", "29dc57ce-1990-49eb-9b77-9abc62eb50a5"
STALLED = Fault(
    kind="stall",
    target="python worker",
    phase="committed:accepted",
    epoch=5,
    injected_at=2_000,
    healed_at=2_500,
    process_before=f"{POD}@{UID}/worker-52",
    process_after=f"{POD}@{UID}/worker-52",
    recovered_s=1.0,
    hit=True,
)


@pytest.mark.parametrize(
    ("announces", "why"),
    [
        ({}, None),
        ({"pid": 53}, "nobody but the injector saw"),
        ({"pod": "uc-exec-1"}, "nobody but the injector saw"),
        ({"pod_uid": "29dc57ce-1990-49eb-9b77-9abc62eb50a6"}, "nobody but the injector saw"),
    ],
)
def test_a_worker_in_a_pod_is_seen_by_what_it_announced_itself(announces: Row, why: str | None) -> None:
    """The node tells of containers alone, and one number is that of a worker in every pod."""
    step = {"event": "step", "epoch": 5, "shard": 0, "step": "committed", "sink": "accepted", "t": 1_900}
    mine: Row = {**step, "pod": POD, "pod_uid": UID, "pid": 52, **announces}
    there = {"event": "process", "process": f"{POD}@{UID}/ab12", "role": "executor", "state": "seen", "t": 1_000}
    said = complaint(STALLED, [there, mine])
    assert said is None if why is None else why in (said or "")


def test_an_attempt_that_is_no_number_does_not_end_the_judge(run: Path) -> None:
    def as_text(rows: list[Row]) -> None:
        next(row for row in rows if row["event"] == "step")["attempt"] = "0"

    change_lines(run / "history.jsonl", as_text)
    assert judge(run, write=False).oracle("history").verdict is Verdict.UNKNOWN


def test_a_history_in_which_no_fault_names_an_announcement_is_of_before_they_did(run: Path) -> None:
    def forget(rows: list[Row]) -> None:
        for fault in of_faults(rows):
            del fault["announced_at"], fault["shard"]

    change_lines(run / "history.jsonl", forget)
    assert judge(run, write=False).oracle("faults").verdict is Verdict.PASS


def test_a_pid_may_be_another_process_at_another_time() -> None:
    """The one that was struck came between two looks of the witness, which saw who had its pid before."""
    fault = Fault(
        kind="sigstop",
        target="driver",
        phase="declared",
        epoch=5,
        injected_at=2_000_000_000_000,
        hit=True,
        process_before="7@1999999999.00",
        process_after="7@1999999999.00",
    )
    begun = {"t": 1_999_999_999_500, "event": "driver", "state": "started", "pid": 7}
    declared = {"t": 1_999_999_999_900, "event": "epoch", "state": "declared", "epoch": 5}
    seen = {"t": 1_000, "event": "process", "state": "seen", "process": "7@1.00"}
    gone = {**seen, "t": 1_999_999_000_000, "state": "gone", "last": 1_999_998_000_000}
    assert complaint(fault, [seen, gone, begun, declared]) is None
    assert "its pid was that of 7@1.00" in (complaint(fault, [seen, begun, declared]) or "")
