"""Leadership moved between brokers in pods: when it counts, what it tells, and what is left of it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import DELETE_NOW, NoProcessError
from tests.harness.adapters.leaders import Leaders, Led, Where
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.adapters.transactions import ToolFailedError
from tests.harness.faults import cluster_leader
from tests.harness.faults.cluster_leader import LeadingBroker, MovedLeaders, leading
from tests.harness.faults.cluster_server import EndedServerPod
from tests.harness.faults.cluster_stop import StoppedServerPod
from tests.harness.faults.healing import Healing
from tests.unit.cluster.fake_platform import FakePlatform, server
from tests.unit.harness.test_armed import FakeSession

SOURCE, SINK, LOG = ("events_uc", 0), ("uc.accepted", 1), ("__transaction_state", 2)
STEP = {"event": "step", "epoch": 3, "shard": 1, "step": "transaction_open", "sink": "accepted"}
SILENT = KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))


class FakeLeaders:
    """Leaders of plain data: an election has those lead that are preferred, unless a test holds it."""

    pipeline = "uc"

    def __init__(self) -> None:
        self.there = {
            SOURCE: Led(0, (0, 1, 2), frozenset({0, 1, 2})),
            SINK: Led(1, (1, 2, 0), frozenset({0, 1, 2})),
            LOG: Led(2, (2, 0, 1), frozenset({0, 1, 2})),
        }
        self.numbers = dict.fromkeys(self.there, 4)
        self.elections: list[list[Where]] = []
        self.held: set[Where] = set()
        self.raises = True
        self.refusal: Exception | None = None
        self.silent = False

    def led(self) -> dict[Where, Led]:
        if self.silent:
            raise SILENT
        return dict(self.there)

    def epochs(self, partitions: Collection[Where]) -> dict[Where, int]:
        if self.silent:
            raise SILENT
        return {where: self.numbers[where] for where in partitions}

    def prefer(self, wanted: Mapping[Where, int], led: Mapping[Where, Led]) -> None:
        if self.refusal is not None:
            raise self.refusal
        for where, broker in wanted.items():
            rest = tuple(one for one in led[where].copies if one != broker)
            self.there[where] = Led(self.there[where].leader, (broker, *rest), led[where].in_sync)

    def elect(self, partitions: Collection[Where]) -> dict[Where, str]:
        if self.silent:
            raise SILENT
        self.elections.append(sorted(partitions))
        for where in partitions:
            if where not in self.held:
                self.lead(where, self.there[where].copies[0])
        return {}

    def lead(self, where: Where, broker: int) -> None:
        one = self.there[where]
        if one.leader != broker:
            self.numbers[where] += self.raises
        self.there[where] = Led(broker, one.copies, one.in_sync)


class World:
    """Three brokers in pods that lead a partition each."""

    def __init__(self) -> None:
        self.platform = FakePlatform(*(server(f"kafka-{one}", uid=f"u{one}", cid=f"c{one}") for one in range(3)))
        self.brokers = ServerPods(cast("Cluster", self.platform), "broker", "app=kafka", "java", 3)
        self.leaders, self.said = FakeLeaders(), list[str]()
        self.healing = Healing(self.said.append)
        self.ended = self.healing.ended

    def moving(self) -> MovedLeaders:
        made = cast("Leaders", self.leaders)
        fault = MovedLeaders(made, self.brokers, healing=self.healing)
        fault.arm()
        return fault

    def pick(self) -> Any:
        return LeadingBroker(cast("Leaders", self.leaders), self.brokers).pick


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_leader, "SEEN_S", 0.1)
    monkeypatch.setattr(cluster_leader, "SETTLED_S", 0.1)


def test_every_leader_is_another_one_and_the_epochs_tell(world: World) -> None:
    fault = world.moving()
    assert {where: one.leader for where, one in world.leaders.there.items()} == {SOURCE: 0, SINK: 1, LOG: 2}
    assert world.leaders.elections == [], "who is prepared does not lead before the step"
    struck = fault.strike(STEP)
    assert [who for who, _ in struck] == ["kafka-0@u0/c0", "kafka-1@u1/c1", "kafka-2@u2/c2"]
    fault.endure()
    fault.heal()
    assert fault.after() == ["kafka-0@u0/c0", "kafka-1@u1/c1", "kafka-2@u2/c2"]
    assert fault.evidence() == {
        "leaders": {
            "events_uc/0": {"before": 0, "after": 1, "epoch_before": 4, "epoch_after": 5},
            "uc.accepted/1": {"before": 1, "after": 2, "epoch_before": 4, "epoch_after": 5},
            "__transaction_state/2": {"before": 2, "after": 0, "epoch_before": 4, "epoch_after": 5},
        }
    }
    assert fault.landed()
    assert world.healing.owed == []
    assert world.leaders.elections == [sorted([SOURCE, SINK, LOG]), []], "nothing was left to be elected"


def test_what_is_struck_and_told_is_what_moved(world: World) -> None:
    world.leaders.held = {SOURCE, LOG}
    fault = world.moving()
    assert [who for who, _ in fault.strike(STEP)] == ["kafka-1@u1/c1"]
    fault.endure()
    assert fault.after() == ["kafka-2@u2/c2"]
    assert list(fault.evidence()["leaders"]) == ["uc.accepted/1"]
    assert fault.landed()


def test_an_election_that_changes_no_leader_is_a_miss(world: World) -> None:
    world.leaders.held = {SOURCE, SINK, LOG}
    fault = world.moving()
    with pytest.raises(NoProcessError, match="no partition had another leader"):
        fault.strike(STEP)
    assert world.healing.owed == []
    assert not fault.landed()


def test_another_leader_of_the_same_leader_epoch_is_no_hit(world: World) -> None:
    """The brokers' word alone may be an old one; the epoch is what a change cannot do without."""
    world.leaders.raises = False
    fault = world.moving()
    fault.strike(STEP)
    assert fault.after() != []
    assert not fault.landed()


def test_who_is_not_in_sync_is_not_to_lead_and_who_is_alone_stays(world: World) -> None:
    world.leaders.there[SOURCE] = Led(0, (0, 1), frozenset({0, 1}))
    world.leaders.there[SINK] = Led(1, (1,), frozenset({1}))
    world.leaders.there[LOG] = Led(2, (2, 0, 1), frozenset({0, 1, 2}))
    fault = world.moving()
    fault.strike(STEP)
    assert world.leaders.elections == [sorted([SOURCE, LOG])]
    fault.after()
    assert set(fault.evidence()["leaders"]) == {"events_uc/0", "__transaction_state/2"}


def test_copies_that_are_behind_are_waited_for(world: World) -> None:
    world.leaders.there[SOURCE] = Led(0, (0, 1, 2), frozenset({0, 1}))
    with world.platform.gives_up("in sync"):
        world.moving()
    whole = Led(0, (0, 1, 2), frozenset({0, 1, 2}))
    threading.Timer(0.1, world.leaders.there.__setitem__, (SOURCE, whole)).start()
    world.moving()


def test_where_nobody_else_can_lead_it_is_a_miss_that_says_so(world: World) -> None:
    world.leaders.there = {SOURCE: Led(0, (0,), frozenset({0}))}
    fault = world.moving()
    with pytest.raises(NoProcessError, match="no partition has a copy in sync"):
        fault.strike(STEP)


def test_a_leader_that_changed_before_the_step_is_no_news_of_the_fault(world: World) -> None:
    fault = world.moving()
    world.leaders.lead(SOURCE, 2)
    fault.strike(STEP)
    fault.after()
    assert set(fault.evidence()["leaders"]) == {"uc.accepted/1", "__transaction_state/2"}


def test_when_all_of_them_have_it_is_a_miss(world: World) -> None:
    fault = world.moving()
    for where in (SOURCE, SINK, LOG):
        world.leaders.lead(where, world.leaders.there[where].copies[0])
    with pytest.raises(NoProcessError, match="another leader already"):
        fault.strike(STEP)
    assert world.healing.owed == []


def test_what_could_not_be_prepared_is_a_miss_that_says_why(world: World) -> None:
    world.leaders.refusal = ToolFailedError("Topic uc.accepted not found")
    fault = world.moving()
    with pytest.raises(NoProcessError, match=r"could not be prepared: Topic uc\.accepted not found"):
        fault.strike(STEP)
    assert world.healing.owed == []


def test_brokers_that_do_not_answer_are_a_miss_and_what_was_prepared_stays_owed(world: World) -> None:
    fault = world.moving()
    world.leaders.silent = True
    with pytest.raises(NoProcessError, match="no leader was moved"):
        fault.strike(STEP)
    assert world.healing.owed == ["have those brokers lead that were prepared to"]
    world.leaders.silent = False
    world.healing.close(torn_down=False)
    assert world.leaders.elections == [sorted([SOURCE, SINK, LOG])]


def test_brokers_that_do_not_answer_afterwards_are_asked_again(world: World) -> None:
    fault = world.moving()
    fault.strike(STEP)
    world.leaders.silent = True
    fault.endure()
    fault.heal()
    assert fault.after() == []
    world.leaders.silent = False
    assert len(fault.after()) == 3
    assert world.healing.owed != [], "it is asked for again at the end of the run"


def test_a_run_that_ends_before_the_step_leaves_nobody_prepared_and_says_so(world: World) -> None:
    """Else Kafka would elect them by itself some minutes later, in the middle of somebody else's run."""
    world.moving()
    world.ended.set()
    world.healing.close(torn_down=False)
    assert world.said == ["✓ healed at the end of the run: have those brokers lead that were prepared to"]
    assert {where: one.leader for where, one in world.leaders.there.items()} == {SOURCE: 1, SINK: 2, LOG: 0}


def test_the_broker_that_leads_what_is_written_is_the_one_to_strike(world: World) -> None:
    assert world.pick()(STEP).pod.name == "kafka-1"
    world.leaders.lead(SINK, 2)
    picked = world.pick()(STEP)
    assert (picked.pod.name, picked.why) == ("kafka-2", {"led": ["uc.accepted/1", "__transaction_state/2"]})


@pytest.mark.parametrize("event", [{"event": "epoch", "epoch": 3}, {**STEP, "step": "ids_decided", "sink": None}])
def test_where_nothing_is_written_it_is_the_one_that_leads_most(world: World, event: dict[str, Any]) -> None:
    world.leaders.lead(SOURCE, 2)
    assert world.pick()(event).pod.name == "kafka-2"


def test_who_leads_nothing_is_nobody_to_strike(world: World) -> None:
    assert leading({}, SINK) is None
    assert leading({SINK: Led(-1, (0, 1), frozenset())}, SINK) is None
    world.leaders.there = {}
    with pytest.raises(NoProcessError, match="broker None"):
        world.pick()(STEP)


def test_a_leader_that_is_not_ready_or_not_known_is_missed(world: World) -> None:
    world.platform.there[1] = server("kafka-1", uid="u1", cid="c1", ready=False)
    with pytest.raises(NoProcessError, match=r"broker 1, which leads, is not ready; ready are \[0, 2\]"):
        world.pick()(STEP)
    world.leaders.silent = True
    with pytest.raises(NoProcessError, match="no broker tells who leads"):
        world.pick()(STEP)


def test_a_deleted_leader_tells_what_it_led(world: World) -> None:
    fault = EndedServerPod(world.brokers, DELETE_NOW, healing=world.healing, pick=world.pick())
    fault.arm()
    back = server("kafka-1", uid="v1", cid="d1")
    world.platform.on_delete = lambda: world.platform.there.__setitem__(1, back)
    assert fault.strike(STEP)[0][0] == "kafka-1@u1/c1"
    fault.endure()
    assert fault.evidence() == {"restarts": 0, "node": "worker", "led": ["uc.accepted/1"]}


def test_a_stopped_leader_tells_what_it_led(world: World) -> None:
    world.platform.sessions = lambda _: FakeSession("armed 7", "stop 7", "go on 7")
    fault = StoppedServerPod(world.brokers, 0.0, healing=world.healing, pick=world.pick())
    assert fault.strike(STEP)[0][0] == "kafka-1@u1/c1"
    fault.heal()
    assert fault.evidence()["led"] == ["uc.accepted/1"]
