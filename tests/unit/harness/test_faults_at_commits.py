"""Faults about an open transaction: who opened it is held until they have struck, and let go whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from effectively_once.errors import UnreachableError
from effectively_once.sinks import markers
from effectively_once.sinks.kafka_shard import ShardAddress
from infra.embedded.process import identity
from tests.harness.adapters.coordinator_log import COMMITTED
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.hold import Hold
from tests.harness.faults import transaction
from tests.harness.faults.fault import Fault
from tests.harness.faults.transaction import (
    ForgetfulBroker,
    LongStoppedServer,
    Lost,
    RestartedServer,
    TakenId,
    WhileHeld,
)
from tests.harness.schedule import PlannedFault
from tests.unit.harness.sleepers import SLEEP, soon
from tests.unit.harness.struck import World, lend, stopped

PLANNED = PlannedFault(1, "transaction_open", "accepted", 1)
# Comes by the point with every epoch and shard that its arguments name, as a pipeline's task does.
PASSES = """
import sys
from effectively_once import points
for word in sys.argv[1:]:
    epoch, shard = map(int, word.split("."))
    points.reach("transaction_open", epoch=epoch, shard=shard, sink="accepted")
    print("passed", word, flush=True)
"""
ROOT = Path(__file__).parents[3]


class Blow(Fault):
    """Notes whether anybody was held when it struck."""

    def __init__(self, hold: Hold) -> None:
        self.hold = hold
        self.held_then: dict[str, Any] | None = None
        self.event: Mapping[str, Any] | None = None

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self.event = event
        self.held_then = self.hold.held(0.0)
        return [("a@1", 1)]

    def after(self) -> list[str]:
        return ["b@1"]

    def landed(self) -> bool:
        return self.held_then is not None

    def evidence(self) -> dict[str, Any]:
        return {"stopped_s": 2.0}


class Held(World):
    """A world with a folder of holds."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.hold = Hold(folder / "points")
        self.tasks: list[subprocess.Popen[str]] = []

    def task(self, *words: str) -> subprocess.Popen[str]:
        env = {**os.environ, **self.hold.env, "PYTHONPATH": str(ROOT / "pipelines" / "src")}
        self.tasks.append(
            subprocess.Popen([sys.executable, "-c", PASSES, *words], env=env, stdout=subprocess.PIPE, text=True)
        )
        return self.tasks[-1]

    def armed(self, kind: type[WhileHeld] = WhileHeld, *, exactly: bool = True) -> tuple[WhileHeld, Blow]:
        """A fault that holds who comes by its step, and the blow within it."""
        inner = Blow(self.hold)
        fault = kind(inner, self.hold, self.healing)
        fault.aim(PLANNED, exactly=exactly)
        return fault, inner

    def opened(self, pid: int, *, t: int, epoch: int = 3, shard: int = 1, attempt: int = 0) -> dict[str, Any]:
        named = {"step": "transaction_open", "sink": "accepted", "epoch": epoch, "shard": shard, "attempt": attempt}
        return self.announce(event="step", pid=pid, t=t, **named)

    def close(self) -> None:
        super().close()
        for one in self.tasks:
            one.kill()
            one.communicate()


world = lend(Held)


def output(task: subprocess.Popen[str]) -> list[str]:
    return task.communicate(timeout=20)[0].splitlines()


def test_who_announced_the_step_is_held_until_the_blow_and_goes_on_after_it(world: Held) -> None:
    fault, inner = world.armed()
    assert world.healing.owed == ["let go who is held at a step"]
    task = world.task("0.1", "3.0", "3.1", "4.1")
    told = world.hold.held(20.0)
    assert told is not None
    assert (told["epoch"], told["shard"], told["pid"]) == (3, 1, task.pid), "not before the first epoch, nor elsewhere"
    assert fault.strike(world.opened(task.pid, t=1)) == [("a@1", 1)]
    assert inner.held_then == told
    assert output(task) == ["passed 0.1", "passed 3.0", "passed 3.1", "passed 4.1"]
    assert world.hold.held(0.0) is None
    assert world.healing.owed == []
    assert (fault.after(), fault.landed(), fault.evidence()) == (["b@1"], True, {"stopped_s": 2.0})


def test_a_rearmed_fault_holds_in_any_shard(world: Held) -> None:
    fault, _ = world.armed(exactly=False)
    task = world.task("3.0")
    told = world.hold.held(20.0)
    assert told is not None
    assert told["shard"] == 0
    fault.strike(world.opened(task.pid, t=1, shard=0))
    assert output(task) == ["passed 3.0"]


def test_of_several_that_are_held_any_one_is_struck(world: Held) -> None:
    """In pods the first of each is held, and the announcement may be another's."""
    fault, inner = world.armed(exactly=False)
    task = world.task("3.0")
    assert world.hold.held(20.0)
    fault.strike(world.opened(task.pid + 1, t=1, shard=1))
    assert inner.event is not None
    assert (inner.event["shard"], inner.event["pid"]) == (0, task.pid)
    assert output(task) == ["passed 3.0"]


def test_one_held_in_another_epoch_than_was_announced_is_a_miss_and_goes_on(world: Held) -> None:
    fault, inner = world.armed()
    task = world.task("4.1")
    assert world.hold.held(20.0)
    with pytest.raises(NoProcessError):
        fault.strike(world.opened(task.pid, t=1, epoch=3))
    assert inner.held_then is None
    assert output(task) == ["passed 4.1"]


def test_nobody_held_is_a_miss_and_nobody_is_held_later(world: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "HELD_S", 0.05)
    fault, _ = world.armed()
    with pytest.raises(NoProcessError):
        fault.strike(world.opened(1, t=1))
    assert output(world.task("3.1")) == ["passed 3.1"]
    assert world.hold.held(0.0) is None


def test_a_fault_that_waits_for_no_step_any_more_holds_nobody_and_owes_nothing(world: Held) -> None:
    fault, _ = world.armed()
    fault.disarm()
    assert output(world.task("3.1")) == ["passed 3.1"]
    assert world.healing.owed == []
    fault.disarm()


def test_who_is_held_goes_on_when_the_run_ends(world: Held) -> None:
    world.armed()
    task = world.task("3.1")
    assert world.hold.held(20.0)
    world.healing.close(torn_down=True)
    assert output(task) == ["passed 3.1"]


@pytest.mark.parametrize(("beyond_s", "landed"), [(0.1, True), (60.0, False)])
def test_a_long_stop_has_landed_when_it_was_longer_than_the_time_out(
    world: Held, beyond_s: float, landed: bool
) -> None:
    server = world.server()
    fault = LongStoppedServer(server, 0.2, beyond_s, world.healing)
    fault.strike({})
    assert not fault.landed()
    assert stopped(server.pid)
    fault.endure()
    fault.heal()
    assert fault.landed() is landed


ORDERLY = (
    "import signal, sys; from pathlib import Path; "
    "signal.signal(signal.SIGTERM, lambda *_: (Path('orderly').touch(), sys.exit(0))); " + SLEEP
)


def test_a_restarted_server_ends_in_order_before_it_is_started_again(world: Held) -> None:
    server = world.server(ORDERLY)
    before = identity(server.pid)
    fault = RestartedServer(server, 0.0, world.healing)
    ((who, _),) = fault.strike({})
    assert who == before
    fault.endure()
    assert not server.running()
    assert (world.folder / "orderly").exists(), "it was told, not killed"
    fault.heal()
    assert fault.after() == [identity(server.pid)] != [before]


@pytest.mark.parametrize("hangs_after", [0, 3, None])
def test_a_forgetful_broker_has_landed_when_the_transaction_hangs_once_it_is_back(
    world: Held, hangs_after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, events = world.server(), list[object]()
    before = identity(server.pid)

    def note(bootstrap: str, ids: list[str], state: int) -> None:
        events.append((bootstrap, ids, state, server.running()))

    def find(address: ShardAddress) -> list[object]:
        assert (str(address), server.running()) == ("sink accepted shard 1", True)
        events.append("asked")
        if events.count("asked") == 1:
            raise UnreachableError("not up yet", "", "")
        return [] if hangs_after is None or events.count("asked") <= hangs_after else [address]

    monkeypatch.setattr(transaction, "note_state", note)
    monkeypatch.setattr(markers, "find", find)
    monkeypatch.setattr(transaction, "HANGS_S", 0.5)
    fault = ForgetfulBroker(server, "b:1", "p", 0.0, world.healing)
    ((who, _),) = fault.strike({"sink": "accepted", "shard": 1})
    assert (who, events) == (before, [("b:1", ["p.accepted.1"], COMMITTED, True)])
    fault.endure()
    assert not fault.landed()
    fault.heal()
    assert fault.landed() is (hangs_after is not None)
    assert fault.after() == [identity(server.pid)] != [before]


class Producers:
    """Stands in for the client: notes the ids that were taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: KafkaError | None = None) -> None:
        self.taken: list[str] = []
        self.error = error
        monkeypatch.setattr(transaction, "Producer", self._made)

    def _made(self, settings: dict[str, Any]) -> Producers:
        self.id = settings["transactional.id"]
        return self

    def init_transactions(self, _: float) -> None:
        if self.error is not None:
            raise KafkaException(self.error)
        self.taken.append(self.id)


def test_a_taken_id_has_landed_when_the_shard_opened_its_transaction_again(
    world: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    producers = Producers(monkeypatch)
    worker, other = world.child(name="worker"), world.child(name="other")
    fault = TakenId("127.0.0.1:1", "counts", world.watch)
    ((who, at),) = fault.strike(world.opened(worker.pid, t=1))
    assert who == identity(worker.pid)
    assert producers.taken == ["counts.accepted.1"]
    world.opened(other.pid, t=at, shard=0, attempt=1)
    assert (fault.after(), fault.landed(), fault.evidence()) == ([], False, {})
    world.opened(other.pid, t=at, epoch=4)
    assert fault.after() == [identity(other.pid)], "a later epoch came through without: nobody is waited for"
    assert not fault.landed()
    world.opened(worker.pid, t=at, attempt=1)
    assert fault.after() == [who]
    assert (fault.landed(), fault.evidence()) == (True, {"reopened": [1]})


def test_an_id_that_cannot_be_taken_is_a_miss(world: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    Producers(monkeypatch, KafkaError(KafkaError._TIMED_OUT))
    worker = world.child()
    with pytest.raises(NoProcessError, match=r"counts\.accepted\.1"):
        TakenId("127.0.0.1:1", "counts", world.watch).strike(world.opened(worker.pid, t=1))
    soon("nothing to be done to it", worker.running)


def test_who_is_to_be_lost_is_let_go_only_when_it_has_ended(world: Held) -> None:
    """As an executor outlives its driver by moments: it would take the next step."""

    class Ends(Blow):
        def strike(self, event: Mapping[str, Any]) -> list[Struck]:
            threading.Timer(0.5, task.kill).start()
            return super().strike(event)

    fault = Lost(Ends(world.hold), world.hold, world.healing)
    fault.aim(PLANNED, exactly=True)
    task = world.task("3.1", "4.1")
    assert world.hold.held(20.0) is not None
    fault.strike(world.opened(task.pid, t=1))
    assert output(task) == [], "it never went on"
    assert fault.landed()
    assert world.healing.owed == []


def test_a_process_that_outlives_the_blow_makes_it_a_miss(world: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "ENDED_S", 0.2)
    fault, _ = world.armed(Lost)
    task = world.task("3.1")
    assert world.hold.held(20.0) is not None
    fault.strike(world.opened(task.pid, t=1))
    assert output(task) == ["passed 3.1"]
    assert not fault.landed()
