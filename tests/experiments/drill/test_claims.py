"""What a drill is judged by: a restore that leaves an epoch out, or publishes one again, fails."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.experiments import fabricate
from tests.experiments.drill.experiment import EXPERIMENT
from tests.experiments.drill.fabricate import DESTROYED, MS, RECORDED, fabricate_run
from tests.experiments.drill.figures import ACCEPTED, AFTER, USER_COUNTS
from tests.experiments.drill.plan import BUCKET, CLUSTER, PARTS, TOPIC, Plan
from tests.experiments.fabricate import Rows, change_facts, change_rows
from tests.experiments.run_folder import MANIFEST
from tests.harness.results import Verdict
from tests.harness.workload.errors import InputError

judge = partial(fabricate.judge, EXPERIMENT)
EPOCH = slice(40, 60)
"""Rows of a sink that are those of one epoch of the backup."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return fabricate_run(tmp_path / "run")


def change(run: Path, part: str, sink: str, at: slice, times: int) -> None:
    """Have a sink show some rows that often."""

    def damage(rows: Rows) -> None:
        (*shown, end) = rows
        shown[at] = shown[at] * times
        rows[:] = [*shown, {**end, "rows": len(shown)}]

    change_rows(run / part / "observed" / f"{sink}.jsonl", damage)


def test_a_drill_without_surprises_passes_and_states_what_is_lost(run: Path) -> None:
    results = EXPERIMENT.judge(run)
    assert results.verdict is Verdict.PASS, fabricate.failing(results)
    bucket, topic, cluster = results.arms
    assert (bucket.lost, bucket.lost_s, topic.lost, topic.in_open_windows) == (0, 0.0, 0, 0)
    assert (cluster.lost, cluster.came_after) == (cluster.came_after, cluster.lost)
    assert 0 < cluster.lost <= DESTROYED - RECORDED
    assert cluster.lost_s == pytest.approx((DESTROYED - RECORDED) * MS / 1000, abs=0.2)
    assert cluster.in_open_windows > 0
    assert (bucket.age_s, bucket.stop_s, bucket.restore_s, bucket.start_s) == (1.5, 1.0, 2.5, 6.0)
    assert bucket.away_s == 9.5


@pytest.mark.parametrize("part", PARTS)
def test_a_restore_that_leaves_an_epoch_out_fails(run: Path, part: str) -> None:
    change(run, part, ACCEPTED, EPOCH, 0)
    found, verdict = judge(run)
    assert (f"{part} has every record of the backup", True) in found
    assert (f"{part} has every row of the backup", True) in found or part != CLUSTER
    assert verdict is Verdict.FAIL


@pytest.mark.parametrize("part", PARTS)
def test_a_restore_that_publishes_an_epoch_again_fails(run: Path, part: str) -> None:
    change(run, part, ACCEPTED, EPOCH, 2)
    assert judge(run) == ([(f"{part} has no record twice", True)], Verdict.FAIL)


@pytest.mark.parametrize("times", [0, 2])
def test_windows_that_are_left_out_or_counted_again_fail(run: Path, times: int) -> None:
    change(run, BUCKET, USER_COUNTS, slice(3, 4), times)
    assert judge(run) == ([("bucket counts each window once and right", True)], Verdict.FAIL)


def test_a_record_that_came_after_the_backup_may_be_lost_with_the_cluster_alone(run: Path) -> None:
    change(run, TOPIC, ACCEPTED, slice(RECORDED + 20, RECORDED + 40), 0)
    assert judge(run) == (
        [("topic loses no record: the input had all that came after the backup", True)],
        Verdict.FAIL,
    )


def test_a_record_that_was_sent_after_the_destruction_may_never_be_lost(run: Path) -> None:
    change(run, f"{CLUSTER}/{AFTER}", ACCEPTED, EPOCH, 0)
    change(run, TOPIC, ACCEPTED, slice(-10, None), 0)
    says = "publishes every record that was sent after the destruction"
    assert judge(run) == ([(f"{TOPIC} {says}", True), (f"{CLUSTER} {says}", True)], Verdict.FAIL)


@pytest.mark.parametrize(
    ("part", "changes", "says"),
    [
        (BUCKET, {"code": 76}, "restored, starts as it is"),
        (CLUSTER, {"code": 0}, "restored, is refused another input"),
        (TOPIC, {"copied": {ACCEPTED: 10_000}}, "has every row of the backup"),
    ],
)
def test_a_restore_that_ends_otherwise_than_documented_fails(
    run: Path, part: str, changes: dict[str, object], says: str
) -> None:
    change_facts(run / part, **changes)
    assert judge(run) == ([(f"{part} {says}", True)], Verdict.FAIL)


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"published": 5}, "the sinks were ahead of it"), ({"ends": {}}, "the backup had records")],
)
def test_a_drill_in_which_a_restore_had_nothing_to_do_is_unknown(
    run: Path, changes: dict[str, object], says: str
) -> None:
    change_facts(run / TOPIC, **changes)
    assert judge(run) == ([(f"{TOPIC} {says}", False)], Verdict.UNKNOWN)


def test_a_part_that_broke_off_is_unknown_and_one_that_was_left_out_is_not_asked_for(run: Path) -> None:
    change_facts(run / CLUSTER, broke_off="no driver came")
    assert judge(run) == ([], Verdict.UNKNOWN)
    text = (run / MANIFEST).read_text()
    (run / MANIFEST).write_text(text.replace(f',"{CLUSTER}"', "").replace(f', "{CLUSTER}"', ""))
    assert judge(run)[1] in (Verdict.PASS, Verdict.UNKNOWN)


@pytest.mark.parametrize("words", [("bucket,topic",), ("bucket", "topic")])
def test_parts_have_commas_or_spaces_between(words: tuple[str, ...]) -> None:
    assert Plan(1, parts=words).parts == (BUCKET, TOPIC)


@pytest.mark.parametrize("words", [("planet",), ("bucket,bucket",), ("",)])
def test_other_parts_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="PARTS is"):
        Plan(1, parts=words)
