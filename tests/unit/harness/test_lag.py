"""Lag as faults: a driver that nobody starts again for a while, and a partition whose records come later."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.events import Watch
from tests.harness.aftermath import effects_of
from tests.harness.campaigns.chaos import main
from tests.harness.campaigns.cluster import changes_of, strikes_of
from tests.harness.cluster_sorts import USUAL_NODES, USUAL_ROLES, sorts_on
from tests.harness.conditions import Conditions
from tests.harness.faults.healing import Healing
from tests.harness.faults.lag import AwayDriver, KeptBack, Lags
from tests.harness.history import History
from tests.harness.lag_sorts import IN_PODS, LAGS, LASTING
from tests.harness.mixture import EMBEDDED, NoFaultError, Stack, name_of, parse_faults
from tests.harness.play.planned import planned_faults
from tests.harness.portions import sent_by
from tests.harness.report.naming import name_deed
from tests.harness.schedule import PlannedFault
from tests.harness.soak.plan import read_plan
from tests.harness.workload.errors import InputError
from tests.harness.workload.gateways import GATEWAYS
from tests.harness.workload.held_back import HeldBack
from tests.harness.workload.record import well_formed
from tests.unit.harness.test_roles_judged import assert_missed, checked, fault
from tests.unit.harness.test_supervised import Supervised

CAMPAIGNS = Path(__file__).parents[2] / "harness" / "campaigns"
RATED = Conditions(rate=250, idle_ms=300_000, skew=100)


def planned(seconds: float, name: str = "driver-away") -> PlannedFault:
    return PlannedFault(1, "declared", None, 0, LAGS[name], planned_s=seconds)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(tmp_path)
    yield made
    made.drivers.end()
    made.history.close()


def away(world: Supervised, seconds: float) -> tuple[AwayDriver, Healing]:
    watch, healing = Watch(world.folder / "events.jsonl", History(world.folder / "told.jsonl")), Healing(print)
    one = AwayDriver(world.drivers, watch, healing)
    one.prepare(planned(seconds))
    return one, healing


def test_a_driver_that_is_away_is_followed_once_the_time_is_over(world: Supervised) -> None:
    first = world.start()
    one, healing = away(world, 0.5)
    began = time.monotonic()
    ((who, _),) = one.strike({})
    assert who.startswith(f"{first}@")
    assert healing.owed == ["let drivers be started again"]
    one.endure()
    one.heal()
    world.followed(first)
    assert time.monotonic() - began >= 0.5
    assert healing.owed == []
    assert world.drivers.alive() is None
    assert one.evidence() == {"planned_s": 0.5}


def test_a_driver_is_followed_at_once_where_the_run_ends_early(world: Supervised) -> None:
    first = world.start()
    one, healing = away(world, 60.0)
    one.strike({})
    time.sleep(0.3)
    assert world.drivers.driver == first
    healing.close(torn_down=True)
    world.followed(first)


def test_where_there_is_no_driver_nobody_is_kept_away(world: Supervised) -> None:
    one, healing = away(world, 60.0)
    with pytest.raises(NoProcessError):
        one.strike({})
    assert healing.owed == []


def test_records_of_a_partition_are_kept_for_the_time_and_counted() -> None:
    held, healing = HeldBack(), Healing(print)
    one = KeptBack(held, 2, "partition 2", healing)
    one.prepare(planned(0.05, "partition-lag"))
    ((who, _),) = one.strike({})
    assert who == "partition 2"
    assert held.keep(well_formed(0, "a", "u", 1, ""), 2)
    assert not held.keep(well_formed(1, "b", "u", 1, ""), 3)
    one.endure()
    one.heal()
    one.heal()
    assert [record.id for record in held.take()] == ["a"]
    evidence = one.evidence()
    assert one.landed()
    assert (evidence["kept"], one.after(), healing.owed) == (1, [who], [])
    assert evidence["held_s"] >= evidence["planned_s"]


def test_a_partition_to_which_nothing_was_sent_did_not_lag() -> None:
    one = KeptBack(HeldBack(), 2, "partition 2", Healing(print))
    one.prepare(planned(0.01, "partition-lag"))
    one.strike({})
    one.endure()
    one.heal()
    assert not one.landed()


def test_every_partition_lags_before_one_lags_twice() -> None:
    lags = Lags.of(HeldBack(), 8, 3)
    who = [lags.partition(Healing(print)).after()[0] for _ in range(16)]
    assert len({*who[:8]}) == 8
    assert who[8:] == who[:8]
    assert who != [Lags.of(HeldBack(), 8, 4).partition(Healing(print)).after()[0] for _ in range(16)]


LAG: dict[str, Any] = {"after": "partition 2", "planned_s": 2.0, "held_s": 2.1, "kept": 90, "healed_at": 4_000}


def lag(**changes: Any) -> dict[str, Any]:
    return fault("held_back", "partition", **{**LAG, **changes}) | {"process_before": "partition 2"}


def test_a_lag_hit_when_it_kept_records_for_as_long_as_it_was_to() -> None:
    assert checked(lag()).fault.hit, checked(lag()).refuted
    for wrong in ({"kept": 0}, {"held_s": 1.9}, {"held_s": None}):
        assert_missed(lag(**wrong), "kept back")
    assert_missed(lag(held_s=40.1), "held_s is 40.1, and it was undone 2 s after it came")


def test_a_driver_that_was_away_hit_when_another_took_over() -> None:
    assert checked(fault("away", "driver")).fault.hit, checked(fault("away", "driver")).refuted
    assert_missed(fault("away", "driver", after="8@5.50"), "took over")
    assert_missed(fault("away", "driver", after="1@0.50"), "survived")


@pytest.mark.parametrize("name", IN_PODS)
def test_a_lag_is_a_fault_like_others_where_the_sender_is_unpaced(name: str) -> None:
    strike = IN_PODS[name]
    assert effects_of(strike.kind, strike.target)
    assert name_deed(strike.kind) != strike.kind
    assert name_of(strike) == name
    assert parse_faults(name, 1, {**EMBEDDED, **IN_PODS}) == (strike,)
    with pytest.raises(NoFaultError, match="there is no fault"):
        parse_faults(name, 1)
    lengths = lasting((10.0, 20.0))
    faults = planned_faults(3, [strike] * 4, lengths)
    assert sorted(one.planned_s or 0 for one in faults) == [10.0, 10.0, 20.0, 20.0]


def lasting(lengths_s: tuple[float, ...]) -> Conditions:
    return RATED.model_copy(update={"lag_s": lengths_s})


def test_in_pods_partitions_lag_and_only_there_where_the_sender_is_unpaced() -> None:
    asked = ("partition-lag", 1, 2, USUAL_ROLES)
    assert strikes_of(*asked, unpaced=True) == (IN_PODS["partition-lag"],)
    with pytest.raises(NoFaultError):
        strikes_of(*asked)
    assert strikes_of("driver-away", *asked[1:], unpaced=True) == (LAGS["driver-away"],)


def test_the_leader_of_a_partition_is_away_only_where_there_are_three_brokers() -> None:
    strike = IN_PODS["leader-away"]
    assert strikes_of("leader-away", 1, 2, USUAL_ROLES, 3, unpaced=True) == (strike,)
    assert strike in strikes_of("all", 1, 2, USUAL_ROLES, 3, unpaced=True)
    assert strike not in strikes_of("all", 1, 2, USUAL_ROLES, unpaced=True)
    with pytest.raises(NoFaultError, match="needs 3 brokers, and there is 1"):
        strikes_of("leader-away", 1, 2, USUAL_ROLES, unpaced=True)
    with pytest.raises(NoFaultError, match="there is no fault"):
        strikes_of("leader-away", 1, 2, USUAL_ROLES, 3)
    with pytest.raises(NoFaultError, match="there is no fault"):
        parse_faults("leader-away", 1, {**EMBEDDED, **LAGS})


def test_conditions_of_an_unpaced_sender_reach_stream_and_pipeline() -> None:
    subject = sent_by(3, 20_000, (), RATED)
    assert (subject.rate, subject.portion) == (250, 0)
    assert sent_by(3, 20_000, (), Conditions()).rate is None
    assert changes_of(RATED)["settings"] == {"idle_ms": 300_000}
    assert "settings" not in changes_of(Conditions())
    assert RATED.words == ("--rate", "250", "--idle-ms", "300000", "--skew", "100")


@pytest.mark.parametrize("word", ["idle_ms", "skew"])
def test_who_waits_for_the_chain_shows_no_lag(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValidationError, match="need --rate"):
        Conditions.model_validate({word: 100})
    option = f"--{word.replace('_', '-')}"
    assert main(["--plan", "--seed", "1", option, "100"]) == 2
    assert "need --rate" in capsys.readouterr().err
    assert main(["--plan", "--seed", "1", "--faults", "driver-away", "--rate", "250", option, "100"]) == 0


def test_a_bound_that_nobody_waits_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValidationError, match="needs --rate"):
        Conditions(hold_max_ms=15_000)
    own = RATED.model_copy(update={"hold_max_ms": 15_000})
    with pytest.raises(InputError, match="needs gateway-away"):
        sent_by(3, 20_000, parse_faults("partition-lag", 1, LAGS), own)
    asked = ["--plan", "--seed", "1", "--rate", "250", "--idle-ms", "100", "--hold-max-ms", "15000", "--faults"]
    assert main([*asked, "partition-lag"]) == 2
    assert "--hold-max-ms needs gateway-away" in capsys.readouterr().err
    assert main([*asked, "gateway-away"]) == 0


@pytest.mark.parametrize(
    ("name", "a_fault_s", "lagging"),
    [
        ("lag", {"embedded": 30, "cluster": 30}, 1),
        ("unpaced", {"embedded": 40, "cluster": 60}, 2),
        ("lag-brokers", {"cluster": 40}, 1),
    ],
)
def test_a_plan_has_records_for_as_long_as_its_outages_take(
    name: str, a_fault_s: dict[Stack, int], lagging: int
) -> None:
    for part in read_plan(CAMPAIGNS / f"{name}.toml").parts:
        rate, idle_ms, longest_s = part.conditions.rate, part.conditions.idle_ms, max(part.conditions.lag_s)
        assert rate is not None
        assert idle_ms is not None
        assert part.strikes["partition-lag"] >= lagging, "without one nothing shows that a partition lagged"
        needed_s = a_fault_s[part.stack] * part.strikes.total() + longest_s * sum(part.strikes[one] for one in IN_PODS)
        assert part.records / rate >= needed_s, part.name
        assert idle_ms >= 2_000 * longest_s, "a partition that lags must not become idle"


def test_the_plan_has_a_hundred_outages_on_both_stacks() -> None:
    parts, outages = read_plan(CAMPAIGNS / "lag.toml").parts, Counter[str]()
    for part in parts:
        outages[part.stack] += part.strikes.total()
        assert part.strikes["gateway-away"] >= 1
        assert part.strikes["driver-away"] >= 2, "the consumer is to start from far behind"
    assert outages == {"embedded": 64, "cluster": 54}
    assert {one.kind for one in IN_PODS.values()} == {*LASTING}
    for stack in ("embedded", "cluster"):
        holds = [one.conditions.hold_max_ms < 1_000 * min(one.conditions.lag_s) for one in parts if one.stack == stack]
        assert {*holds} == {True, False}, "both cases: windows wait, and are released by the bound"


def test_gateways_are_away_one_after_the_other_and_send_and_say_nothing_meanwhile() -> None:
    held = HeldBack()
    lags = Lags.of(held, 8, 3)
    first, second, third = (lags.gateway(Healing(print)) for _ in range(3))
    assert {*first.after(), *second.after()} == {f"gateway {name}" for name in GATEWAYS}
    assert third.after() == first.after()
    name = first.after()[0].removeprefix("gateway ")
    first.prepare(planned(0.01, "gateway-away"))
    first.strike({})
    assert held.holds(name)
    assert held.keep(well_formed(0, "a", "u", 1, ""), 4, name)
    assert not held.keep(well_formed(1, "b", "u", 1, ""), 4, next(one for one in GATEWAYS if one != name))
    first.endure()
    first.heal()
    assert first.landed()
    assert not held.holds(name)
    assert held.keep(well_formed(2, "c", "u", 1, ""), 4, name), "what waits goes first"
    assert [one.id for one in held.take()] == ["a", "c"]


def test_a_plan_with_a_gateway_has_registered_sources_and_no_other_has() -> None:
    away = parse_faults("gateway-away", 1, LAGS)
    subject = sent_by(3, 20_000, away, RATED)
    assert subject.gateways == GATEWAYS
    own = RATED.model_copy(update={"hold_max_ms": 15_000})
    expected = {"idle_ms": 300_000, "sources": GATEWAYS, "hold_max_ms": 15_000}
    assert own.pipeline(subject.gateways) == changes_of(own, away, subject.gateways)["settings"] == expected
    assert sent_by(3, 20_000, (), RATED).gateways == ()
    assert RATED.pipeline() == {"idle_ms": 300_000}
    with pytest.raises(InputError, match="needs --idle-ms"):
        sent_by(3, 20_000, away, RATED.model_copy(update={"idle_ms": None}))
    assert strikes_of("gateway-away", 1, 2, USUAL_ROLES, unpaced=True) == away


def test_every_sort_of_each_stack_comes_under_a_sender_that_goes_on() -> None:
    """But that of neighbours, whose epochs have to be large; in pods those of the profile `chaos`, with one broker."""
    parts = read_plan(CAMPAIGNS / "unpaced.toml").parts
    for stack, sorts in (("embedded", EMBEDDED), ("cluster", sorts_on(USUAL_NODES, USUAL_ROLES))):
        done = {name for one in parts if one.stack == stack for name in one.strikes}
        assert done == {*sorts, "driver-away", "partition-lag"} - {"neighbour-stall"}, stack


def test_leaders_are_away_in_a_plan_of_its_own_that_needs_three_brokers() -> None:
    parts = read_plan(CAMPAIGNS / "lag-brokers.toml").parts
    done = sum((one.strikes for one in parts), Counter[str]())
    assert (done["leader-away"], done.total()) == (8, 24)
    for part in parts:
        strikes_of(part.faults, part.seed, 1, USUAL_ROLES, 3, unpaced=True)
        with pytest.raises(NoFaultError, match="PROFILE=brokers"):
            strikes_of(part.faults, part.seed, 2, USUAL_ROLES, unpaced=True)
