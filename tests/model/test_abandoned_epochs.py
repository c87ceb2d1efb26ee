"""An operator who abandons the declared epoch, at any moment: no record is shown twice, and none is lost."""

from __future__ import annotations

import pytest

from tests.model.games import explored
from tests.model.operator import Operator, stands_still
from tests.model.rules import Pipeline, Rules
from tests.model.test_two_drivers import FILES, KAFKA, PLAIN_KAFKA, PLAIN_TABLE, SHORT, STATE, TABLE

TWO_SHARDS = Pipeline(("kafka", "kafka"), SHORT, (1, 2), recorded=False)
TWO_TABLES = Pipeline(("table", "table"), SHORT, (1, 2), recorded=False)
FILES_AND_KAFKA = Pipeline(("files", "kafka"), SHORT, (1, 2), recorded=False)
SLOW, DEEP = pytest.mark.slow, pytest.mark.deep
REFUSED = "is published with digest , its repeat has"
"""A driver of before finds that its epoch was published over nothing."""


@pytest.mark.parametrize(
    ("pipeline", "losses", "states"),
    [
        (KAFKA, 0, 19_000),
        (TABLE, 0, 7_000),
        (FILES, 0, 5_400),
        pytest.param(STATE, 0, 14_000, marks=DEEP),
        (FILES_AND_KAFKA, 0, 5_000),
        pytest.param(PLAIN_KAFKA, 1, 20_000, marks=DEEP),
        pytest.param(PLAIN_TABLE, 1, 20_000, marks=DEEP),
    ],
)
@pytest.mark.thinned(7)
def test_where_drivers_are_stopped_it_is_exact_whatever_they_left(pipeline: Pipeline, losses: int, states: int) -> None:
    """Two drivers die anywhere; then the operator alone, and a driver to the end of the input: it always gets there."""
    found = explored(pipeline, losses=losses, before=Operator(pipeline.to, then="start"))
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"


@pytest.mark.parametrize(
    ("pipeline", "states"),
    [
        pytest.param(PLAIN_KAFKA, 300_000, marks=DEEP),
        pytest.param(TWO_SHARDS, 2_000_000, marks=SLOW),
        pytest.param(FILES_AND_KAFKA, 790_000, marks=SLOW),
    ],
)
def test_while_drivers_live_nothing_is_shown_twice_or_lost(pipeline: Pipeline, states: int) -> None:
    """Two drivers and the operator in any order; at worst the pipeline stands still."""
    found = explored(pipeline, beside=Operator(pipeline.to), excused=stands_still)
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"
    assert any(REFUSED in how for how in found.ends), "the exploration is vacuous"


@pytest.mark.parametrize(
    ("pipeline", "states"),
    [
        pytest.param(PLAIN_TABLE, 225_000, marks=SLOW),
        pytest.param(TWO_TABLES, 480_000, marks=SLOW),
    ],
)
def test_of_tables_alone_it_does_not_even_stand_still(pipeline: Pipeline, states: int) -> None:
    """A session of an older generation commits nothing once the operator has opened one."""
    found = explored(pipeline, beside=Operator(pipeline.to))
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"
    assert any(REFUSED in how for how in found.ends), "the exploration is vacuous"


def test_a_driver_that_lives_can_bring_a_kafka_pipeline_to_stand_still() -> None:
    """It opens a producer after the operator did, and publishes before it does: so drivers have to be stopped."""
    found = explored(TWO_SHARDS, beside=Operator(TWO_SHARDS.to))
    assert found.hole is not None
    assert stands_still(found.hole)


@pytest.mark.parametrize(
    ("rules", "hole"),
    [
        (Rules(), "the mark of shard 0 is -1, the chain is at 0 to 0"),
        (Rules(r10_marks_within=False), "progress mark -1 lies outside the chain's 0 to 1"),
    ],
)
def test_an_epoch_that_is_not_published_over_nothing_leaves_marks_behind(rules: Rules, hole: str) -> None:
    """The start check sees that they lag; without it, the publication of the next epoch does."""
    operator = Operator(TWO_SHARDS.to, publishes=False)
    found = explored(TWO_SHARDS, rules, beside=operator, excused=stands_still)
    assert found.hole is not None
    assert hole in found.hole


def test_an_epoch_that_is_visible_and_abandoned_all_the_same_is_never_finished() -> None:
    found = explored(TWO_SHARDS, before=Operator(TWO_SHARDS.to, looks=False, then="start"))
    assert found.hole is not None
    assert stands_still(found.hole)
