"""A negative control counts by what it is built to show, found by the oracle that should; else the run is unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.harness.sends import crc_of_row
from tests.unit.harness.fabricate import CONTROLS
from tests.unit.harness.fabricated_files import Row, write_lines
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect
from tests.unit.harness.tamper import history, lines_of, manifest, observed, rebind

NAME, UNKILLED = CONTROLS[0], "bloom_alone"


def control_of(run: Path, shows: str) -> Path:
    """Make the first control of a run one that is built to show something else; its output is exact."""
    control = run / "controls" / NAME
    manifest(lambda one: one["controls"][0].update(shows=shows))(run)
    manifest(lambda one: one.update(shows=shows))(control)
    tamper(control, lambda rows: rows.__delitem__(slice(40, None)))
    return control


def without_kill(run: Path) -> Path:
    """Make the first control of a run one that loses rows by itself."""
    control = control_of(run, "missing").rename(run / "controls" / UNKILLED)
    manifest(lambda one: one["controls"][0].update(name=UNKILLED))(run)
    # A part of a campaign: it has the controls that it has.
    manifest(lambda one: one["settings"].update(campaign="embedded"))(run)
    manifest(lambda one: one.update(run=f"{run.name}/{UNKILLED}", control=UNKILLED, faults_planned=0))(control)
    history(forget_the_kill)(control)
    tamper(control, lambda rows: rows.pop())
    return control


def forget_the_kill(rows: list[Row]) -> None:
    """Leave out the kill, and count the lines that are left."""
    rows[:] = [row for row in rows if row["event"] != "fault"]
    rows[-1]["lines"] = len(rows) - 1


def tamper(control: Path, change: Callable[[list[Row]], object]) -> None:
    observed("accepted", change)(control)


def read_uncommitted(control: Path, *aborted: int) -> None:
    """Write what a reader saw that did not wait for commits: beside the rows, aborted ones at these offsets."""
    rows = [(row["offset"], crc_of_row(row)) for row in lines_of(control / "observed" / "accepted.jsonl")]
    offsets, crcs = zip(*sorted([*rows, *((offset, 7) for offset in aborted)]), strict=True)
    write_lines(
        control / "observed" / "accepted.concurrent.jsonl",
        [
            {"t": 1, "reader": "started"},
            {"t": 2, "partition": 0, "offsets": offsets, "crcs": crcs},
            {"t": 3, "reader": "stopped"},
        ],
    )
    rebind(control / "manifest.json")


def shows_nothing(run: Path, guard: str, why: str) -> None:
    """Assert that the first control and its run are unknown, and that a guard of the control says why."""
    assert verdicts(run) == (UNKNOWN, UNKNOWN)
    expect(run / "controls" / NAME, UNKNOWN, guard, why)


def verdicts(run: Path) -> tuple[Verdict, Verdict]:
    """Return those of the first control and of the run."""
    results = judge(run, write=False)
    return results.controls[0].verdict, results.verdict


def test_loss_is_what_a_control_of_loss_must_show(run: Path) -> None:
    control = control_of(run, "missing")
    assert verdicts(run) == (PASS, UNKNOWN), "nothing is lost: it did not fail"
    tamper(control, lambda rows: rows.pop())
    assert verdicts(run) == (FAIL, PASS)


@pytest.mark.parametrize("doubled", [False, True], ids=["instead", "beside"])
def test_doubles_show_nothing_of_loss(run: Path, doubled: bool) -> None:
    control = control_of(run, "missing")
    tamper(control, lambda rows: rows.append(rows[0]))
    if doubled:
        tamper(control, lambda rows: rows.pop(5))
    assert verdicts(run) == (UNKNOWN, UNKNOWN)


def test_loss_without_the_kill_that_was_planned_shows_nothing(run: Path) -> None:
    control = control_of(run, "missing")
    tamper(control, lambda rows: rows.pop())
    history(lambda rows: rows[1].update(hit=False))(control)
    assert verdicts(run) == (UNKNOWN, UNKNOWN)


def test_a_control_that_is_planned_without_a_kill_needs_none(run: Path) -> None:
    without_kill(run)
    assert verdicts(run) == (FAIL, PASS)


def test_a_manifest_that_plans_no_kill_does_not_spare_a_control_that_needs_one(run: Path) -> None:
    control = run / "controls" / NAME
    manifest(lambda one: one.update(faults_planned=0))(control)
    assert verdicts(run) == (FAIL, PASS), "it has one all the same"
    history(forget_the_kill)(control)
    shows_nothing(run, "kill", "it shows something only of a kill")


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "stall", "planned_s": 1.0},
        {"target": "driver"},
        {"hit": False},
        {"signal": "SIGSTOP"},
        {"epoch": 7},
        {"epoch": None},
        {"process_after": "71@1.0"},
        {"injected_at": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_kill_of_a_control_has_to_be_one_that_hit(run: Path, change: Row) -> None:
    control = run / "controls" / NAME
    manifest(lambda one: one.update(faults_planned=0))(control)
    history(lambda rows: rows[1].update(change))(control)
    shows_nothing(run, "kill", "it shows something only of a kill")


def test_a_kill_of_a_control_whose_batches_nobody_tells_hit_none(run: Path) -> None:
    history(lambda rows: rows.__delitem__(slice(2, 4)))(run / "controls" / NAME)
    shows_nothing(run, "kill", "it shows something only of a kill")


def test_a_control_that_does_not_exist_shows_nothing(run: Path) -> None:
    control = without_kill(run)
    manifest(lambda one: one.update(control="other"))(control)
    expect(control, UNKNOWN, "kill", "there is no control other")


HISTORIES: list[tuple[Callable[[list[Row]], object], str]] = [
    (lambda rows: rows.pop(0), "line 1 is not that of phase steady"),
    (lambda rows: rows.pop(), "is not that of phase judge"),
    (lambda rows: rows[0].update(phase="warm-up"), "line 1 is not that of phase steady"),
    (lambda rows: rows.pop(2), "and nothing tells that it began"),
    (lambda rows: rows.pop(3), "nothing tells that it was published"),
    (lambda rows: rows[2].update(state="guessed"), "tells of a batch that was 'guessed'"),
    (lambda rows: rows[2].update(event="batch"), "tells of 'batch', which is no event"),
    (lambda rows: rows.insert(2, {**rows[0], "phase": "drain"}), "5 lines stand before the end, which says 4"),
    (lambda rows: rows.append({**rows[-1], "lines": 5}), "it has 3 phases, a control has steady and judge"),
    (lambda rows: rows[2].update(t=0), "which is before the begin or after the end"),
    (lambda rows: rows[3].update(t=rows[0]["t"] + 10**6), "which is before the begin or after the end"),
    (lambda rows: rows.__delitem__(slice(1, 4)), "no batch is told to have been published"),
]


@pytest.mark.parametrize(("change", "why"), HISTORIES, ids=[str(at) for at in range(len(HISTORIES))])
def test_a_history_of_a_control_that_is_not_whole_shows_nothing(
    run: Path, change: Callable[[list[Row]], object], why: str
) -> None:
    history(change)(run / "controls" / NAME)
    shows_nothing(run, "history", why)


def test_a_control_recorded_before_its_end_told_the_number_of_lines_counts(run: Path) -> None:
    history(lambda rows: rows[-1].pop("lines"))(run / "controls" / NAME)
    assert verdicts(run) == (FAIL, PASS)


def test_what_is_seen_and_never_committed_is_found_by_oracle_3(run: Path) -> None:
    control = control_of(run, "retracted")
    assert verdicts(run) == (UNKNOWN, UNKNOWN), "there is no reading of uncommitted records"
    read_uncommitted(control, 41, 42)
    assert verdicts(run) == (FAIL, PASS)
    expect(control, PASS, "multiset")
    expect(control, FAIL, "monotone", "2 records were retracted")


def test_a_reader_that_saw_nothing_aborted_shows_nothing(run: Path) -> None:
    read_uncommitted(control_of(run, "retracted"))
    control, whole = verdicts(run)
    assert control is not FAIL
    assert whole is UNKNOWN


@pytest.mark.parametrize("change", [lambda rows: rows.pop(), lambda rows: rows.append(rows[0])], ids=["loss", "double"])
def test_a_sink_that_is_wrong_shows_nothing_of_its_reader(run: Path, change: Callable[[list[Row]], object]) -> None:
    """What was retracted may be the sink's doing then."""
    control = control_of(run, "retracted")
    read_uncommitted(control, 41, 42)
    tamper(control, change)
    assert verdicts(run) == (UNKNOWN, UNKNOWN)


def test_a_control_that_shows_something_else_than_planned_is_unknown(run: Path) -> None:
    control = control_of(run, "missing")
    tamper(control, lambda rows: rows.append(rows[0]))
    manifest(lambda one: one.update(shows="duplicated"))(control)
    assert verdicts(run) == (UNKNOWN, UNKNOWN)


def test_a_run_recorded_before_controls_said_what_they_show_is_judged_by_doubles(run: Path) -> None:
    assert verdicts(run) == (FAIL, PASS)
