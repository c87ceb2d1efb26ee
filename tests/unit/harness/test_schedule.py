"""The plan of kills: drawn from the seed, every step in its turn, far enough apart."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.schedule import STEPS, PlannedFault, plan

SEEDS = st.integers(0, 2**40)
KILL = PlannedFault(after_epoch=4, step="committed", sink="accepted", shard=1)
EVENT = {"t": 1, "event": "step", "epoch": 4, "step": "committed", "sink": "accepted", "shard": 1, "pid": 9}


@given(seed=SEEDS, kills=st.integers(0, 30), shards=st.integers(1, 8))
def test_the_same_seed_gives_the_same_plan(seed: int, kills: int, shards: int) -> None:
    planned = plan(seed, kills, shards)
    assert planned == plan(seed, kills, shards)
    assert len(planned) == kills
    assert all(0 <= kill.shard < shards for kill in planned)


@given(seed=SEEDS, kills=st.integers(1, 30))
def test_fewer_kills_are_the_beginning_of_more(seed: int, kills: int) -> None:
    assert plan(seed, kills - 1, 2) == plan(seed, kills, 2)[:-1]


def test_seeds_differ_in_steps_shards_and_spacing() -> None:
    plans = [plan(seed, len(STEPS), 2) for seed in range(40)]
    assert len({tuple(kill.phase for kill in one) for one in plans}) > 20
    assert {one[0].shard for one in plans} == {0, 1}
    assert {one[1].after_epoch for one in plans} == {3, 4}


@given(seed=SEEDS, rounds=st.integers(1, 4), rest=st.integers(0, len(STEPS) - 1))
def test_every_step_comes_once_before_one_comes_twice(seed: int, rounds: int, rest: int) -> None:
    order = [(kill.step, kill.sink) for kill in plan(seed, rounds * len(STEPS) + rest, 2)]
    for start in range(0, len(order), len(STEPS)):
        turn = order[start : start + len(STEPS)]
        assert len(set(turn)) == len(turn)
        assert set(turn) <= set(STEPS)


@given(seed=SEEDS, first=st.integers(0, 9), spacing=st.integers(0, 9))
def test_kills_are_spacing_epochs_apart_or_one_more(seed: int, first: int, spacing: int) -> None:
    gates = [kill.after_epoch for kill in plan(seed, 12, 2, first_epoch=first, spacing=spacing)]
    assert gates[0] == first
    assert {later - earlier for earlier, later in pairwise(gates)} <= {spacing, spacing + 1}


@pytest.mark.parametrize(
    ("other", "takes", "rearmed_takes"),
    [
        ({}, True, True),
        ({"epoch": 400}, True, True),
        ({"shard": 0}, False, True),
        ({"epoch": 3}, False, False),
        ({"step": "transaction_open"}, False, False),
        ({"sink": "user_counts"}, False, False),
        ({"sink": None}, False, False),
        ({"event": "epoch"}, False, False),
    ],
)
def test_a_kill_takes_its_step_from_its_epoch_on_and_a_rearmed_one_in_any_shard(
    other: dict[str, Any], takes: bool, rearmed_takes: bool
) -> None:
    assert KILL.matches({**EVENT, **other}) is takes
    assert KILL.matches({**EVENT, **other}, exactly=False) is rearmed_takes
    assert not KILL.matches({"t": 1, "event": "driver", "state": "started", "pid": 9})
