"""What is seen of a deployed pipeline and its servers, and whether a change has taken effect there.

A setting that was accepted shows nothing. So each effect is looked for where the value counts: in the pods that run,
in what a driver announced when it started, in the epoch that is declared. Pure functions of what was seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CHECKSUM = "checksum/"
MOUNTED = "mounted/"
SECRETS = tuple(f"{CHECKSUM}{name}" for name in ("spark-secret", "object-store", "database", "kafka-client"))
"""Annotations of a driver's pod that tell the version of what it is given to log in with."""
WHEEL = "EFFECTIVELY_ONCE_WHEEL_DIGEST"
DRIVER, EXECUTOR = "driver", "executor"


@dataclass(frozen=True)
class Server:
    """A pod of a server.

    Attributes:
        uid: of the pod.
        ready: its container runs and its probe succeeds.
        cpu: that it asks for.
        memory: that it asks for.
        memory_limit: that it may take.
        versions: what tells the versions of what it reads, by its place in the pod.
    """

    uid: str
    ready: bool
    cpu: str = ""
    memory: str = ""
    memory_limit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """What was seen at one moment.

    Attributes:
        driver: uid of the pod of the driver that runs; empty: none does.
        image: of its container.
        wheel_digest: version of the code that it was given.
        versions: what tells the versions of its settings and logins, by its place in the pod.
        settings: digest of all settings that the driver announced which started last.
        started: uid of that one's pod.
        pinned: version that the newest epoch was declared by.
        executors: how many of the pipeline run.
        servers: pods of each server, by role.
        secrets: fingerprint of each Secret that the driver reads; compared, and written nowhere.
        shards: of the newest epoch.
    """

    driver: str = ""
    image: str = ""
    wheel_digest: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    started: str = ""
    pinned: str = ""
    executors: int = 0
    servers: Mapping[str, tuple[Server, ...]] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    shards: int = 0


Effect = Callable[[Look, Look], str]
"""Of what was seen before a change and what is now: why it has not taken effect; empty: it has."""


def _await_driver(before: Look, now: Look) -> str:
    if not now.driver:
        return "no driver runs"
    if now.driver == before.driver:
        return "the driver is the one of before"
    return "" if now.started == now.driver else "the new driver has not taken the chain over"


def see_wheel(before: Look, now: Look) -> str:
    """Whether another driver runs other code, and an epoch was declared by it."""
    if why := _await_driver(before, now):
        return why
    if now.wheel_digest == before.wheel_digest or now.image == before.image:
        return f"the driver runs the version of before, {now.image}"
    return "" if now.pinned == now.wheel_digest else "no epoch was declared by the new version"


def see_settings(digest: str) -> Effect:
    """Whether another driver announced settings of this digest."""

    def see(before: Look, now: Look) -> str:
        if why := _await_driver(before, now):
            return why
        return "" if now.settings == digest else "the driver that runs announced other settings than the new ones"

    return see


def see_shards(count: int, digest: str) -> Effect:
    """Whether another driver announced settings of this digest, and an epoch with so many shards was declared."""
    announced = see_settings(digest)

    def see(before: Look, now: Look) -> str:
        why = announced(before, now)
        return why or ("" if now.shards == count else f"the newest epoch has {now.shards} shards, {count} are due")

    return see


def see_executors(count: int) -> Effect:
    """Whether another driver has so many executors."""

    def see(before: Look, now: Look) -> str:
        why = _await_driver(before, now)
        return why or ("" if now.executors == count else f"{now.executors} executors run, {count} are due")

    return see


def see_logins(before: Look, now: Look) -> str:
    """Whether another driver was given other logins, each of those that it has."""
    if why := _await_driver(before, now):
        return why
    there = [name for name in SECRETS if name in before.versions]
    if not there:
        return "the driver was given no login whose version could be told"
    if same := [name for name in there if now.versions.get(name) == before.versions[name]]:
        return f"the driver has {', '.join(same)} of before"
    if same := [name for name, print_ in before.secrets.items() if now.secrets.get(name) == print_]:
        return f"Secret {', '.join(same)} holds what it held"
    return ""


def _await_servers(role: str, before: Look, now: Look) -> str:
    earlier, pods = {one.uid for one in before.servers.get(role, ())}, now.servers.get(role, ())
    if len(pods) < len(earlier) or not pods:
        return f"{len(pods)} of {len(earlier)} pods of the {role} are there"
    if old := [one for one in pods if one.uid in earlier]:
        return f"{len(old)} of {len(pods)} pods of the {role} are those of before"
    return "" if all(one.ready for one in pods) else f"not every pod of the {role} is ready"


def see_cpu(role: str, cpu: str) -> Effect:
    """Whether every pod of a server is another one, asks for so much, and is ready."""

    def see(before: Look, now: Look) -> str:
        if why := _await_servers(role, before, now):
            return why
        wrong = sorted({one.cpu for one in now.servers[role] if one.cpu != cpu})
        return f"pods of the {role} ask for {', '.join(wrong)}, {cpu} is due" if wrong else ""

    return see


def see_certificates(role: str) -> Effect:
    """Whether every pod of a server is another one with other versions of what it reads, and is ready."""

    def see(before: Look, now: Look) -> str:
        if why := _await_servers(role, before, now):
            return why
        versions = [dict(one.versions) for one in before.servers[role]]
        same = any(dict(one.versions) in versions for one in now.servers[role])
        return f"a pod of the {role} reads what those of before read" if same else ""

    return see


def read_pods(pods: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields of a look that pods of a pipeline tell, as the API lists them."""
    running = [one for one in pods if _runs(one)]
    drivers = [one for one in running if one["metadata"]["labels"].get("spark-role") == DRIVER]
    found: dict[str, Any] = {
        "executors": sum(one["metadata"]["labels"].get("spark-role") == EXECUTOR for one in running)
    }
    if not drivers:
        return found
    newest = max(drivers, key=lambda one: str(one["metadata"].get("creationTimestamp")))
    container = newest["spec"]["containers"][0]
    variables = {one["name"]: one.get("value", "") for one in container.get("env", [])}
    return {
        **found,
        "driver": newest["metadata"]["uid"],
        "image": container["image"],
        "wheel_digest": variables.get(WHEEL, ""),
        "versions": _versions(newest),
    }


def read_servers(pods: list[dict[str, Any]]) -> tuple[Server, ...]:
    """Return the pods of a server that are to stay, as the API lists them."""
    return tuple(_server(one) for one in pods if not one["metadata"].get("deletionTimestamp"))


def _server(told: dict[str, Any]) -> Server:
    resources = told["spec"]["containers"][0].get("resources") or {}
    asks, limits = resources.get("requests") or {}, resources.get("limits") or {}
    statuses = (told.get("status") or {}).get("containerStatuses") or []
    return Server(
        uid=told["metadata"]["uid"],
        ready=bool(statuses) and all(one.get("ready") for one in statuses),
        cpu=str(asks.get("cpu", "")),
        memory=str(asks.get("memory", "")),
        memory_limit=str(limits.get("memory", "")),
        versions=_versions(told),
    )


def _versions(told: dict[str, Any]) -> dict[str, str]:
    """Return what tells the versions of what a pod reads: checksums, and the Secrets it mounts, named by theirs."""
    annotations = told["metadata"].get("annotations") or {}
    mounted = {
        f"{MOUNTED}{one['name']}": str(one["secret"].get("secretName"))
        for one in told["spec"].get("volumes") or []
        if one.get("secret")
    }
    return {name: str(value) for name, value in annotations.items() if name.startswith(CHECKSUM)} | mounted


def _runs(told: dict[str, Any]) -> bool:
    return (told.get("status") or {}).get("phase") == "Running" and not told["metadata"].get("deletionTimestamp")


def fingerprint(secret: dict[str, Any], salt: bytes) -> str:
    """Return what two contents of a Secret differ in, and tells nothing of them."""
    data = secret.get("data") or {}
    return hashlib.blake2b("\n".join(f"{name}={data[name]}" for name in sorted(data)).encode(), key=salt).hexdigest()
