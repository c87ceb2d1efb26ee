"""Faults that strike while whoever announced the step is held there: at an open transaction above all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import psutil
from confluent_kafka import KafkaException, Producer

from effectively_once.errors import PipelineError
from effectively_once.kafka_client import client_config
from effectively_once.sinks import markers
from effectively_once.sinks.kafka_shard import ShardAddress
from infra.embedded.process import identity
from tests.harness.adapters.coordinator_log import COMMITTED, note_state
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Holding
from tests.harness.faults.fault import Fault, name_process, now_ms, process_of
from tests.harness.faults.healing import Debt, Healing
from tests.harness.faults.server import KilledServer, Restartable, StoppedServer
from tests.harness.schedule import PlannedFault

HELD_S = 5.0
"""The announcement comes right before the point."""
INIT_S = 20.0
HANGS_S = 10.0
ENDED_S, POLL_S = 60.0, 0.05
"""A broker ends in order within some seconds, and a worker whose executor is gone within moments."""


class WhileHeld(Fault):
    """Another fault that strikes while the process which announced the step is held there.

    Args:
        inner: the fault.
        hold: holds.
        healing: has the process let go whatever happens.
    """

    def __init__(self, inner: Fault, hold: Holding, healing: Healing) -> None:
        self._inner, self._hold, self._healing = inner, hold, healing
        self.lasting, self.wants_records, self.flowing = inner.lasting, inner.wants_records, inner.flowing
        self.after_s = inner.after_s
        self._debt = Debt("let go who is held at a step", hold.release)

    def prepare(self, planned: PlannedFault) -> None:
        self._inner.prepare(planned)

    def arm(self) -> None:
        self._inner.arm()

    def aim(self, planned: PlannedFault, *, exactly: bool) -> None:
        where: dict[str, Any] = {"sink": planned.sink} | ({"shard": planned.shard} if exactly else {})
        epochs = "|".join(str(one) for one in range(planned.after_epoch))
        self._healing.owe(self._debt)
        self._hold.ask(planned.step, epoch=f"(?!({epochs})$)[0-9]+" if epochs else "[0-9]+", **where)

    def disarm(self) -> None:
        self._inner.disarm()
        self._healing.pay(self._debt)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        try:
            told = self._hold.held(HELD_S)
            if told is None or any(told[name] != event[name] for name in ("epoch", "sink")):
                raise NoProcessError(f"who announced {event['step']} is not held")
            # Asked in any shard, each pod holds the first that comes by: any of them is as good as who announced it.
            held = {**event, **told}
            struck = self._inner.strike(held)
            self._until(held)
            return struck
        finally:
            self._healing.pay(self._debt)

    def _until(self, event: Mapping[str, Any]) -> None:
        """Wait for what is to happen while the process that announced `event` is held; here for nothing."""

    def endure(self) -> None:
        self._inner.endure()

    def heal(self) -> None:
        self._inner.heal()

    def after(self) -> list[str]:
        return self._inner.after()

    def landed(self) -> bool:
        return self._inner.landed()

    def evidence(self) -> dict[str, Any]:
        return self._inner.evidence()


class Lost(WhileHeld):
    """Another fault that ends the process which announced the step: it is held there for good.

    A worker outlives its executor, and an executor its driver, by some moments. Let go, it would take the next step.

    Args:
        inner: the fault.
        hold: holds.
        healing: has the process let go whatever happens.
        gone: whether who announced an event has ended; left out, it is a process of this machine.
    """

    def __init__(
        self, inner: Fault, hold: Holding, healing: Healing, gone: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> None:
        super().__init__(inner, hold, healing)
        self._is_gone = gone or (lambda event: identity(event["pid"]) is None)
        self._gone = False

    def landed(self) -> bool:
        return self._gone and super().landed()

    def _until(self, event: Mapping[str, Any]) -> None:
        waited = 0.0
        while not (gone := self._is_gone(event)) and waited < ENDED_S:
            time.sleep(POLL_S)
            waited += POLL_S
        self._gone = gone


class LongStoppedServer(StoppedServer):
    """A server stands still for longer than it lets a transaction stay open (`beyond_s`)."""

    def __init__(self, server: Restartable, seconds: float, beyond_s: float, healing: Healing) -> None:
        super().__init__(server, seconds, healing)
        self._beyond_s = beyond_s

    def landed(self) -> bool:
        return (self._debt.lasted_s or 0.0) > self._beyond_s


class RestartedServer(KilledServer):
    """A server gets SIGTERM, ends in order, and is started again."""

    def endure(self) -> None:
        waited = 0.0
        while self._server.running() and waited < ENDED_S and not self._ended.wait(POLL_S):
            waited += POLL_S
        super().endure()

    def _blow(self, processes: list[psutil.Process]) -> Struck:
        who = name_process(processes[0])
        processes[0].terminate()
        return who, now_ms()


class ForgetfulBroker(KilledServer):
    """A broker gets SIGKILL, and takes the commit that was to come for finished: its markers nobody writes.

    As KAFKA-20734 has it, but each time. What would be written as the fault of a moment is noted before the blow.

    Args:
        server: the broker.
        bootstrap: its address.
        pipeline: whose transaction it is.
        down_s, healing: see KilledServer.
    """

    def __init__(self, server: Restartable, bootstrap: str, pipeline: str, down_s: float, healing: Healing) -> None:
        super().__init__(server, down_s, healing)
        self._bootstrap, self._pipeline = bootstrap, pipeline
        self._address: ShardAddress | None = None
        self._hung = False

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        self._address = ShardAddress(self._bootstrap, self._pipeline, event["sink"], event["shard"])
        note_state(self._bootstrap, [self._address.transactional_id], COMMITTED)
        return super().strike(event)

    def heal(self) -> None:
        super().heal()
        # The sink asks in its next epoch, and is in no hurry.
        waited = 0.0
        while not self._hung and self._address is not None and waited < HANGS_S and not self._ended.wait(POLL_S):
            waited += POLL_S
            with suppress(PipelineError):
                self._hung = bool(markers.find(self._address))

    def landed(self) -> bool:
        return self._hung


class TakenId(Fault):
    """Another producer initialises the transactional id of a shard, whose transaction is open: that one is fenced.

    Args:
        bootstrap: of the broker.
        pipeline: whose id is taken.
        watch: what is announced.
    """

    def __init__(self, bootstrap: str, pipeline: str, watch: Watch) -> None:
        self._bootstrap, self._pipeline, self._watch = bootstrap, pipeline, watch
        self._event: Mapping[str, Any] = {}
        self._at = 0

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        address = ShardAddress(self._bootstrap, self._pipeline, event["sink"], event["shard"])
        other = Producer(
            {
                **client_config(self._bootstrap),
                "transactional.id": address.transactional_id,
            }
        )
        self._event, who = event, name_process(process_of(event["pid"]))
        try:
            other.init_transactions(INIT_S)
        except KafkaException as error:
            raise NoProcessError(f"{address.transactional_id} could not be taken: {error}") from error
        self._at = now_ms()
        return [(who, self._at)]

    def after(self) -> list[str]:
        """Who opened the shard's transaction again, or has published a later epoch: nothing had to be opened again."""
        again = self._again()
        shard = self._watch.steps_after(self._event, self._at)
        later = [one["pid"] for one in shard if one["epoch"] > self._event["epoch"]]
        pids = [one["pid"] for one in again] + later
        return [found for pid in pids[:20] if (found := identity(pid)) is not None][:1]

    def landed(self) -> bool:
        return bool(self._again())

    def evidence(self) -> dict[str, Any]:
        again = self._again()
        return {"reopened": [one["attempt"] for one in again]} if again else {}

    def _again(self) -> list[dict[str, Any]]:
        """Announcements that the same shard of the same epoch opened its transaction, since the id was taken."""
        same = {name: self._event[name] for name in ("step", "epoch", "shard", "sink")}
        return self._watch.find_announced("step", self._at, **same)
