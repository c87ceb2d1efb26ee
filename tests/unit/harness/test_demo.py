"""The demo kills executors, and one more strike that the seed draws; a user's file sees executors killed alone."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.console import Console
from infra.embedded.spark import SparkHome
from infra.embedded.stack import EmbeddedStack, Endpoints
from infra.toolchain.prepare import CHECKOUT, Toolchain
from tests.harness.adapters.events import Watch
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.aftermath import effects_of
from tests.harness.campaigns.demo import CLAIM, CLAIM_BEYOND, Demo
from tests.harness.campaigns.strikes import KILLS_OF_THE_DEMO, count_by_kind, one_of
from tests.harness.cut_sorts import CUT, TO_BROKER, TO_RESULTS, TO_STORE
from tests.harness.cut_sorts import SHORT_S as CUTS_S
from tests.harness.definition.packaged import SHARDS
from tests.harness.evidence import Manifest
from tests.harness.faults.arsenal import ExecutorArsenal
from tests.harness.faults.kills import Kills
from tests.harness.history import History
from tests.harness.mixture import EMBEDDED, name_of, steps_of
from tests.harness.play.cut_links import CutLinks, cut_links
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import DECLARED, Strike, plan
from tests.harness.stack.stack import Stack
from tests.harness.stall_sorts import SHORT_S, STALL
from tests.harness.subject import Subject, seeded
from tests.unit.harness.sleepers import Server, soon

STREAM = seeded(7, 2_000)
FILE = replace(STREAM, kind="file")
KILL = Strike("sigkill")


def kills(broker: Any, store: Any, links: Any = None, say: Callable[[str], None] = print) -> Kills:
    """What the demo strikes with, without a driver."""
    return Kills(cast("SupervisedDrivers", None), cast("Watch", None), broker, store, links or {}, seed=7, say=say)


def demo(seed: int = 7, kills: int = 3, subject: Subject = STREAM) -> Demo:
    return Demo(CHECKOUT, cast("Toolchain", None), subject, seed, kills, Console())


@given(seed=st.integers(0, 2**31), kills=st.integers(2, 6))
def test_all_but_one_kill_are_executors_and_the_seed_says_which(seed: int, kills: int) -> None:
    planned = demo(seed, kills).planned
    assert planned == demo(seed, kills).planned
    strikes = [one.strike for one in planned]
    assert strikes.count(KILL) == kills - 1
    assert one_of(KILLS_OF_THE_DEMO, seed) in strikes
    assert [one.after_epoch for one in planned] == [one.after_epoch for one in plan(seed, kills, SHARDS)]
    for one, as_kill in zip(planned, plan(seed, kills, SHARDS), strict=True):
        if one.strike.kind != CUT:
            assert replace(one, strike=KILL, planned_s=None) == as_kill, "steps and epochs stay"
        assert (one.step, one.sink) in steps_of(one.strike)
        assert one.planned_s in {STALL: SHORT_S, CUT: CUTS_S}.get(one.strike.kind, (None,))
        assert bool(one.after_s) <= (one.step == DECLARED)


def test_the_kill_of_another_role_is_any_of_them_at_any_place() -> None:
    drawn = Counter(
        (name_of(one.strike), at)
        for seed in range(300)
        for at, one in enumerate(demo(seed).planned)
        if one.strike != KILL
    )
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
    with cut_links([EMBEDDED[name]]) as cuts:
        place = kills(*servers, cuts.links)
        assert place.fault(EMBEDDED[name]) is not None
        place.close()
    with pytest.raises(ValueError, match="there is no fault zombie of driver here"):
        place.fault(EMBEDDED["zombie"])
    assert effects_of(EMBEDDED[name].kind, EMBEDDED[name].target), "the judge knows what shows it"


def test_a_kill_ends_the_server_of_its_role(tmp_path: Path) -> None:
    broker, store = Server(tmp_path), Server(tmp_path)
    place = kills(broker, store, say=lambda _: None)
    for name, server, other in (("broker-kill", broker, store), ("store-kill", store, broker)):
        broker.restart()
        store.restart()
        [(who, _)] = place.fault(EMBEDDED[name]).strike({})
        assert who.startswith(f"{server.pid}@")
        soon(f"the {name} ends nobody", lambda: not server.running())  # noqa: B023 - called at once
        assert other.running()
        assert other.child is not None
        other.child.kill()
    place.close()


def test_a_cut_of_the_demo_holds_back_what_goes_by_the_link_of_its_server(tmp_path: Path) -> None:
    servers = Server(tmp_path), Server(tmp_path)
    servers[1].restart()
    with cut_links([TO_BROKER.strike, TO_STORE.strike]) as cuts:
        place = kills(*servers, cuts.links)
        fault = place.fault(TO_STORE.strike)
        assert fault.strike({})[0][0].startswith(f"{servers[1].pid}@")
        with socket.create_connection(("127.0.0.1", cuts.links[TO_STORE.target].port), 1.0):
            soon("the connection is not made", fault.landed)
        assert not cuts.links[TO_BROKER.target].held
        place.close()
    assert servers[1].child is not None
    servers[1].child.kill()


def test_a_server_that_nothing_stands_before_is_not_cut_off(tmp_path: Path) -> None:
    place = kills(Server(tmp_path), Server(tmp_path))
    for strike in (TO_BROKER.strike, TO_STORE.strike, TO_RESULTS.strike):
        with pytest.raises(ValueError, match="there is no fault cut of"):
            place.fault(strike)


def test_drivers_are_followed_by_others_only_where_one_may_be_struck(tmp_path: Path) -> None:
    stack = cast("EmbeddedStack", type("S", (), {"kafka": None, "object_store": None}))
    home = cast("SparkHome", None)
    with History(tmp_path / "history.jsonl") as history:
        watch = Watch(tmp_path / "events.jsonl", history)
        drivers, arsenal = demo()._drivers(home, watch, stack, history, CutLinks({}))
        assert (type(drivers), type(arsenal)) == (SupervisedDrivers, Kills)
        drivers, arsenal = demo(subject=FILE)._drivers(home, watch, stack, history, CutLinks({}))
        assert not isinstance(drivers, SupervisedDrivers)
        assert isinstance(arsenal, ExecutorArsenal)


@pytest.mark.parametrize("name", ["broker-cut", "store-cut", "broker-kill"])
def test_the_pipeline_goes_by_the_link_that_is_cut_and_the_harness_straight(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = next(seed for seed in range(100) if one_of(KILLS_OF_THE_DEMO, seed) == EMBEDDED[name])
    endpoints = Endpoints("127.0.0.1:1", "http://127.0.0.1:2", "key", "secret", "bucket")
    seen: dict[str, Any] = {}

    def stack(*_: object, kafka_link: int | None, **__: object) -> Any:
        seen["kafka_link"] = kafka_link
        there = {"endpoints": endpoints, "kafka": SimpleNamespace(link_port=3), "object_store": None}
        return nullcontext(SimpleNamespace(**there))

    def act(_: object, __: object, stack: Stack, *___: object, arsenal: Kills, **told: object) -> Any:
        seen["stack"], seen["settings"] = stack, told["settings"]
        seen["links"] = {one: link.target for one, link in arsenal.cuts.items()}
        seen["ports"] = [link.port for link in arsenal.cuts.values()]
        return SimpleNamespace(go=lambda: None)

    for one in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(one, "of another run")
    monkeypatch.setattr("tests.harness.campaigns.demo.EmbeddedStack", stack)
    monkeypatch.setattr("tests.harness.campaigns.demo.SparkHome", lambda *_: None)
    monkeypatch.setattr("tests.harness.campaigns.demo.Act", act)
    directory = RunDirectory(tmp_path)
    demo(seed)._play(directory)
    settings, ports = seen["settings"], seen["ports"]
    assert seen["stack"].endpoints == endpoints
    behind = {"broker-cut": {TO_BROKER.target: ("127.0.0.1", 3)}, "store-cut": {TO_STORE.target: ("127.0.0.1", 2)}}
    assert seen["links"] == behind.get(name, {})
    kafka = f"127.0.0.1:{ports[0]}" if name == "broker-cut" else endpoints.kafka_bootstrap
    store = f"http://127.0.0.1:{ports[0]}" if name == "store-cut" else endpoints.s3_endpoint
    assert (settings.kafka_bootstrap, settings.s3_endpoint) == (kafka, store)
    assert seen["kafka_link"] == (ports[0] if name == "broker-cut" else None)


def test_strikes_are_told_in_one_line() -> None:
    assert count_by_kind([KILL, EMBEDDED["broker-kill"], KILL]) == "1 broker-kill, 2 executor-kill"
