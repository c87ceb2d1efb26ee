"""That a driver was killed excuses its refusal, and a missing end, only where others than who tells it say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.endings import Endings
from tests.harness.results import Effect, Fault
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, expect_run, oracle_of
from tests.unit.harness.refused_run import WORDS, refused
from tests.unit.harness.tamper import history, lines_of

WHO = "7@1.00"
STARTED: Row = {"t": 1_500, "event": "driver", "state": "started", "pid": 7, "generation": 1}
KILLED: Row = {"t": 5_100, "event": "driver", "state": "killed", "pid": 7, "process": WHO}
SEEN: Row = {"t": 1_100, "event": "process", "state": "seen", "process": WHO}
GONE: Row = {"t": 5_200, "event": "process", "state": "gone", "process": WHO, "last": 5_000, "code": -9}
REFUSED: Row = {"t": 6_000, "event": "driver", "state": "ended", "pid": 7, "code": 76, "says": WORDS}
POD, UID = "uc-driver", "0fe1b2aa-0000-0000-0000-000000000000"


def blow(kind: str = "sigkill", **more: Any) -> Fault:
    told: Row = {
        "target": "driver",
        "process_before": WHO,
        "process_after": "8@5.50",
        "injected_at": 5_000,
        "effect": Effect.SUCCEEDED,
        "hit": True,
        **more,
    }
    return Fault(kind=kind, **told)


WAS_KILLED: dict[str, tuple[list[Row], list[Fault]]] = {
    "blow": ([STARTED, KILLED], [blow()]),
    "deleted": ([STARTED, KILLED], [blow("pod_delete_graceful")]),
    "with another": ([STARTED, KILLED], [blow("away", process_before=f"6@0.50 + {WHO}")]),
    "witness": ([STARTED, SEEN, GONE, KILLED], []),
    "another reckoning of its start": (
        [STARTED, {**SEEN, "process": "7@1.01"}, {**GONE, "process": "7@1.01"}, KILLED],
        [],
    ),
    "words before its end": ([STARTED, KILLED, {**REFUSED, "code": -9}], [blow()]),
}


@pytest.mark.parametrize("what", WAS_KILLED)
def test_a_driver_that_others_say_was_killed_was(what: str) -> None:
    ends = Endings(*WAS_KILLED[what])
    assert ends.is_killed(7)
    assert not ends.complaints()


ONE_LINE_SAYS_SO: dict[str, tuple[list[Row], list[Fault]]] = {
    "nobody": ([KILLED], []),
    "missed": ([KILLED], [blow(hit=False)]),
    "stopped": ([KILLED], [blow("stall")]),
    "zombie": ([KILLED], [blow("zombie")]),
    "task": ([KILLED], [blow("task_kill")]),
    "another": ([KILLED], [blow(process_before="70@1.00")]),
    "successor": ([KILLED], [blow(process_before="8@1.00", process_after=WHO)]),
    "before the blow": ([KILLED], [blow(injected_at=7_000)]),
    "long after it": ([{**KILLED, "t": 90_000}], [blow()]),
    "exit code 76": ([SEEN, {**GONE, "code": 76}, KILLED], []),
    "exit code 0": ([SEEN, {**GONE, "code": 0}, KILLED], []),
    "long after its end": ([SEEN, GONE, {**KILLED, "t": 90_000}], []),
    "still there": ([SEEN, KILLED], []),
    "end of another": ([{**SEEN, "process": "9@1.00"}, {**GONE, "process": "9@1.00"}, KILLED], []),
    "another of its pid struck": ([{**KILLED, "process": "7@3.00"}], [blow()]),
    "another of its pid seen": ([SEEN, GONE, {**KILLED, "process": "7@3.00"}], []),
    "blow and own exit code": ([KILLED, REFUSED], [blow()]),
    "witness and own exit code": ([SEEN, GONE, KILLED, REFUSED], []),
}


@pytest.mark.parametrize("what", ONE_LINE_SAYS_SO)
def test_a_driver_of_which_one_line_alone_says_so_was_not_killed(what: str) -> None:
    events, faults = ONE_LINE_SAYS_SO[what]
    ends = Endings([STARTED, *events], faults)
    assert not ends.is_killed(7)
    assert any("driver 7 is told to have been killed, and neither" in one for one in ends.complaints())


def test_an_end_of_which_nobody_could_read_the_exit_code_excuses_no_refusal() -> None:
    ends = Endings([STARTED, SEEN, {**GONE, "code": None}, KILLED], [])
    assert not ends.is_killed(7)
    assert not ends.complaints()


def test_a_pod_is_known_by_the_begin_of_its_uid() -> None:
    line = {**KILLED, "pid": f"{POD}@{UID[:8]}", "process": f"{POD}@{UID}", "t": 25_000}
    assert Endings([line], [blow(process_before=f"{POD}@{UID}")]).is_killed(line["pid"])
    seen = [{**SEEN, "process": f"{POD}@{UID}/1f"}, {**GONE, "process": f"{POD}@{UID}/1f", "code": 137}]
    assert Endings([*seen, line], []).is_killed(line["pid"])
    assert not Endings([line], [blow(process_before=f"{POD}@1{UID[1:]}")]).is_killed(line["pid"])


@pytest.mark.parametrize("process", ["71@1.00", "a7@1.00", f"{POD}@{UID}"])
def test_a_driver_is_not_killed_as_another_process(process: str) -> None:
    complaints = Endings([STARTED, SEEN, GONE, {**KILLED, "process": process}], [blow()]).complaints()
    assert any("which is another one" in one for one in complaints), complaints


@pytest.mark.parametrize("end", ["stopped", "ended"])
def test_a_driver_whose_end_is_told_or_seen_is_no_complaint(end: str) -> None:
    assert not Endings([STARTED, {**REFUSED, "state": end, "generation": 1}], []).complaints()
    assert not Endings([STARTED, SEEN, GONE], []).complaints()


@pytest.mark.parametrize("events", [[STARTED], [STARTED, SEEN], [STARTED, {**KILLED, "state": "repaired"}]])
def test_a_driver_of_whose_end_nobody_tells_is_a_complaint(events: list[Row]) -> None:
    assert Endings(events, []).complaints() == ["nobody tells how driver 7 ended"]


@pytest.mark.parametrize("line", [KILLED, {**REFUSED, "code": -9}], ids=["killed", "ended"])
def test_a_driver_ends_once(line: Row) -> None:
    found = Endings([STARTED, KILLED, {**REFUSED, "code": -9}, line], [blow()]).complaints()
    assert found == [f"driver 7 is told twice to have been {line['state']}"]


def test_a_number_that_the_kernel_gave_anew_is_another_driver() -> None:
    """Of 32,768 numbers a long run has some twice; each driver of one ends in its own way."""
    later: Row = {**STARTED, "t": 20_000, "generation": 9}
    words = {**REFUSED, "t": 30_000, "says": "UnreachableError: no store"}
    first = [STARTED, SEEN, GONE, KILLED]
    for then in ([later, words], [later, {**later, "t": 30_000, "state": "stopped"}]):
        ends = Endings([*first, *then], [blow()])
        assert ends.is_killed(7)
        assert not ends.complaints()
    times = ({"t": 21_100}, {"t": 25_200, "last": 25_000}, {"t": 25_100})
    again = [{**one, **at, "process": "7@21.00"} for one, at in zip((SEEN, GONE, KILLED), times, strict=True)]
    assert not Endings([*first, later, *again], [blow()]).complaints()


@pytest.mark.parametrize("change", [{"pid": 8}, {"generation": 2}, {"generation": None}])
def test_who_stops_is_a_driver_that_started_of_that_generation(change: Row) -> None:
    stopped = {**STARTED, "t": 5_000, "state": "stopped"}
    assert not Endings([STARTED, stopped], []).complaints()
    assert any("did not start as that" in one for one in Endings([STARTED, {**stopped, **change}], []).complaints())


def test_what_the_witness_did_not_write_like_this_does_not_end_the_judge(run: Path) -> None:
    history(lambda rows: next(row for row in rows if row.get("state") == "gone").update(last=None))(run)
    expect(run, UNKNOWN, "history")


def test_a_state_that_no_driver_has_is_a_complaint() -> None:
    assert "a driver is told to have been 'gone'" in Endings([{**STARTED, "state": "gone"}], []).complaints()


def forge(rows: list[Row]) -> None:
    """Have one of two drivers that were refused killed before."""
    (first, *_) = [row for row in rows if row.get("state") == "ended"]
    killed = {"t": first["t"] - 1, "event": "driver", "state": "killed", "pid": first["pid"]}
    rows.insert(rows.index(first), {**killed, "process": f"{first['pid']}@1.00"})


def forge_with_a_blow(rows: list[Row]) -> None:
    """Tell of a blow too, of which the history shows nothing else."""
    forge(rows)
    (line,) = [row for row in rows if row.get("state") == "killed"]
    processes = {"process_before": line["process"], "process_after": "9002@2.00", "injected_at": line["t"]}
    told = {"event": "fault", "kind": "sigkill", "target": "driver", "epoch": 5, "phase": "declared", "hit": True}
    rows.insert(rows.index(line), {"t": line["t"], **told, **processes})


def forge_with_a_broken_blow(rows: list[Row]) -> None:
    forge_with_a_blow(rows)
    next(row for row in rows if row["event"] == "fault").pop("injected_at")


@pytest.mark.parametrize("change", [forge, forge_with_a_blow, forge_with_a_broken_blow])
def test_a_forged_line_does_not_excuse_a_driver_that_a_sink_refused(
    change: Callable[[list[Row]], None], tmp_path: Path
) -> None:
    run = refused(tmp_path / "20261124-090000-7")
    history(change)(run)
    expect(run, FAIL, "goes on", "the pipeline stopped for good: 2 drivers were refused")
    expect(run, UNKNOWN, "endings")


def test_a_driver_that_was_killed_after_its_last_words_is_not_counted_as_refused(tmp_path: Path) -> None:
    run = refused(tmp_path / "20261124-090000-7")

    def killed(rows: list[Row]) -> None:
        forge(rows)
        line = next(row for row in rows if row.get("state") == "killed")
        told = {"event": "process", "process": line["process"]}
        gone = {**told, "t": line["t"], "state": "gone", "last": line["t"], "code": -9}
        at = rows.index(line)
        rows[at:at] = [{**told, "t": line["t"], "state": "seen"}, gone]
        next(row for row in rows if row.get("state") == "ended")["code"] = -9

    history(killed)(run)
    expect(run, PASS, "goes on")


def test_of_a_run_it_is_known_how_each_driver_ended(run: Path) -> None:
    assert oracle_of(run, "endings").says == "how each of 4 drivers ended is known"
    ends = [row for row in lines_of(run / "history.jsonl") if row.get("state") in ("killed", "stopped")]
    assert [row["state"] for row in ends] == ["killed", "killed", "stopped", "stopped"]


@pytest.mark.parametrize("nth", range(4))
def test_a_line_of_a_drivers_end_that_is_of_another_driver_is_unknown(run: Path, nth: int) -> None:
    def change(rows: list[Row]) -> None:
        [row for row in rows if row.get("state") in ("killed", "stopped")][nth]["pid"] = 5

    history(change)(run)
    expect_run(run, UNKNOWN, "endings")
