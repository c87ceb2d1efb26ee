"""Why a pod is not ready, in one line: pure functions of what the cluster says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from infra.operate.objects import Container, Event, Pod, Terminated

PULL = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
CONFIG = {"CreateContainerConfigError"}
LONG = 240
_NAMED = re.compile(r"^([A-Za-z_][\w.]*(Error|Exception)\b|the query failed:|FATAL|panic:)")
_FRAME = re.compile(r"^(\s+at |\tat |\s+File \"|\s+\.\.\. \d+ more|Caused by:|\s)")
_EPOCH = datetime.fromtimestamp(0, UTC)


def latest(events: Iterable[Event]) -> Event | None:
    """The event that happened last."""
    return max(events, key=lambda one: one.at or _EPOCH, default=None)


def about(events: Iterable[Event], kind: str, name: str, namespace: str) -> list[Event]:
    """The events about one object."""
    return [
        one
        for one in events
        if (one.involved_object.kind, one.involved_object.name, one.involved_object.namespace)
        == (kind, name, namespace)
    ]


def why_not(pod: Pod, events: Iterable[Event] = (), last_words: str = "") -> str | None:
    """Say why a pod is not ready; None when it is, or when it did its work and ended.

    `events` may hold those of other objects; `last_words` is the end of its log.
    """
    events = list(events)
    own = about(events, "Pod", pod.metadata.name, pod.metadata.namespace)
    status = pod.status
    if pod.metadata.deletion_timestamp:
        return "is being deleted"
    if status.phase == "Succeeded":
        return None
    reason = _before_containers(pod, events) or _in_containers(pod, own, last_words) or _as_a_whole(pod, own)
    return _short(reason) if reason else None


def _before_containers(pod: Pod, events: list[Event]) -> str | None:
    """Evicted, or never given to a node."""
    status = pod.status
    if status.phase == "Failed" and status.reason:
        return f"failed: {status.reason}: {status.message}"
    scheduled = status.condition("PodScheduled")
    if scheduled and scheduled.status == "False":
        return f"pending: {scheduled.message or scheduled.reason}{_claims(pod, events)}"
    return None


def _in_containers(pod: Pod, own: list[Event], last_words: str) -> str | None:
    """The first container that says why."""
    status = pod.status
    for prefix, containers in (("init ", status.init_container_statuses), ("", status.container_statuses)):
        for one in containers:
            reason = _container(one, own, last_words, init=bool(prefix))
            if reason:
                return f"{prefix}{one.name}: {reason}"
    return None


def _as_a_whole(pod: Pod, own: list[Event]) -> str | None:
    """What is left when no container is to blame."""
    status = pod.status
    ready = status.condition("Ready")
    if ready and ready.status == "True":
        return None
    if status.phase == "Running" and all(one.ready for one in status.container_statuses):
        # The containers are well, so it is the node's word that counts.
        return f"not ready: {ready.reason if ready and ready.reason else 'its node says nothing'}"
    if status.phase == "Unknown":
        return f"node {pod.spec.node_name or 'unknown'} no longer reports it"
    warned = latest(one for one in own if one.type == "Warning")
    return f"{status.phase.lower()}: {warned.message}" if warned else f"{status.phase.lower()}: not started yet"


def last_error_line(log: str) -> str:
    """The line of a log that tells why the program ended: the last named error, else the last line that says anything.

    Announcements (JSON) and stack frames are passed over; nothing when no line is left.
    """
    told = [line for line in _words(log) if not _FRAME.match(line)]
    return last_named_error(log) or (told or [""])[-1]


def last_named_error(log: str) -> str:
    """The last line of a log that names an error; nothing when none does, as of a program that is well."""
    return next((line for line in reversed(_words(log)) if _NAMED.match(line)), "")


def _words(log: str) -> list[str]:
    return [line.rstrip() for line in log.splitlines() if line.strip() and not _announcement(line)]


def describe_end(how: Terminated) -> str:
    """How a container ended, e.g. `exit code 137 (OOMKilled)`."""
    reason = f" ({how.reason})" if how.reason and how.reason not in ("Error", "Completed") else ""
    return f"exit code {how.exit_code}{reason}"


def _container(one: Container, own: list[Event], last_words: str, *, init: bool) -> str | None:
    waiting, terminated = one.state.waiting, one.state.terminated
    last = last_error_line(last_words)
    line = f": {last}" if last else ""
    if terminated:
        if terminated.exit_code == 0:
            return None if init else "ended with exit code 0, and should not end"
        return f"{describe_end(terminated)}{line or (f': {terminated.message}' if terminated.message else '')}"
    if waiting:
        return _waiting(one, own, line)
    if one.state.running and not one.ready and not init:
        probe = "readiness" if one.started else "startup"
        failing = latest(event for event in own if event.reason == "Unhealthy")
        return f"{probe} probe: {failing.message}" if failing else f"runs, {probe} probe has not passed yet"
    return None


def _waiting(one: Container, own: list[Event], line: str) -> str | None:
    waiting = one.state.waiting
    if waiting is None or waiting.reason == "PodInitializing":
        return None
    if waiting.reason in PULL:
        told = [event for event in own if event.reason == "Failed" and "pull" in event.message.lower()]
        event = latest(told)
        return f"image {one.image} cannot be pulled: {event.message if event else waiting.message or waiting.reason}"
    if waiting.reason == "CrashLoopBackOff":
        before = one.last_state.terminated
        return f"crash loop: {describe_end(before) if before else waiting.message}{line}"
    if waiting.reason == "ContainerCreating":
        warned = latest(event for event in own if event.type == "Warning")
        return f"is being created{f': {warned.reason}: {warned.message}' if warned else ''}"
    return ": ".join(part for part in (waiting.reason or "waiting", waiting.message) if part)


def _claims(pod: Pod, events: list[Event]) -> str:
    """Why a volume of the pod is not there: a StatefulSet's claim is named `<volume>-<pod>`."""
    told = latest(
        one
        for one in events
        if one.involved_object.kind == "PersistentVolumeClaim"
        and one.involved_object.namespace == pod.metadata.namespace
        and one.involved_object.name.endswith(f"-{pod.metadata.name}")
        and one.type == "Warning"
    )
    return f"; volume {told.involved_object.name}: {told.message}" if told else ""


def _announcement(line: str) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"
