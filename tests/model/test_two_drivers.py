"""Two drivers on one pipeline, every interleaving: exact with all rules, a hole for every rule switched off."""

from __future__ import annotations

import pytest

from tests.model.explore import explore
from tests.model.program import Rules

# How many states the exploration has is a fact of the protocol: a change of it that prunes or adds steps shows here.
SIZES = {0: 16_000, 1: 350_000}


@pytest.mark.parametrize("losses", sorted(SIZES))
def test_two_drivers_in_any_order_publish_every_record_once(losses: int) -> None:
    """Bound: two drivers to their end, five records in two or three epochs, two shards, up to `losses` lost answers."""
    explored = explore(Rules(), losses)
    assert explored.hole is None
    assert explored.states >= SIZES[losses], "the exploration was cut short"


@pytest.mark.parametrize(
    ("rules", "hole"),
    [
        (Rules(r1_conditional_head=False), "decided otherwise"),
        (Rules(r3_declare_before_publish=False), "decided otherwise"),
        (Rules(r3_repeat_the_declared=False), "decided otherwise"),
        (Rules(r8_mark_decides=False), "after recovery the sink holds ['a', 'b', 'b', 'c'"),
        (Rules(r9_floor_before_deletion=False), "decided otherwise"),
    ],
    ids=["R1", "R3-declare", "R3-repeat", "R8", "R9"],
)
def test_a_rule_switched_off_leaves_a_hole(rules: Rules, hole: str) -> None:
    explored = explore(rules, losses=1)
    assert explored.hole is not None
    assert hole in explored.hole
