"""Each rule is left out once, as an implementation plausibly might: the model must find the hole that it closes."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.model.games import explored
from tests.model.rules import Pipeline, Rules
from tests.model.test_two_drivers import (
    FILES,
    KAFKA,
    KAFKA_SHARD,
    LONG,
    PLAIN_STEPS,
    SHORT_KAFKA,
    SHORT_TABLE,
    SHORT_TABLES,
    STATE,
    TABLE_SHARD,
    TWO_STEPS,
)

LATE = Pipeline(STATE.to, STATE.input, STATE.rows, recorded=False)
DECIDED = "decided otherwise in step 'ids'"
OTHERWISE, VALUES = "decided otherwise", "shows the values of two attempts"
GONE = "not visible any more"
MISSING, REPEAT = "a delta that the chain names is missing", "is published with digest"

HOLES = {
    "r1_conditional_head": (KAFKA, 0, 0, OTHERWISE),
    "r3_declare_before_publish": (KAFKA, 0, 0, "the mark of shard 0 is 0, the chain is at -1 to -1"),
    "r3_repeat_the_declared": (KAFKA, 0, 0, OTHERWISE),
    "r4_output_recorded": (KAFKA, 0, 0, REPEAT),
    "r4_output_once": (KAFKA, 0, 0, REPEAT),
    "r8_mark_decides": (KAFKA, 0, 0, "doubled"),
    "r8_mark_after_unknown": (KAFKA, 1, 0, "doubled"),
    "r8_kept_for_next_only": (KAFKA_SHARD, 0, 1, "doubled"),
    "r8_owner_goes_on": (KAFKA, 0, 0, "owns head and was refused: a producer was fenced"),
    "r8_row_by_epoch": (TABLE_SHARD, 0, 1, "doubled"),
    "r8_manifest_once": (FILES, 0, 0, GONE),
    "r8_file_before_manifest": (FILES, 0, 0, "a manifest names a file that is not there"),
    "r8_files_of_their_own": (FILES, 0, 0, GONE),
    "r9_floor_before_deletion": (LATE, 0, 0, MISSING),
    "r9_parts_until_recorded": (STATE, 0, 0, MISSING),
    "r9_output_until_recorded": (KAFKA, 0, 0, REPEAT),
    "r9_floor_of_every_length": (LONG, 0, 0, "after recovery the sinks hold"),
}
"""Rule -> pipeline, lost answers, failed tasks, and what is found without it."""

EARLY = [
    ("r13_whole_input", KAFKA, DECIDED),
    ("r13_whole_input", SHORT_TABLES, DECIDED),
    # A part of no rows has no delta: the manifest is the first to refuse.
    ("r13_whole_input", FILES, REPEAT),
    ("r13_whole_input", TWO_STEPS, DECIDED),
    ("r13_of_every_task", KAFKA, DECIDED),
    ("r13_whole_partials", TWO_STEPS, "decided otherwise in step 'counts'"),
    ("r13_whole_partials", PLAIN_STEPS, "decided otherwise in step 'counts'"),
]
"""Rule, pipeline and what is found where one input ends early: the repeat is refused, and so is each one after it."""

MISSED = [
    ("r13_whole_input", KAFKA, "['a', 'c', 'd']"),
    ("r13_whole_input", FILES, "['a', 'c', 'd']"),
    ("r13_of_every_task", KAFKA, "['a', 'c', 'd']"),
    ("r13_whole_partials", TWO_STEPS, "['a', 'b']"),
]
"""Rule, pipeline and what readers see in the end where the epoch is not repeated: nobody is refused."""

FORGOTTEN = [
    ("r8_hanging_before_mark", 0, "doubled"),
    ("r8_hanging_before_kept", 1, "the mark of shard 0 is -1, the chain is at 0"),
]
"""Rule, lost answers, and what is found where a broker finishes one commit and leaves it open."""

SECOND_LINES = {
    "r4_digests_compared": (KAFKA_SHARD, 0, 0),
    "r5_delta_once": (STATE, 0, 0),
    "r8_row_by_generation": (SHORT_TABLE, 0, 1),
    "r8_row_raised_on_open": (SHORT_TABLE, 0, 1),
    "r9_missing_refused": (STATE, 0, 0),
    "r10_marks_within": (SHORT_TABLE, 0, 0),
}
"""Guards against what the other rules exclude: left out alone they leave no hole, to this bound."""

BOTH = [
    ("r1_conditional_head", "r4_digests_compared", KAFKA, "after recovery the sinks hold ['a', 'b', 'd']"),
    ("r3_repeat_the_declared", "r4_digests_compared", KAFKA, VALUES),
    ("r3_declare_before_publish", "r10_marks_within", KAFKA, OTHERWISE),
    ("r4_output_recorded", "r4_digests_compared", KAFKA, VALUES),
    ("r4_output_once", "r4_digests_compared", KAFKA, VALUES),
    ("r8_row_by_epoch", "r8_row_by_generation", TABLE_SHARD, "doubled"),
    ("r8_row_by_epoch", "r8_row_raised_on_open", TABLE_SHARD, "doubled"),
    ("r9_parts_until_recorded", "r9_missing_refused", STATE, REPEAT),
    ("r13_whole_input", "r4_digests_compared", KAFKA, "doubled"),
    ("r13_whole_partials", "r4_digests_compared", TWO_STEPS, "after recovery the sinks hold"),
]
"""What such a guard is for: where another rule is left out too, a standstill becomes wrong output, or comes later."""


def _without(*rules: str) -> Rules:
    return Rules(**dict.fromkeys(rules, False))


@pytest.mark.parametrize("rule", HOLES)
@pytest.mark.thinned(4)
def test_a_rule_left_out_leaves_a_hole(rule: str) -> None:
    pipeline, losses, failures, hole = HOLES[rule]
    found = explored(pipeline, _without(rule), losses, failures)
    assert found.hole is not None
    assert hole in found.hole


@pytest.mark.parametrize(("rule", "pipeline", "hole"), EARLY)
@pytest.mark.thinned(2)
def test_an_input_that_ends_early_leaves_an_epoch_that_nobody_finishes(
    rule: str, pipeline: Pipeline, hole: str
) -> None:
    """Its part is decided and published; whoever repeats the epoch sees all rows and is refused, for good."""
    found = explored(pipeline, _without(rule), early=1)
    assert found.hole is not None
    assert hole in found.hole
    assert "Read -> a part" in found.met, "no input ended early"


@pytest.mark.parametrize(("rule", "pipeline", "rows"), MISSED)
@pytest.mark.thinned(2)
def test_an_input_that_ends_early_leaves_readers_without_rows(rule: str, pipeline: Pipeline, rows: str) -> None:
    """The digests of R4 compare repeats; where an epoch is recorded at once they never see its part."""
    found = explored(pipeline, _without(rule), early=1, excused=lambda how: OTHERWISE in how or REPEAT in how)
    assert found.hole is not None
    assert f"after recovery the sinks hold {rows}" in found.hole


@pytest.mark.parametrize(("rule", "losses", "hole"), FORGOTTEN)
@pytest.mark.thinned(2)
def test_a_commit_that_is_left_open_is_shown_twice_or_dropped(rule: str, losses: int, hole: str) -> None:
    """Without it the mark is not found, or the next commit of its producer, if it fails, takes its rows with it."""
    found = explored(SHORT_KAFKA, _without(rule), losses, forgets=1)
    assert found.hole is not None
    assert hole in found.hole


@pytest.mark.deep
@pytest.mark.parametrize("guard", SECOND_LINES)
def test_a_second_line_of_defence_left_out_alone_leaves_none(guard: str) -> None:
    pipeline, losses, failures = SECOND_LINES[guard]
    assert explored(pipeline, _without(guard), losses, failures).hole is None


@pytest.mark.parametrize(("rule", "guard", "pipeline", "hole"), BOTH)
@pytest.mark.thinned(2)
def test_a_second_line_of_defence_shows_where_another_rule_is_left_out(
    rule: str, guard: str, pipeline: Pipeline, hole: str
) -> None:
    found = explored(pipeline, _without(rule, guard), early=int(rule.startswith("r13")))
    assert found.hole is not None
    assert hole in found.hole


def test_every_rule_is_left_out_once() -> None:
    assert {each.name for each in fields(Rules)} == {
        *HOLES,
        *SECOND_LINES,
        *(rule for rule, *_ in (*EARLY, *FORGOTTEN)),
    }
