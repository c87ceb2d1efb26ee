"""What an injector invents is caught by what others tell: kernel or Kubernetes, and the pipeline itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.witness import UNWITNESSED, complaint
from tests.harness.results import Fault
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import PASS, UNKNOWN, expect
from tests.unit.harness.tamper import Change, history


def of_faults(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["event"] == "fault"]


def of_fault(**fields: Any) -> Callable[[list[Row]], Any]:
    """The first fault is told otherwise."""
    return lambda rows: of_faults(rows)[0].update(fields)


def moved(field: str, of: str, by_ms: int) -> Callable[[list[Row]], Any]:
    """A time of the first fault is so far from another."""
    return lambda rows: of_faults(rows)[0].update({field: of_faults(rows)[0][of] + by_ms})


def of_another_start(field: str, started_s: str) -> Callable[[list[Row]], Any]:
    """The pid of the second fault announced itself, and the witness knows since when it was there."""
    return lambda rows: of_faults(rows)[1].update({field: f"{of_faults(rows)[1][field].partition('@')[0]}@{started_s}"})


def end_of_first(rows: list[Row]) -> Row:
    """What the witness noted of the end of who was struck first."""
    who = of_faults(rows)[0]["process_before"]
    return next(row for row in rows if row.get("process") == who and row["state"] == "gone")


def began_before(rows: list[Row]) -> None:
    """The successor is a process that really was there, and long before."""
    first = of_faults(rows)[0]
    who = first["process_after"] = "31999@1749999999.00"
    rows.insert(1, {"t": rows[0]["t"], "event": "process", "state": "seen", "process": who, "role": "executor"})


def driver_as_executor(rows: list[Row]) -> None:
    """The successor is a driver."""
    first, second = of_faults(rows)
    first["process_after"] = second["process_before"]


def repeat_fault(rows: list[Row]) -> None:
    """The second fault is the first one again, some moments later and by another name."""
    first, second = of_faults(rows)
    second.update(first, process_before="31999@1749999999.00", injected_at=first["injected_at"] + 1)


def repeat_fault_by_its_name(rows: list[Row]) -> None:
    first, second = of_faults(rows)
    second.update(first, injected_at=first["injected_at"] + 1)


def stretch_epoch(rows: list[Row]) -> None:
    """The struck epoch is told to have run from the begin to the end, so that no fault can miss it."""
    epoch = of_faults(rows)[0]["epoch"]
    mine = [row for row in rows if row["event"] == "epoch" and row["epoch"] == epoch]
    mine[0]["t"], mine[-1]["t"] = rows[0]["t"], rows[-1]["t"] + 60_000
    of_faults(rows)[0]["injected_at"] = rows[-1]["t"] + 10


def survive(rows: list[Row]) -> None:
    rows.remove(end_of_first(rows))


def end_before(rows: list[Row], ms: int = 500) -> None:
    end_of_first(rows)["t"] = of_faults(rows)[0]["injected_at"] - ms


def another_role(rows: list[Row]) -> None:
    who = of_faults(rows)[0]["process_before"]
    for row in rows:
        if row.get("process") == who:
            row["role"] = "broker"


INVENTED: list[tuple[Callable[[list[Row]], Any], str]] = [
    (of_fault(process_before="31999@1749999999.00"), "nobody but the injector saw 31999@"),
    (of_fault(process_after="31999@1750000009.00"), "nobody but the injector saw 31999@"),
    (began_before, "took no place: it began"),
    (driver_as_executor, "is no executor: it announced itself as a driver"),
    (of_fault(phase="full_moon"), "had not come by 'full_moon'"),
    (of_fault(phase="transaction_open:user_counts"), "had not come by 'transaction_open:user_counts'"),
    # The epoch had come by it too, and the blow was at a later one.
    (of_fault(phase="ids_decided"), "did not announce 'ids_decided' of shard 0 at"),
    (of_fault(shard=1), "did not announce 'transaction_open:accepted' of shard 1 at"),
    (moved("announced_at", "announced_at", 1), "did not announce 'transaction_open:accepted' of shard 0 at"),
    (
        lambda rows: of_faults(rows)[0].pop("announced_at"),
        "names no announcement that it struck at, and other faults do",
    ),
    (of_another_start("process_before", "1749990000.00"), "its pid was that of"),
    (of_another_start("process_after", "1850000000.00"), "its pid was that of"),
    (repeat_fault, ""),
    (repeat_fault_by_its_name, "was killed before"),
    (stretch_epoch, "is told to have taken"),
    (survive, "was not seen to end"),
    (end_before, "500 ms before it is told to have been struck"),
    (moved("first_at", "injected_at", -60_000), "its first blow fell before its epoch was running"),
    (moved("first_at", "injected_at", 1), "its first blow fell before its epoch was running, or not before the last"),
    (lambda rows: end_of_first(rows).update(code=0), "was not killed: it ended with exit code 0"),
    (another_role, "is no executor, but a broker"),
    (lambda rows: rows.__setitem__(slice(None), [row for row in rows if row["event"] != "process"]), UNWITNESSED),
]


@pytest.mark.parametrize(("invents", "why"), INVENTED, ids=[why or "told twice" for _, why in INVENTED])
@pytest.mark.thinned(3)
def test_what_was_invented_is_unknown(run: Path, invents: Callable[[list[Row]], Any], why: str) -> None:
    history(invents)(run)
    expect(run, UNKNOWN, "faults", why)


def test_of_two_that_are_struck_one_after_the_other_the_first_may_be_gone_before_the_second(run: Path) -> None:
    def first(before_ms: int) -> Change:
        def change(rows: list[Row]) -> None:
            end_before(rows, ms=5)
            moved("first_at", "injected_at", -before_ms)(rows)

        return history(change)

    first(5)(run)
    expect(run, PASS, "faults")
    first(4)(run)
    expect(run, UNKNOWN, "faults", "was gone 1 ms before")


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
    history(lambda rows: next(row for row in rows if row["event"] == "step").update(attempt="0"))(run)
    expect(run, UNKNOWN, "history")


def test_a_history_in_which_no_fault_names_an_announcement_is_of_before_they_did(run: Path) -> None:
    history(lambda rows: [(fault.pop("announced_at"), fault.pop("shard")) for fault in of_faults(rows)])(run)
    expect(run, PASS, "faults")


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
