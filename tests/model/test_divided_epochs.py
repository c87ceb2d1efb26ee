"""Epochs that are more than a shard takes, two drivers with bounds of their own: exact, whoever goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.model.divided import DividedDriver
from tests.model.games import explored
from tests.model.operator import Operator, stands_still
from tests.model.rules import Pipeline

SLOW, DEEP = pytest.mark.slow, pytest.mark.deep
COPY = (("a", 0), ("b", 0), ("a", 0))
KAFKA = Pipeline(("kafka",), COPY, (3, 3), recorded=False)
TABLE = Pipeline(("table",), COPY, (3, 3), recorded=False)
FILES = Pipeline(("files", "kafka"), COPY, (3, 3), recorded=False)
# One shard has a rest, the other has none.
SHARDS = Pipeline(("kafka", "kafka"), (*COPY, ("d", 0)), (4, 4), recorded=False)
TWO_EPOCHS = Pipeline(("kafka",), (*COPY, ("c", 0)), (3, 3), recorded=False)
TWO_STEPS = Pipeline(("kafka", "kafka"), COPY, (3, 3), recorded=False, results=True)
RECORDED = Pipeline(("kafka",), COPY, (3, 3))


@pytest.mark.parametrize(
    ("pipeline", "trouble", "states"),
    [
        (KAFKA, {}, 2_700),
        (SHARDS, {}, 4_700),
        (TWO_EPOCHS, {}, 6_100),
        pytest.param(KAFKA, {"losses": 1}, 60_000, marks=SLOW),
        pytest.param(KAFKA, {"failures": 1}, 85_000, marks=SLOW),
        pytest.param(KAFKA, {"early": 1}, 11_000, marks=SLOW),
        pytest.param(RECORDED, {}, 5_000, marks=SLOW),
        pytest.param(TABLE, {"losses": 1}, 45_000, marks=SLOW),
        pytest.param(TABLE, {"failures": 1}, 41_000, marks=SLOW),
        pytest.param(FILES, {"losses": 1}, 58_000, marks=SLOW),
        pytest.param(TWO_STEPS, {}, 10_000, marks=SLOW),
        pytest.param(SHARDS, {"failures": 1}, 270_000, marks=SLOW),
    ],
)
@pytest.mark.thinned(3)
def test_two_drivers_divide_alike_in_any_order(pipeline: Pipeline, trouble: dict[str, int], states: int) -> None:
    """A shard takes one record at once by driver A's settings, two by B's: what is declared is divided as declared."""
    found = explored(pipeline, **trouble, driver=DividedDriver)  # type: ignore[arg-type]
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"
    assert "stale" in found.ends, "the exploration is vacuous"


@pytest.mark.parametrize(
    ("pipeline", "losses", "states"),
    [
        (KAFKA, 0, 2_700),
        (SHARDS, 0, 4_700),
        pytest.param(TWO_EPOCHS, 0, 6_100, marks=DEEP),
        pytest.param(TABLE, 1, 45_000, marks=SLOW),
        pytest.param(FILES, 1, 58_000, marks=SLOW),
    ],
)
def test_a_rest_that_is_abandoned_where_drivers_are_stopped_is_taken_later(
    pipeline: Pipeline, losses: int, states: int
) -> None:
    operator = Operator(pipeline.to, then="start")
    found = explored(pipeline, losses=losses, before=operator, driver=DividedDriver)
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"


@pytest.mark.parametrize(
    ("pipeline", "states"),
    [
        pytest.param(KAFKA, 360_000, marks=DEEP),
        pytest.param(SHARDS, 710_000, marks=SLOW),
        pytest.param(FILES, 360_000, marks=SLOW),
    ],
)
def test_a_rest_that_is_abandoned_while_drivers_live_is_not_lost(pipeline: Pipeline, states: int) -> None:
    """Whoever finishes the epoch that was abandoned leaves the rest as it was."""
    found = explored(pipeline, beside=Operator(pipeline.to), excused=stands_still, driver=DividedDriver)
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"


def test_a_rest_that_an_abandoned_epoch_does_not_leave_once_more_is_lost() -> None:
    driver = partial(DividedDriver, leaves_again=False)
    found = explored(KAFKA, beside=Operator(KAFKA.to), excused=stands_still, driver=driver)
    assert found.hole is not None
    assert "recovery the sinks hold ['a']" in found.hole


@pytest.mark.parametrize(
    ("pipeline", "driver", "hole"),
    [
        (KAFKA, partial(DividedDriver, pins_bound=False), "decided otherwise in step 'ids'"),
        (TWO_EPOCHS, partial(DividedDriver, rest_first=False), "epoch 0 has to be repaired first"),
    ],
)
def test_a_rule_left_out_leaves_a_hole(pipeline: Pipeline, driver: Callable[..., DividedDriver], hole: str) -> None:
    """A repeat goes by its driver's own bound; what comes next is declared before the rest."""
    found = explored(pipeline, driver=driver)
    assert found.hole is not None
    assert hole in found.hole
