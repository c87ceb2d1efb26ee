"""A cluster of plain data for tests: pods, applications, and a record of what was asked of it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import orjson

from infra.cluster.api import ApiError
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.cluster_sorts import MOST_COPIES, MOST_ROLES
from tests.harness.faults.cluster_platform import Platform
from tests.harness.platform_sorts import API_SERVER, BROKER, DNS

Object = dict[str, Any]
UIDS = {name: f"{number:08d}-0000-0000-0000-000000000000" for number, name in enumerate("abcdefgh")}


def pod(name: str, uid: str, role: str = "executor", *, state: Object | None = None, deleting: bool = False) -> Object:
    """A pod object as the API tells it; `state` is its container's."""
    status = {"containerStatuses": [{"state": state}]} if state is not None else {}
    gone = {"deletionTimestamp": "2026-11-20T20:00:00Z"} if deleting else {}
    return {
        "metadata": {
            "name": name,
            "uid": uid,
            "creationTimestamp": f"2026-11-20T19:00:{uid[6:8]}Z",
            **gone,
            "labels": {"spark-role": role, "sparkoperator.k8s.io/app-name": "uc-1"},
        },
        "spec": {"containers": [{"name": f"spark-kubernetes-{role}"}]},
        "status": status,
    }


RUNS: Object = {"running": {"startedAt": "2026-11-20T19:00:00Z"}}


def ended(code: int, reason: str = "Error") -> Object:
    """State of a container that has ended."""
    return {"terminated": {"exitCode": code, "reason": reason}}


class FakeLines:
    """Lines that come when the test says so; None ends them."""

    def __init__(self) -> None:
        self.queue: queue.Queue[str | None] = queue.Queue()

    def __iter__(self) -> Iterator[str]:
        while (line := self.queue.get()) is not None:
            yield line

    def close(self) -> None:
        self.queue.put(None)


class FakeReader:
    """The API of a cluster: a list of pods, watches, and logs, each fed by the test."""

    def __init__(self) -> None:
        self.items: list[Object] = []
        self.watches: list[FakeLines] = []
        self.logs: dict[str, list[FakeLines]] = {}
        self.watching = threading.Semaphore(0)
        self.opened = threading.Semaphore(0)

    def get(self, path: str, **query: str) -> Object:
        return {"items": self.items, "metadata": {"resourceVersion": "1"}}

    def text(self, path: str, **query: str) -> str:
        raise NotImplementedError

    def follow(self, path: str, **query: str) -> FakeLines:
        lines = FakeLines()
        if "watch" in query:
            self.watches.append(lines)
            self.watching.release()
            return lines
        name = path.split("/")[-2]
        if name == "lost":
            raise ApiError(404, "not found", path)
        self.logs.setdefault(name, []).append(lines)
        self.opened.release()
        return lines

    def change(self, kind: str, told: Object) -> None:
        self.watches[-1].queue.put(orjson.dumps({"type": kind, "object": told}).decode())


class FakeCluster:
    """What the harness asks of a cluster, remembered; waits ask once and then fail."""

    namespace = "pipelines"

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.there: dict[str, Object] = {}
        self.pods_there: list[Object] = []
        self.left: list[str] = []
        self.sessions: dict[str, Callable[[str], Any]] = {}
        self.refuse_patch: set[str] = set()
        self.on_patch: Callable[[str, Object], None] = lambda _name, _change: None

    def apply(self, objects: list[Object]) -> None:
        self.done.append(("apply", [one["kind"] for one in objects]))

    def application(self, name: str) -> Object | None:
        return self.there.get(name)

    def applications(self, selector: str) -> list[Object]:
        return list(self.there.values())

    def patch_application(self, name: str, change: Object) -> None:
        if name in self.refuse_patch:
            raise ConnectionError(name)
        self.done.append(("patch", name, change["spec"]["suspend"]))
        self.on_patch(name, change)

    def delete_application(self, name: str) -> None:
        self.done.append(("delete", name))
        self.there.pop(name, None)

    def delete_labelled(self, selector: str) -> None:
        self.done.append(("delete all", selector))
        self.left = []

    def labelled(self, selector: str) -> list[str]:
        return self.left

    def pods(self, selector: str) -> list[Object]:
        return self.pods_there

    def delete_pod(self, name: str, uid: str, grace_s: int | None) -> int:
        self.done.append(("delete pod", name, uid, grace_s))
        return 1_750_000_000_456

    def enter(self, name: str, container: str, script: str) -> Any:
        self.done.append(("enter", name, container))
        return self.sessions[name](script)

    def wait_for(self, what: str, holds: Callable[[], bool], timeout_s: float, seen: Callable[[], object]) -> None:
        if not holds():
            raise ClusterTimeoutError(what)


def platform(nodes: object | None, brokers: int = 3) -> Platform:
    """Return a platform of every server there is, on no cluster."""
    servers = {role: ServerPods.of(cast("Cluster", None), role) for role in (*MOST_ROLES, API_SERVER, DNS)}
    servers |= {role: replace(servers[role], count=count) for role, count in MOST_COPIES.items()}
    servers[BROKER] = replace(servers[BROKER], count=brokers)
    return Platform(servers, cast("Nodes", nodes))
