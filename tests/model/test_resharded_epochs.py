"""Two drivers with different numbers of shards: exact in any order, whoever goes on with which number."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from effectively_once.state import homes
from tests.model import checks
from tests.model.games import explored
from tests.model.resharded import ReshardedDriver
from tests.model.rules import Pipeline

SLOW = pytest.mark.slow
# Of two shards one has `a`, the other `b`; each comes again later.
INPUT = (("a", 0), ("b", 0), ("a", 0), ("b", 0))
KAFKA = Pipeline(("kafka", "kafka"), INPUT, (2, 2), recorded=False)
THREE = Pipeline(("kafka", "kafka"), (*INPUT, ("c", 0)), (2, 2), recorded=False)
GROWS, SHRINKS, GOES_BACK = (1, 2, 2), (2, 1, 1), (2, 1, 2)
marks = partial(checks.mark_outside, of_epoch=True)


def test_the_ids_are_of_both_shards() -> None:
    assert {homes.shard_of(one, 2) for one in (b"a", b"b")} == {0, 1}


@pytest.mark.parametrize("numbers", [GROWS, SHRINKS, GOES_BACK])
@pytest.mark.parametrize(
    ("pipeline", "states"),
    [(KAFKA, 4_400), pytest.param(THREE, 8_000, marks=SLOW)],
)
@pytest.mark.thinned(3)
def test_the_number_of_shards_changes_in_any_order(
    pipeline: Pipeline, states: int, numbers: tuple[int, int, int]
) -> None:
    """Of ids that come again after it none is forgotten, and no epoch is published with two numbers."""
    driver = partial(ReshardedDriver, numbers=numbers)
    found = explored(pipeline, driver=driver, marks=marks)
    assert found.hole is None, "\n".join((found.hole, *found.way))
    assert found.states >= states, "the exploration was cut short"
    assert "stale" in found.ends, "the exploration is vacuous"


@pytest.mark.parametrize(
    ("driver", "hole"),
    [
        (partial(ReshardedDriver, pins_number=False), "doubled|sinks hold|decided otherwise|lies outside"),
        (partial(ReshardedDriver, gives_marks=False), "the mark of shard 1 is -1, the chain is at 0"),
        (partial(ReshardedDriver, reads_others=False), "doubled"),
    ],
)
@pytest.mark.thinned(3)
def test_a_rule_left_out_leaves_a_hole(driver: Callable[..., ReshardedDriver], hole: str) -> None:
    """A repeat goes by its own number; a new shard has no mark, or forgets what others accepted."""
    found = explored(KAFKA, driver=driver, marks=marks)
    assert found.hole is not None
    assert re.search(hole, found.hole), found.hole
