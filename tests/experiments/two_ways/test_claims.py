"""What a run is judged by: an output that is off comes out as fail; what shows nothing, as unknown."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from effectively_once_jobs.two_ways.settings import DEDUP, SNAPSHOTS
from tests.experiments import fabricate
from tests.experiments.fabricate import Rows
from tests.experiments.two_ways.experiment import EXPERIMENT
from tests.experiments.two_ways.fabricate import fabricate_run
from tests.experiments.two_ways.plan import Arm
from tests.experiments.two_ways.truth import reckon
from tests.harness.results import Verdict

judge = partial(fabricate.judge, EXPERIMENT)


def test_a_play_without_surprises_passes_and_its_figures_are_what_happened(tmp_path: Path) -> None:
    results = EXPERIMENT.judge(fabricate_run(tmp_path / "run"))
    assert results.verdict is Verdict.PASS, fabricate.failing(results)
    assert [one.name for one in results.arms] == [
        "snapshots_2",
        "dedup_2",
        "snapshots_4",
        "dedup_4",
        "no_catalog_2",
    ]
    snapshots, dedup = results.arms[:2]
    assert (snapshots.due, snapshots.exact, dedup.exact) == (370, True, True)
    assert not results.arms[-1].exact
    calm, struck = dedup.levels
    assert (calm.kills, calm.throughput_per_s, calm.taken, calm.copies, calm.hit) == (0, 160.0, 1.0, 0.0, 0)
    assert snapshots.levels[0].throughput_per_s == 80.0
    assert calm.paced is not None
    assert (calm.paced.events, calm.paced.p50_ms, calm.paced.max_ms) == (100, 500.0, 500.0)
    assert (struck.hit, struck.planned) == (4, 4)
    assert struck.taken == round(1 + 4 * 20 / (180 * 2), 3)
    assert struck.copies == round(4 * 5 / (180 * 2), 3)
    # The kill was 5 ms after the first record of the part, which is there next, and is all that was sent before it.
    assert [(one.next_s, one.through_s) for one in struck.recoveries] == [(0.495, 0.495)] * 2
    assert dedup.cpu_s_per_1000 == round(4 * 1000 / 360, 3)


@pytest.mark.parametrize("broken", [Arm(SNAPSHOTS, 2), Arm(DEDUP, 4)])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows[1:], "loses nothing"),
        (lambda rows: [{**rows[0], "amount": rows[0]["amount"] + 1}, *rows[1:]], "has no wrong record in its output"),
        (lambda rows: [*rows, {**rows[0], "id": "never sent"}], "gives out nothing that was not sent"),
        (
            lambda rows: [{**rows[0], "times": 2, "same": False}, *rows[1:]],
            "writes a record that it writes again as before",
        ),
    ],
)
def test_an_output_that_is_off_fails(tmp_path: Path, broken: Arm, change: object, says: str) -> None:
    def damage(arm: Arm, rows: Rows) -> Rows:
        changed: Rows = change(rows) if arm == broken else rows  # type: ignore[operator]
        return changed

    path = fabricate_run(tmp_path / "run", damage)
    assert judge(path) == ([(f"{broken.name} {says}", True)], Verdict.FAIL)


def test_a_record_written_again_as_before_is_no_error(tmp_path: Path) -> None:
    path = fabricate_run(tmp_path / "run", lambda _, rows: [{**rows[0], "times": 3}, *rows[1:]])
    results = EXPERIMENT.judge(path)
    assert results.verdict is Verdict.PASS
    assert {one.rewritten for one in results.arms} == {1}


def test_a_control_that_is_exact_shows_nothing(tmp_path: Path) -> None:
    def exact(arm: Arm, rows: Rows) -> Rows:
        return rows if arm.catalog else [{**row, "amount": row["amount"] - 1} for row in rows]

    unshown = [("no_catalog_2 without its catalog the same kills make the output wrong", False)]
    assert judge(fabricate_run(tmp_path / "run", exact)) == (unshown, Verdict.UNKNOWN)


def test_a_kill_that_missed_makes_it_unknown(tmp_path: Path) -> None:
    failing, verdict = judge(fabricate_run(tmp_path / "run", missed=1))
    assert {says.partition(" ")[2] for says, _ in failing} == {"every one of 2 kills hit an operator at work"}
    assert verdict is Verdict.UNKNOWN


def test_the_truth_is_that_of_the_order_in_partitions() -> None:
    sends = [
        {"id": "b", "user": "u", "payload": "5", "partition": 0, "offset": 1},
        {"id": "a", "user": "u", "payload": "3", "partition": 0, "offset": 0},
        {"id": "c", "user": "v", "payload": "3", "partition": 1, "offset": 0},
    ]
    # a: 3 + sum 3 + count 1; b: 5 + sum 8 + count 2; c as a, of another user.
    assert reckon(sends, 1) == {"a": 7, "b": 15, "c": 7}
    assert reckon(sends, 2) == {"a": 15, "b": 39, "c": 15}
