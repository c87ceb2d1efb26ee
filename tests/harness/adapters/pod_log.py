"""Follows the pods of a run: which there are, what their containers log, and what of that is an announcement."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from infra.cluster.api import ApiError, ClusterError, Lines, Reader

DRIVER, EXECUTOR = "driver", "executor"
WATCH_S = 20
AGAIN_S = 0.5
TAIL_LINES = 15


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of Spark as it was last told.

    Attributes:
        role: `driver` or `executor`.
        application: name of the SparkApplication.
        container: the one that Spark runs in.
        started: its container has begun to run, it may have ended since.
        exit_code: of the container, None before it has ended.
        reason: why it ended or does not begin, as Kubernetes says it.
        deleting: its deletion was asked for.
        present: False once the object is gone.
        node: where it runs; empty before that is decided.
    """

    name: str
    uid: str
    role: str
    application: str
    container: str
    started: bool = False
    exit_code: int | None = None
    reason: str = ""
    deleting: bool = False
    present: bool = True
    created: str = ""
    node: str = ""

    @property
    def who(self) -> str:
        """Identity in history: a pod of the same name has another uid."""
        return f"{self.name}@{self.uid}"

    @property
    def runs(self) -> bool:
        """Whether its container runs and is to go on."""
        return self.present and self.started and self.exit_code is None and not self.deleting

    @property
    def ended(self) -> bool:
        """Whether its container has ended, or the object is gone."""
        return not self.present or self.exit_code is not None


def pod_of(told: Mapping[str, Any]) -> Pod:
    """A pod object of the API as what matters here."""
    metadata, status = told["metadata"], told.get("status") or {}
    labels = metadata.get("labels") or {}
    states = [(one.get("state") or {}) for one in status.get("containerStatuses") or []]
    state = states[0] if states else {}
    ended, waiting = state.get("terminated"), state.get("waiting") or {}
    reason = (ended or waiting).get("reason") or status.get("reason") or ""
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        role=labels.get("spark-role", ""),
        application=labels.get("sparkoperator.k8s.io/app-name", ""),
        container=told["spec"]["containers"][0]["name"],
        started="running" in state or ended is not None,
        exit_code=ended["exitCode"] if ended else None,
        reason=reason,
        deleting=bool(metadata.get("deletionTimestamp")),
        created=metadata.get("creationTimestamp", ""),
        node=told["spec"].get("nodeName", ""),
    )


def announcement(line: str) -> dict[str, Any] | None:
    """The announcement that a line of a log holds, None when it holds none.

    Other output of the container may stand before it: not everybody writes whole lines.
    """
    at = line.find('{"t":')
    if at < 0:
        return None
    try:
        event = orjson.loads(line[at:])
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict) or type(event.get("t")) is not int or not isinstance(event.get("event"), str):
        return None
    return event


def place(event: Mapping[str, Any], pod: Pod) -> dict[str, Any]:
    """An announcement with the pod it came from. A pid says little in a pod: drivers are named by their pod."""
    told = {**event, "pod": pod.name, "pod_uid": pod.uid}
    name = driver_name(pod)
    if event["event"] == "driver":
        return {**told, "pid": name}
    return {**told, "driver": name} if "driver" in event else told


def driver_name(pod: Pod) -> str:
    """As the history names a driver that is a pod: short enough for a figure, other than its predecessor's."""
    return f"{pod.name}@{pod.uid[:8]}"


class PodLog:
    """Follows the pods of one SparkApplication, in threads of its own.

    Args:
        reader: the cluster's API.
        namespace: where the pods are.
        selector: label selector of the pods.
        events: file that announcements are appended to.
        logs: folder that gets `<pod>-<start of its uid>.log`.
    """

    def __init__(self, reader: Reader, namespace: str, selector: str, events: Path, logs: Path) -> None:
        self._reader, self._selector, self._events, self._logs = reader, selector, events, logs
        self._pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self._pods: dict[str, Pod] = {}
        self._followers: dict[str, threading.Thread] = {}
        self._tails: dict[str, list[str]] = {}
        self._streams: set[Lines] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pods", daemon=True)
        self._descriptor = -1
        self.trouble = ""
        """The last failure of the API, for messages; following goes on after it."""

    def start(self) -> None:
        """Begin to follow; there need not be any pod yet."""
        self._logs.mkdir(parents=True, exist_ok=True)
        self._events.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._events, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._thread.start()

    def stop(self) -> None:
        """End all following; safe to repeat, and without a start."""
        self._stop.set()
        with self._lock:
            streams = list(self._streams)
        for one in streams:
            one.close()
        for thread in [self._thread, *self._followers.values()]:
            if thread.is_alive():
                thread.join(5.0)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def pods(self, role: str) -> list[Pod]:
        """The pods of a role that were ever seen, oldest first; those that are gone are marked so."""
        with self._lock:
            found = [pod for pod in self._pods.values() if pod.role == role]
        return sorted(found, key=lambda pod: pod.created)

    def pod(self, uid: str) -> Pod | None:
        """A pod by its uid, None when it was never seen."""
        with self._lock:
            return self._pods.get(uid)

    def last_words(self, uid: str) -> str:
        """The last lines of a pod's log."""
        with self._lock:
            return "\n".join(self._tails.get(uid, []))

    def take(self, kind: str, told: Mapping[str, Any]) -> None:
        """Note one event of the API's watch; a container that has begun is followed from then on."""
        if told.get("kind", "Pod") != "Pod" or "metadata" not in told:
            return
        pod = pod_of(told)
        with self._lock:
            before = self._pods.get(pod.uid)
            if kind == "DELETED":
                # Without a grace period nobody waits for the container's end, so its code may never be told.
                code = pod.exit_code if pod.exit_code is not None else before.exit_code if before else None
                pod = Pod(**{**_fields(pod), "present": False, "exit_code": code})
            self._pods[pod.uid] = pod
            if pod.started and pod.uid not in self._followers and not self._stop.is_set():
                thread = threading.Thread(target=self._follow, args=(pod,), name=f"log {pod.name}", daemon=True)
                self._followers[pod.uid] = thread
                thread.start()

    def _watch(self) -> None:
        """List, then watch from there; again after every end, so nothing stays unnoticed for long."""
        while not self._stop.is_set():
            try:
                listed = self._reader.get(self._pods_path, labelSelector=self._selector)
                self._reconcile(listed["items"])
                version = listed["metadata"]["resourceVersion"]
                self._changes(
                    self._reader.follow(
                        self._pods_path,
                        labelSelector=self._selector,
                        watch="true",
                        resourceVersion=version,
                        timeoutSeconds=str(WATCH_S),
                    )
                )
            # ValueError: a line that was cut when the API server went.
            except (ClusterError, OSError, ValueError) as error:
                self.trouble = str(error)
                self._stop.wait(AGAIN_S)

    def _reconcile(self, items: Iterable[Mapping[str, Any]]) -> None:
        there = {one["metadata"]["uid"]: one for one in items}
        for one in there.values():
            self.take("MODIFIED", one)
        with self._lock:
            for uid, pod in self._pods.items():
                if uid not in there and pod.present:
                    self._pods[uid] = Pod(**{**_fields(pod), "present": False})

    def _changes(self, lines: Lines) -> None:
        with self._lock:
            self._streams.add(lines)
        try:
            for line in lines:
                change = orjson.loads(line) if line else {}
                if change.get("type") == "ERROR":
                    return
                if change:
                    self.take(change["type"], change["object"])
        finally:
            lines.close()
            with self._lock:
                self._streams.discard(lines)

    def _follow(self, pod: Pod) -> None:
        """Follow one container to its end, and go on where the stream broke as long as it runs."""
        path, read = f"{self._pods_path}/{pod.name}/log", 0
        with (self._logs / f"{pod.name}-{pod.uid[:8]}.log").open("a", encoding="utf-8") as log:
            while not self._stop.is_set():
                try:
                    lines = self._reader.follow(path, container=pod.container, follow="true")
                except ApiError as error:
                    if error.status == 404:
                        return
                    self.trouble = str(error)
                    self._stop.wait(AGAIN_S)
                    continue
                except (ClusterError, OSError) as error:
                    self.trouble = str(error)
                    self._stop.wait(AGAIN_S)
                    continue
                read = self._copy(pod, lines, log, read)
                now = self.pod(pod.uid)
                if now is None or now.ended or now.deleting:
                    return
                self._stop.wait(AGAIN_S)

    def _copy(self, pod: Pod, lines: Lines, log: Any, skip: int) -> int:
        """Write lines down, the first `skip` of them were before; how many there are now."""
        with self._lock:
            self._streams.add(lines)
        number = 0
        try:
            for number, line in enumerate(lines, 1):
                if number > skip:
                    self._line(pod, line, log)
        finally:
            lines.close()
            with self._lock:
                self._streams.discard(lines)
        return max(number, skip)

    def _line(self, pod: Pod, line: str, log: Any) -> None:
        event = announcement(line)
        if event is not None and self._descriptor >= 0:
            os.write(self._descriptor, orjson.dumps(place(event, pod), option=orjson.OPT_APPEND_NEWLINE))
        log.write(line + "\n")
        log.flush()
        with self._lock:
            tail = self._tails.setdefault(pod.uid, [])
            if event is None:
                tail.append(line[:300])
                del tail[:-TAIL_LINES]

    def wait_ended(self, uid: str, timeout_s: float) -> bool:
        """Wait until a pod has ended and its log was read; False when it has not in time."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            pod, follower = self.pod(uid), self._followers.get(uid)
            if pod is not None and pod.ended:
                if follower is not None:
                    follower.join(max(0.0, min(5.0, deadline - time.monotonic())))
                return True
            self._stop.wait(0.1)
        return False


def _fields(pod: Pod) -> dict[str, Any]:
    return {name: getattr(pod, name) for name in Pod.__slots__}
