"""The plan of a campaign is drawn from the seed, and FAULTS= says what is in it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.chaos import described, main, subject_of
from tests.harness.demo import SHARDS
from tests.harness.mixture import IN_TASKS, SORTS, NoFaultError, asked_for, name_of, plan
from tests.harness.schedule import DECLARED, STEPS

SEEDS = st.integers(0, 2**40)
EVENT = {"t": 1, "event": "epoch", "epoch": 4, "state": "declared", "driver": 9}


@given(seed=SEEDS, count=st.integers(1, 40), shards=st.integers(1, 8))
def test_the_same_seed_gives_the_same_plan(seed: int, count: int, shards: int) -> None:
    strikes = asked_for(str(count), seed)
    assert strikes == asked_for(str(count), seed)
    planned = plan(seed, strikes, shards)
    assert planned == plan(seed, strikes, shards)
    assert Counter(one.strike for one in planned) == Counter(strikes)
    assert all(0 <= one.shard < shards for one in planned)


@given(seed=SEEDS)
def test_a_number_gives_every_sort_before_one_comes_twice(seed: int) -> None:
    assert set(asked_for(str(len(SORTS)), seed)) == set(SORTS.values())
    assert asked_for(str(len(SORTS) + 5), seed)[: len(SORTS)] == asked_for(str(len(SORTS)), seed)


def test_plans_differ_by_seed() -> None:
    plans = [tuple(plan(seed, asked_for("all", seed), 2)) for seed in range(20)]
    assert len({tuple(one.strike for one in planned) for planned in plans}) > 15
    assert {one.step for planned in plans for one in planned} == {*(step for step, _ in STEPS), DECLARED}


@given(seed=SEEDS)
def test_what_a_task_has_to_point_out_is_struck_at_a_step_of_a_task(seed: int) -> None:
    planned = plan(seed, asked_for("40", seed), 2)
    assert not [one for one in planned if one.strike.target in IN_TASKS and one.step == DECLARED]


def test_a_fault_at_a_declaration_takes_declarations_from_its_epoch_on() -> None:
    (one,) = (one for one in plan(1, asked_for("all", 1), 2, first_epoch=4) if name_of(one.strike) == "driver-kill")
    assert one.step == DECLARED
    assert one.matches(EVENT)
    assert not one.matches({**EVENT, "epoch": 3})
    assert not one.matches({**EVENT, "state": "published"})
    assert not one.matches({"t": 1, "event": "driver", "state": "started", "pid": 9})


def test_names_are_taken_with_their_counts() -> None:
    strikes = asked_for("zombie*3, broker-kill", 7)
    assert strikes == (SORTS["zombie"],) * 3 + (SORTS["broker-kill"],)
    assert asked_for("all", 7) == tuple(SORTS.values())


@pytest.mark.parametrize("text", ["", "0", "zombies", "zombie*0", "zombie*", "zombie*-1", "zombie,,broker-kill"])
def test_other_names_are_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(NoFaultError, match=r"at least 1|executor-kill, .*store-stop"):
        asked_for(text, 7)


@pytest.mark.parametrize("faults", ["broker-stop", "zombie*2", "all", "60"])
def test_what_a_campaign_sends_can_be_made_and_has_a_portion_for_every_fault(faults: str) -> None:
    strikes = asked_for(faults, 1)
    subject = subject_of(1, 6_000, strikes)
    assert len(list(subject.records())) == subject.numbers.sent == 6_000
    assert 6_000 // subject.portion > len(strikes)


def test_the_plan_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--plan", "--seed", "3", "--faults", "12"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == described(plan(3, asked_for("12", 3), SHARDS))


@pytest.mark.parametrize("words", [["--faults", "nothing"], ["--records", "5"]])
def test_what_cannot_be_done_is_refused_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", *words]) == 1
    assert capsys.readouterr().err.count("\n") == 1
