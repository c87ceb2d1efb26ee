"""A job whose state is Spark's own: two drivers, the checkpoint deleted at any moment, outputs exact or a refusal."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.model.spark_at import GONE, Rules
from tests.model.spark_game import explored

RESTARTED = ("Get model/backups/N -> Found", "Put model/checkpoints/N-F/commits/N -> Written")
DECIDED, DIFFERS = "was decided otherwise", "is published with digest"
PART = ("Read -> a part", "Read -> all")

SHORT, LONG = (2, 3), (1, 2)
"""Records that drivers A and B take an epoch: two epochs, or up to four."""


@pytest.mark.parametrize(
    ("happens", "alone", "rows", "states", "meets"),
    [
        pytest.param((0, 0, 0), False, LONG, 100_000, (), marks=pytest.mark.deep),
        ((0, 1, 0), True, LONG, 280, RESTARTED),
        ((0, 1, 0), False, SHORT, 40_000, RESTARTED),
        pytest.param((1, 0, 0), False, SHORT, 158_000, ("Commit unknown",), marks=pytest.mark.deep),
        ((0, 0, 1), False, SHORT, 14_000, PART),
        ((0, 1, 1), True, LONG, 650, (*PART, *RESTARTED)),
        pytest.param((0, 1, 0), False, LONG, 980_000, RESTARTED, marks=pytest.mark.slow),
        pytest.param((0, 1, 1), False, SHORT, 93_000, (*PART, *RESTARTED), marks=pytest.mark.slow),
    ],
)
@pytest.mark.thinned(2)
def test_outputs_are_those_of_one_run_or_the_start_is_refused(
    happens: tuple[int, int, int], alone: bool, rows: tuple[int, int], states: int, meets: tuple[str, ...]
) -> None:
    """Bound: four records in up to four epochs, so many lost answers, deletions of all checkpoints and early ends."""
    losses, deletions, early = happens
    found = explored(Rules(), losses, deletions, early, alone=alone, rows=rows)
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"
    assert not set(meets) - found.met, "the exploration is vacuous"
    assert any(GONE in how for how in found.ends) == bool(deletions)


HOLES = {
    "r7_recorded_before_commit": (0, False, "does not repeat epoch 0, which is declared"),
    "r7_checkpoint_fits": (1, False, "does not repeat epoch 1, which is declared"),
    "r7_refused_without_state": (1, False, "published: ['b=1']"),
    "r7_ranges_of_the_chain": (1, True, "does not repeat epoch 1, which is declared"),
    "r7_recorded_runs_for_state": (0, True, "published: ['b=1']"),
    "r9_deltas_until_backup": (1, True, "refused, although there are ['model/backups/000000000']"),
    "r9_backup_above_floor": (1, False, "a delta that the chain names is missing"),
    "r11_offsets_once": (0, False, GONE),
}
"""Rule -> deletions, without driver B, and what is found without it."""

EARLY = {
    "r13_whole_input": (DECIDED, "published: ['b=1']"),
    "r13_whole_results": (DIFFERS, "published: ['b=1']"),
}
"""Rule -> what is found where one input ends early: each repeat is refused; or nobody repeats it."""


@pytest.mark.parametrize("rule", HOLES)
@pytest.mark.thinned(3)
def test_a_rule_left_out_leaves_a_hole(rule: str) -> None:
    deletions, alone, hole = HOLES[rule]
    found = explored(Rules(**{rule: False}), 0, deletions, alone=alone)
    assert found.hole is not None
    assert hole in found.hole


@pytest.mark.parametrize("rule", EARLY)
def test_an_input_that_ends_early_leaves_an_epoch_that_nobody_finishes_or_wrong_rows(rule: str) -> None:
    refused, wrong = EARLY[rule]
    for excused, hole in ((), refused), ((DECIDED, DIFFERS), wrong):
        found = explored(Rules(**{rule: False}), early=1, excused=excused)
        assert found.hole is not None
        assert hole in found.hole


def test_every_rule_is_left_out_once() -> None:
    assert {each.name for each in fields(Rules)} == {*HOLES, *EARLY}
