"""The leader of one partition of the input away: its broker stands still in its pod, and another one is elected."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException

from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.held_pod import server_held
from tests.harness.adapters.leaders import Leaders, Where, text
from tests.harness.adapters.server_pods import Picked, ServerPods
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.faults.cluster_leader import number_of
from tests.harness.faults.cluster_stall_arsenal import SETTLE_S
from tests.harness.faults.cluster_stalls import StalledServerPod
from tests.harness.faults.fault import as_miss
from tests.harness.faults.healing import Healing
from tests.harness.results import LeaderMove

NUMBER = 0
"""Of the partition: with `--skew` it has most of the records."""
LOOK_S, POLL_S = 10.0, 0.2
"""Who is asked may have to be another broker: the client notices after its time-out."""


class LeaderOfInput:
    """The broker to strike: it leads one partition of the input now, and nobody else has to be told so.

    Args:
        leaders: of the pipeline.
        brokers: their pods.

    Attributes:
        where: the partition.
        before: who led it when it was chosen, and the leader epoch; None before.
    """

    def __init__(self, leaders: Leaders, brokers: ServerPods) -> None:
        self._leaders, self._brokers = leaders, brokers
        self.where: Where = (leaders.topic, NUMBER)
        self.before: tuple[int, int] | None = None

    def pick(self, event: Mapping[str, Any]) -> Picked:
        """Choose its pod. Raises NoProcessError."""
        with as_miss("no broker tells who leads", KafkaException):
            self.before = self.read()
        broker = self.before[0]
        pods = {number_of(pod): pod for pod in self._brokers.ready()}
        if broker not in pods:
            raise NoProcessError(
                f"broker {broker}, which leads {text(self.where)}, is not ready; ready are {sorted(pods) or 'none'}"
            )
        return Picked(pods[broker])

    def read(self) -> tuple[int, int]:
        """Who leads, and the leader epoch. Raises KafkaException; NoProcessError: nobody does."""
        led = self._leaders.led().get(self.where)
        if led is None or led.leader not in led.copies:
            raise NoProcessError(f"nobody leads {text(self.where)}")
        return led.leader, self._leaders.epochs([self.where])[self.where]


class AwayLeader(StalledServerPod):
    """The broker that leads one partition of the input stands still for as long as the plan says.

    Args:
        drivers: whose pipeline it is.
        leaders: of its partitions.
        brokers: their pods.
        time_out_s: after so long somebody gives it up.
        healing: continues it whatever happens.
    """

    def __init__(
        self, drivers: SupervisedPods, leaders: Leaders, brokers: ServerPods, *, time_out_s: float, healing: Healing
    ) -> None:
        self._leader = LeaderOfInput(leaders, brokers)
        super().__init__(
            drivers,
            brokers.cluster,
            server_held(brokers.what, brokers.program),
            server=brokers,
            pick=self._leader.pick,
            time_out_s=time_out_s,
            settle_s=SETTLE_S,
            healing=healing,
        )
        self._move: LeaderMove | None = None

    def endure(self) -> None:
        """As long as planned, then until it is known who leads: later it may be the same broker again."""
        super().endure()
        deadline = time.monotonic() + LOOK_S
        while not self._look() and time.monotonic() < deadline and not self._healing.ended.wait(POLL_S):
            pass

    def landed(self) -> bool:
        """Whether it stood still for so long, and another broker led meanwhile."""
        return super().landed() and self._move is not None and self._move.changed

    def evidence(self) -> dict[str, Any]:
        moved = {} if self._move is None else {text(self._leader.where): self._move.model_dump()}
        return {**super().evidence(), "leaders": moved}

    def _look(self) -> bool:
        """Take note of who leads now; whether it is another broker."""
        assert self._leader.before is not None
        before, epoch = self._leader.before
        with suppress(KafkaException, NoProcessError):
            now, epoch_now = self._leader.read()
            self._move = LeaderMove(before=before, after=now, epoch_before=epoch, epoch_after=epoch_now)
        return self._move is not None and self._move.changed
