"""A copy of a server whose disk is lost: it comes back with an empty one, and gets its contents from the others."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kubernetes.client.exceptions import ApiException

from infra.cluster.api import ClusterError
from tests.harness.adapters.drivers import NoProcessError, Struck
from tests.harness.adapters.server_pods import READY_S, Pick, ServerPod
from tests.harness.faults.cluster_server import LEAST_GRACE_S, LEFT_S, PickedServer
from tests.harness.faults.fault import Fault, as_miss
from tests.harness.faults.healing import Debt, Healing
from tests.harness.faults.whole import Whole


class LostDisk(Fault):
    """The claim of one copy is deleted, and its pod at once; its StatefulSet makes both anew.

    Args:
        whole: the server, and when it is whole again.
        healing: told that it has to be.
        pick: chooses one of several pods; left out the announced shard decides.
    """

    lasting = wants_records = flowing = True

    def __init__(self, whole: Whole, *, healing: Healing, pick: Pick | None = None) -> None:
        self._whole, self._server, self._healing = whole, whole.server, healing
        self._picked = PickedServer(whole.server, pick, healing.ended)
        self._debt = Debt(f"see every copy of the {whole.server.what} complete again", self._see, server=True)
        self._before: ServerPod
        self._after: ServerPod | None = None
        self._volumes: dict[str, str] = {}

    def arm(self) -> None:
        """Wait until it is whole: a second one that lacks something would be two disks. Raises ClusterTimeoutError."""
        self._whole.wait(self._healing.ended)

    def strike(self, event: Mapping[str, Any]) -> list[Struck]:
        if (why := self._whole.lacks()) is not None:
            raise NoProcessError(f"no disk was taken: {why}")
        pod = self._before = self._picked.choose(event)
        with as_miss(f"the {self._server.what} kept its disk", ClusterError, ApiException):
            claim = self._server.cluster.claim(_claim_of(pod))
            if claim is None:
                raise NoProcessError(f"{pod.name} has no claim {_claim_of(pod)}")
            self._volumes["before"] = _volume(claim)
            self._healing.owe(self._debt)
            # It is kept until the pod ends, and the pod that takes its place waits for another one.
            self._server.cluster.delete_claim(_claim_of(pod), claim["metadata"]["uid"])
            at = self._server.cluster.delete_pod(pod.name, pod.uid, LEAST_GRACE_S)
        return [(pod.who, at)]

    def endure(self) -> None:
        """Until it is ready with another volume. Raises ClusterTimeoutError."""
        self._server.cluster.wait_for(
            f"{self._before.name} of the {self._server.what} to be ready with another disk",
            lambda: self._healing.ended.is_set() or self._back(),
            READY_S,
            self._server.describe,
        )

    def heal(self) -> None:
        """Wait until it has got what was on the disk. Raises ClusterTimeoutError."""
        self._whole.wait(self._healing.ended)
        self._healing.pay(self._debt)

    def after(self) -> list[str]:
        return [self._after.who] if self._after else []

    def landed(self) -> bool:
        return self._volumes.get("after") not in (None, self._volumes.get("before"))

    def evidence(self) -> dict[str, Any]:
        return {"volumes": dict(self._volumes), "node": self._before.node, **self._picked.why}

    def _back(self) -> bool:
        with suppress(ClusterError, OSError):
            for pod in self._server.ready():
                claim = self._server.cluster.claim(_claim_of(pod))
                if pod.name != self._before.name or claim is None:
                    continue
                if pod.uid != self._before.uid and _volume(claim) not in ("", self._volumes["before"]):
                    self._after, self._volumes["after"] = pod, _volume(claim)
        return self._after is not None

    def _see(self) -> None:
        if self._whole.lacks() is not None:
            self._server.cluster.wait_for(
                self._debt.what, lambda: self._whole.lacks() is None, LEFT_S, self._whole.lacks
            )


def _claim_of(pod: ServerPod) -> str:
    """A StatefulSet names a claim after its template, which the charts call `data`, and the pod."""
    return f"data-{pod.name}"


def _volume(claim: Mapping[str, Any]) -> str:
    """The volume that a claim is bound to; empty before it is bound."""
    return str((claim.get("spec") or {}).get("volumeName") or "")
