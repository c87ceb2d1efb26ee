"""The demo kills executors and one of another role, which the seed draws; a user's file sees executors killed alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.console import Console
from infra.embedded.spark import SparkHome
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import CHECKOUT, Toolchain
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.demo import CLAIM, CLAIM_BEYOND, SHARDS, Demo
from tests.harness.evidence import Manifest
from tests.harness.faults.arsenal import ExecutorArsenal
from tests.harness.faults.kills import Kills
from tests.harness.history import History
from tests.harness.mixture import EMBEDDED, name_of
from tests.harness.schedule import Strike, plan
from tests.harness.stall_sorts import SHORT_S, STALL
from tests.harness.strikes import KILLS_OF_THE_DEMO, one_of, told
from tests.harness.subject import Subject, seeded
from tests.unit.harness.sleepers import Server

STREAM = seeded(7, 2_000)
FILE = replace(STREAM, kind="file")
KILL = Strike("sigkill")


def demo(seed: int = 7, kills: int = 3, subject: Subject = STREAM) -> Demo:
    return Demo(CHECKOUT, cast("Toolchain", None), subject, seed, kills, Console())


@given(seed=st.integers(0, 2**31), kills=st.integers(2, 6))
def test_all_but_one_kill_are_executors_and_the_seed_says_which(seed: int, kills: int) -> None:
    planned = demo(seed, kills).planned
    assert planned == demo(seed, kills).planned
    strikes = [one.strike for one in planned]
    assert strikes.count(KILL) == kills - 1
    assert one_of(KILLS_OF_THE_DEMO, seed) in strikes
    as_kills = [replace(one, strike=KILL, planned_s=None) for one in planned]
    assert as_kills == plan(seed, kills, SHARDS), "steps and epochs stay"
    assert all((one.planned_s in SHORT_S) is (one.strike.kind == STALL) for one in planned)


def test_the_kill_of_another_role_is_any_of_them_at_any_place() -> None:
    drawn = Counter(
        (name_of(one.strike), at) for seed in range(300) for at, one in enumerate(demo(seed).planned)
        if one.strike != KILL
    )  # fmt: skip
    assert set(drawn) == {(name, at) for name in KILLS_OF_THE_DEMO for at in range(3)}


@pytest.mark.parametrize(("kills", "subject"), [(3, FILE), (1, STREAM)])
def test_a_users_file_and_a_single_kill_stay_at_executors(kills: int, subject: Subject) -> None:
    for seed in range(20):
        one = demo(seed, kills, subject)
        assert [of.strike for of in one.planned] == [KILL] * kills
        assert not one.beyond


@pytest.mark.parametrize("subject", [STREAM, FILE])
def test_the_manifest_claims_what_is_struck_and_counts_it(subject: Subject) -> None:
    one = demo(subject=subject)
    told_of = Manifest.model_validate(one._manifest("20261122-090000-7"))
    assert told_of.claim == (CLAIM_BEYOND if subject is STREAM else CLAIM)
    assert {(of.kind, of.target): of.count for of in told_of.faults or ()} == Counter(
        (of.strike.kind, of.strike.target) for of in one.planned
    )
    assert told_of.faults_planned == 3
    assert "driver" in CLAIM_BEYOND


@pytest.mark.parametrize("name", KILLS_OF_THE_DEMO)
def test_what_the_demo_draws_it_can_make(name: str, tmp_path: Path) -> None:
    servers = Server(tmp_path), Server(tmp_path)
    place = Kills(cast("SupervisedDrivers", None), cast("Watch", None), *servers, say=print)
    assert place.fault(EMBEDDED[name]) is not None
    place.close()
    with pytest.raises(ValueError, match="there is no fault zombie of driver here"):
        place.fault(EMBEDDED["zombie"])


def test_drivers_are_followed_by_others_only_where_one_may_be_struck(tmp_path: Path) -> None:
    stack = cast("EmbeddedStack", type("S", (), {"kafka": None, "object_store": None}))
    home = cast("SparkHome", None)
    with History(tmp_path / "history.jsonl") as history:
        watch = Watch(tmp_path / "events.jsonl", history)
        drivers, arsenal = demo()._drivers(home, watch, stack, history)
        assert (type(drivers), type(arsenal)) == (SupervisedDrivers, Kills)
        drivers, arsenal = demo(subject=FILE)._drivers(home, watch, stack, history)
        assert not isinstance(drivers, SupervisedDrivers)
        assert isinstance(arsenal, ExecutorArsenal)


def test_strikes_are_told_in_one_line() -> None:
    assert told([KILL, EMBEDDED["broker-kill"], KILL]) == "1 broker-kill, 2 executor-kill"
