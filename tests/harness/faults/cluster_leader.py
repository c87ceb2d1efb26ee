"""Leadership of a pipeline's partitions moved from broker to broker, and brokers chosen by what they lead."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException

from infra.cluster.api import ClusterError
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.leaders import Leaders, Led, Where, text, wanted_of
from tests.harness.adapters.server_pods import READY_S, Picked, ServerPod, ServerPods
from tests.harness.adapters.transactions import ToolFailedError
from tests.harness.faults.cluster_server import wait_ready
from tests.harness.faults.fault import Fault, now_ms
from tests.harness.faults.healing import Debt, Healing

SEEN_S, SETTLED_S, POLL_S = 5.0, 10.0, 0.02
"""Three brokers on two busy cores had elected 33 leaders in 0.05 to 0.5 s, and all of them told of it within 0.7 s."""


class MovedLeaders(Fault):
    """Another broker leads each partition of the pipeline, that of its transactions in the log of them included.

    Before, while nobody waits, the copies are put into an order in which another broker is preferred. At the step this
    one is elected, which is one request.

    Args:
        leaders: of the pipeline.
        brokers: their pods.
        healing: told that those that were prepared have to lead: else Kafka elects them within five minutes by itself,
            in the middle of another fault.
    """

    lasting = True

    def __init__(self, leaders: Leaders, brokers: ServerPods, *, healing: Healing) -> None:
        self._leaders, self._brokers, self._healing = leaders, brokers, healing
        self._debt = Debt("have those brokers lead that were prepared to", self._settle)
        self._wanted: dict[Where, int] = {}
        self._known: dict[Where, Led] = {}
        self._epochs: dict[Where, int] = {}
        self._names: dict[int, str] = {}
        self._trouble = "no partition has a copy in sync that does not lead"
        self._moving: dict[Where, int] = {}
        self._moves: dict[str, dict[str, int]] = {}

    def arm(self) -> None:
        """Wait until every copy is in sync, and prepare who is to lead. Raises ClusterTimeoutError."""
        wait_ready(self._brokers, self._healing.ended)
        what = "every copy of the pipeline's partitions to be in sync"
        self._brokers.cluster.wait_for(what, self._synchronous, READY_S, self._brokers.describe)
        try:
            known = self._leaders.led()
            wanted = wanted_of(known)
            epochs = self._leaders.epochs(wanted)
            self._names = {number_of(pod): pod.who for pod in self._brokers.pods()}
            if wanted:
                self._healing.owe(self._debt)
                self._wanted = wanted
                self._leaders.prefer(wanted, known)
            self._known, self._epochs = known, epochs
        except (KafkaException, ToolFailedError, ClusterError, OSError) as error:
            self._trouble = f"the move could not be prepared: {error}"

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        try:
            moved = self._move()
        except KafkaException as error:
            raise NoProcessError(f"no leader was moved: {error}") from error
        finally:
            if not self._moving:
                with suppress(KafkaException):
                    self._healing.pay(self._debt)
        at = now_ms()
        return [(self._name(broker), at) for broker in sorted({self._moving[where] for where in moved})]

    def endure(self) -> None:
        """Until the last of them has another leader; one that has none in time is no hit, and no miss of the others."""
        self._find_moved(self._moving.keys(), SETTLED_S, every=True)

    def heal(self) -> None:
        # Brokers that do not answer now have it done when the run ends.
        with suppress(KafkaException):
            self._healing.pay(self._debt)

    def after(self) -> list[str]:
        """The brokers that lead what was moved."""
        try:
            now = self._leaders.led()
            epochs = self._leaders.epochs(self._moving)
        except KafkaException:
            return []
        there = {where: now[where].leader for where in self._moving if where in now}
        self._moves = {
            text(where): {
                "before": self._moving[where],
                "after": leader,
                "epoch_before": self._epochs[where],
                "epoch_after": epochs[where],
            }
            for where, leader in there.items()
            if leader != self._moving[where]
        }
        return [self._name(broker) for broker in sorted({one["after"] for one in self._moves.values()})]

    def landed(self) -> bool:
        return any(one["epoch_after"] > one["epoch_before"] for one in self._moves.values())

    def evidence(self) -> dict[str, Any]:
        return {"leaders": self._moves}

    def _move(self) -> set[Where]:
        """Elect, and return what has another leader once the first one has."""
        if not self._epochs:
            raise NoProcessError(self._trouble)
        now = self._leaders.led()
        # Who moved meanwhile, by a broker that fell, is no news of this fault.
        moving = {
            where: one.leader
            for where, one in now.items()
            if where in self._wanted and one.leader == self._known[where].leader
        }
        if not moving:
            raise NoProcessError("every partition had another leader already when its step came")
        self._leaders.elect(moving)
        self._moving = moving
        moved = self._find_moved(moving, SEEN_S, every=False)
        if not moved:
            self._moving = {}
            raise NoProcessError(f"no partition had another leader {SEEN_S:.0f} s after the election")
        return moved

    def _find_moved(self, partitions: Collection[Where], longest_s: float, *, every: bool) -> set[Where]:
        """Those that have another leader: as soon as one has, or every one, or when the time is over."""
        deadline, moved = time.monotonic() + longest_s, set[Where]()
        while True:
            with suppress(KafkaException):
                now = self._leaders.led()
                moved = {
                    where
                    for where in partitions
                    if where in now
                    and now[where].leader in now[where].copies
                    and now[where].leader != self._moving[where]
                }
            if len(moved) >= (len(partitions) if every else 1) or time.monotonic() > deadline:
                return moved
            if self._healing.ended.wait(POLL_S):
                return moved

    def _synchronous(self) -> bool:
        with suppress(KafkaException):
            led = self._leaders.led()
            return self._healing.ended.is_set() or all(len(one.in_sync) == len(one.copies) for one in led.values())
        return self._healing.ended.is_set()

    def _settle(self) -> None:
        now = self._leaders.led()
        self._leaders.elect([where for where, one in self._wanted.items() if where in now and now[where].leader != one])

    def _name(self, broker: int) -> str:
        return self._names.get(broker, f"broker-{broker}")


class LeadingBroker:
    """Of several brokers the one to strike: it leads the partition that the announced step writes to, or most of all.

    Args:
        leaders: of the pipeline.
        brokers: their pods.
    """

    def __init__(self, leaders: Leaders, brokers: ServerPods) -> None:
        self._leaders, self._brokers = leaders, brokers

    def pick(self, event: Mapping[str, Any]) -> Picked:
        """The pod, and the partitions that it leads (`led`). Raises NoProcessError."""
        try:
            led = self._leaders.led()
        except KafkaException as error:
            raise NoProcessError(f"no broker tells who leads: {error}") from error
        broker = leading(led, (f"{self._leaders.pipeline}.{event.get('sink')}", int(event.get("shard") or 0)))
        pods = {number_of(pod): pod for pod in self._brokers.ready()}
        if broker not in pods:
            raise NoProcessError(f"broker {broker}, which leads, is not ready; ready are {sorted(pods) or 'none'}")
        return Picked(pods[broker], {"led": [text(where) for where, one in led.items() if one.leader == broker]})


def leading(led: Mapping[Where, Led], written: Where) -> int | None:
    """The broker that leads a partition; where there is no such one, that leads most; None where none leads."""
    if written in led and led[written].leader in led[written].copies:
        return led[written].leader
    most = Counter(one.leader for one in led.values() if one.leader in one.copies)
    return min(most, key=lambda broker: (-most[broker], broker), default=None)


def number_of(pod: ServerPod) -> int:
    """The broker's number: the chart gives it that of its pod."""
    return int(pod.name.rpartition("-")[2])
