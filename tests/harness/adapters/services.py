"""Asks servers of several copies all along a run, and notes who of them was ready: a witness that knows of no fault.

What it notes is in the history, event `service`; by it the judge tells a strike that other copies absorbed from one
that met nobody (`tests/harness/absorbed.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from infra.cluster.api import ClusterError
from infra.embedded.stack import Endpoints
from tests.harness.absorbed import ANSWER_S, SERVICE
from tests.harness.adapters.disk_probes import BrokerProbe, Probe, StoreProbe
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.history import History

EVERY_S, AGAIN_S = 1.0, 0.2
PLACE = "service-probe"
"""A topic, or a bucket, of which the pipeline knows nothing."""
FORGET_S = 2 * ANSWER_S


@dataclass(frozen=True)
class Copies:
    """A server of several copies.

    Attributes:
        pods: all of them.
        probe: writes to the server as its clients do; None: nobody asks it, and its copies are counted.
    """

    pods: ServerPods
    probe: Probe | None = None


class Services:
    """Reads every server again and again, each in a thread of its own: one that is silent holds up no other.

    Args:
        copies: by role.
        every_s: between an answer and the next question.
    """

    def __init__(self, copies: Mapping[str, Copies], every_s: float = EVERY_S) -> None:
        self._copies, self._every_s = copies, every_s
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.seen: list[dict[str, Any]] = []
        """The readings so far, as history has them."""

    def start(self, history: History) -> None:
        """Begin to ask."""
        for role, copies in self._copies.items():
            thread = threading.Thread(
                target=self._follow, args=(role, copies, history), name=f"readings of the {role}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End, and delete what was written to ask. Safe to repeat."""
        self._over.set()
        for thread in self._threads:
            thread.join(FORGET_S)
        self._threads.clear()

    def read(self, role: str, copies: Copies) -> dict[str, Any]:
        """Ask one server: when, who of its copies was ready before the question, and whether it was answered.

        Raises:
            ClusterError, OSError: the API does not tell its pods.
        """
        ready = sorted(one.who for one in copies.pods.ready())
        told = {"role": role, "copies": copies.pods.count, "ready": ready, "asked": time.time_ns() // 1_000_000}
        if copies.probe is None:
            return told
        began = time.monotonic()
        while True:
            try:
                copies.probe()
            except Exception as error:
                # Whatever a client raises. Those of the pipeline ask again too: a connection ends with a pod.
                if time.monotonic() - began < ANSWER_S and not self._over.wait(AGAIN_S):
                    continue
                return told | {"answered": False, "says": f"{type(error).__name__}: {error}"[:200]}
            took_s = time.monotonic() - began
            return told | {"answered": took_s <= ANSWER_S, "ms": round(1000 * took_s)}

    def _follow(self, role: str, copies: Copies, history: History) -> None:
        while not self._over.wait(self._every_s):
            with suppress(ClusterError, OSError):
                told = self.read(role, copies)
                # A history that was closed is that of a run that ended.
                with suppress(ValueError):
                    at = history.record(SERVICE, **told)
                    self.seen.append({"t": at, "event": SERVICE, **told})
        if copies.probe is not None:
            with suppress(Exception):
                copies.probe.forget()


def broker_probe(endpoints: Endpoints) -> Probe:
    """Writes to every broker, in a topic of as many copies as the pipeline's."""
    return BrokerProbe(endpoints.kafka_bootstrap, PLACE, copies=True, patience_s=ANSWER_S / 2)


def store_probe(endpoints: Endpoints) -> Probe:
    """Puts an object."""
    return StoreProbe(endpoints, PLACE, patience_s=ANSWER_S / 4)
