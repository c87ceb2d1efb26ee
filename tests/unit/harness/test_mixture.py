"""The plan of a campaign is drawn from the seed, and FAULTS= says what is in it."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.toolchain.command import ToolchainError
from tests.harness.campaigns import embedded
from tests.harness.campaigns.chaos import main
from tests.harness.cluster_sorts import CLUSTER
from tests.harness.cut_sorts import CUT
from tests.harness.mixture import (
    EMBEDDED,
    FLOWING,
    IN_COMMIT,
    IN_TASKS,
    SORTS,
    TABLE,
    NoFaultError,
    parse_faults,
    plan,
    with_work_left,
)
from tests.harness.platform_sorts import RESULT_STORE
from tests.harness.portions import seeded_for
from tests.harness.schedule import DECLARED, STEPS, PlannedFault
from tests.harness.sinks import ACCEPTED_ROWS
from tests.harness.slow_disk_sorts import SERVER_DISKS
from tests.harness.stall_sorts import DELAYED

SEEDS = st.integers(0, 2**40)
EVENT = {"t": 1, "event": "epoch", "epoch": 4, "state": "declared", "driver": 9}


@given(seed=SEEDS, count=st.integers(1, 40), shards=st.integers(1, 8))
def test_the_same_seed_gives_the_same_plan(seed: int, count: int, shards: int) -> None:
    strikes = parse_faults(str(count), seed)
    assert strikes == parse_faults(str(count), seed)
    planned = plan(seed, strikes, shards)
    assert planned == plan(seed, strikes, shards)
    assert Counter(one.strike for one in planned) == Counter(strikes)
    assert all(0 <= one.shard < shards for one in planned)


@given(seed=SEEDS)
def test_a_number_gives_every_sort_before_one_comes_twice(seed: int) -> None:
    assert set(parse_faults(str(len(EMBEDDED)), seed)) == set(EMBEDDED.values())
    assert parse_faults(str(len(EMBEDDED) + 5), seed)[: len(EMBEDDED)] == parse_faults(str(len(EMBEDDED)), seed)


def test_plans_differ_by_seed() -> None:
    plans = [tuple(plan(seed, parse_faults("all", seed), 2)) for seed in range(20)]
    assert len({tuple(one.strike for one in planned) for planned in plans}) > 15
    assert {one.step for planned in plans for one in planned} == {*(step for step, _ in STEPS), DECLARED}


@given(seed=SEEDS)
def test_what_a_task_has_to_point_out_is_struck_at_a_step_of_a_task(seed: int) -> None:
    planned = plan(seed, parse_faults("40", seed), 2)
    pointed_out = [one for one in planned if one.strike.target in IN_TASKS and one.strike.kind not in DELAYED]
    assert not [one for one in pointed_out if one.step == DECLARED]


@given(seed=SEEDS)
def test_what_is_about_a_transaction_strikes_while_one_is_open(seed: int) -> None:
    planned = [one for one in plan(seed, parse_faults("all", seed), 2) if one.strike.kind in IN_COMMIT]
    assert len(planned) == len(IN_COMMIT)
    assert {one.step for one in planned} == {"transaction_open"}


def test_records_are_there_for_faults_that_they_have_to_flow_for() -> None:
    for name, strike in {**EMBEDDED, **CLUSTER}.items():
        alone, twice = (seeded_for(1, 60_000, [strike] * count) for count in (10, 11))
        assert alone.numbers.sent == twice.numbers.sent
        portions = [60_000 // one.portion for one in (alone, twice)]
        tries = 2 if strike.kind == CUT or name in ("operator-stall", "kubelet-stall") else 1
        assert portions[1] - portions[0] == tries * (3 if strike.kind in FLOWING else 1), name


def test_a_fault_at_a_declaration_takes_declarations_from_its_epoch_on() -> None:
    kills = (plan(seed, parse_faults("driver-kill", seed), 2, first_epoch=4)[0] for seed in range(50))
    one = next(one for one in kills if one.step == DECLARED)
    assert one.matches(EVENT)
    assert not one.matches({**EVENT, "epoch": 3})
    assert not one.matches({**EVENT, "state": "published"})
    assert not one.matches({"t": 1, "event": "driver", "state": "started", "pid": 9})


def test_names_are_taken_with_their_counts() -> None:
    strikes = parse_faults("zombie*3, broker-kill", 7)
    assert strikes == (EMBEDDED["zombie"],) * 3 + (EMBEDDED["broker-kill"],)
    assert parse_faults("all", 7) == tuple(EMBEDDED.values())


@pytest.mark.parametrize("text", ["", "0", "zombies", "zombie*0", "zombie*", "zombie*-1", "zombie,,broker-kill"])
def test_other_names_are_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(NoFaultError, match=r"at least 1|executor-kill, .*store-stop"):
        parse_faults(text, 7)


@pytest.mark.parametrize("faults", ["broker-stop", "zombie*2", "all", "60"])
def test_what_a_campaign_sends_can_be_made_and_has_a_portion_for_every_fault(faults: str) -> None:
    strikes = parse_faults(faults, 1)
    subject = seeded_for(1, 6_000, strikes)
    assert len(list(subject.records())) == subject.numbers.sent == 6_000
    assert 6_000 // subject.portion > len(strikes)


@given(seed=SEEDS)
def test_the_result_store_is_struck_while_its_own_transaction_is_there(seed: int) -> None:
    planned = [
        one for one in plan(seed, parse_faults("all", seed), 2, table=TABLE) if one.strike.target == RESULT_STORE
    ]
    assert {one.sink for one in planned} == {ACCEPTED_ROWS}


LACKING = {
    "find_postgres": ("no result store", "database", 5),
    "find_faketime": ("libfaketime: no compiler", "clock", 1),
    "find_strace": ("there is no strace: apt install strace", "slow-disk", len(SERVER_DISKS)),
}
"""What a machine may lack -> why it is refused, what its faults have in their names, how many those are."""


@pytest.mark.parametrize("tool", LACKING)
def test_what_a_machine_lacks_is_left_out_refused_by_name_and_looked_for_only_where_one_is_drawn(
    tool: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    why, word, count = LACKING[tool]
    looked: list[str] = []

    def find(name: str, *_: object) -> Path | None:
        looked.append(name)
        if name == tool != "find_postgres":
            raise ToolchainError(why)
        return None if name == tool else Path("/")

    for name in LACKING:
        monkeypatch.setattr(embedded, name, partial(find, name))
    assert main(["--plan", "--seed", "3", "--faults", "zombie"]) == 0
    assert looked == ["find_postgres"]
    capsys.readouterr()
    assert main(["--plan", "--seed", "3"]) == 0
    planned = capsys.readouterr().out
    assert planned.count("\n") == len(EMBEDDED) - count
    assert word not in planned
    named = next(name for name in EMBEDDED if word in name)
    assert main(["--plan", "--seed", "3", "--faults", f"zombie,{named}*2"]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--faults", "nothing"], ["--records", "5"]])
def test_what_cannot_be_done_is_refused_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_cut_without_effect_comes_again_with_a_declaration_and_a_stall_when_a_shard_begins() -> None:
    cut = PlannedFault(3, "committed", "accepted", 1, strike=SORTS["executor-store-cut"], after_s=1.2, planned_s=12.0)
    again = with_work_left(cut)
    assert (again.phase, again.after_s, again.planned_s) == (DECLARED, 0.0, 12.0)
    held = PlannedFault(3, "transaction_open", "accepted_rows", 1, strike=SORTS["database-cut"], planned_s=12.0)
    stall = PlannedFault(3, DECLARED, None, 0, strike=SORTS["executor-stall"], after_s=1.2, planned_s=3.0)
    assert {with_work_left(one).phase for one in (held, stall)} == {"dedup_begun"}
    kubelet = PlannedFault(3, "ids_decided", None, 0, strike=SORTS["kubelet-stall"], planned_s=150.0)
    assert with_work_left(kubelet).phase == DECLARED
