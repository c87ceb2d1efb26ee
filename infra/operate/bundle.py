"""`make bundle`: everything one would look at after a failure, in one file that may be shown to others."""

from __future__ import annotations

import io
import json
import platform
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec

import yaml
from rich.console import Console as Screen

from infra import versions
from infra.cluster.access import Access
from infra.cluster.api import ApiError, ClusterError, Reader, UnreachableError
from infra.operate.facts import APPLICATIONS, gather
from infra.operate.objects import PART_OF, PROJECT, Event, Pod
from infra.operate.redact import Redactor
from infra.operate.rows import rows
from infra.operate.status import table

LOG_LINES = "20000"
LOG_BYTES = str(16 * 1024 * 1024)
CORE = ("pods", "services", "endpoints", "configmaps", "serviceaccounts", "persistentvolumeclaims")
GROUPS = {
    "apps/v1": ("statefulsets", "deployments", "replicasets"),
    "batch/v1": ("jobs",),
    "networking.k8s.io/v1": ("networkpolicies",),
    "rbac.authorization.k8s.io/v1": ("roles", "rolebindings"),
}
WIDE = {
    "nodes": "/api/v1/nodes",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
}
WIDE_OURS = {
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
_WIDTH = 1_000_000  # a folded line would hide a value from the last look


P = ParamSpec("P")


class BundleError(ClusterError):
    """The bundle would have held a secret; it was not written."""


class Bundle:
    """Files by name, each without secrets; what could not be had is listed in `problems.txt`."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._problems: list[str] = []
        self.files: dict[str, str] = {}

    def text(self, name: str, text: str) -> None:
        """Add a text."""
        self.files[name] = self._redactor.text(text)

    def tree(self, name: str, value: Any) -> None:
        """Add an object as YAML."""
        clean = self._redactor.tree(value)
        self.files[name] = yaml.safe_dump(clean, sort_keys=False, width=_WIDTH, allow_unicode=True)

    def ask(self, what: str, answer: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call what adds to the bundle; an error of the cluster or the stack is noted instead."""
        try:
            answer(*args, **kwargs)
        except ClusterError as error:
            self.problem(what, error)

    def problem(self, what: str, why: object) -> None:
        """Note what is not in it."""
        self._problems.append(f"{what}: {why}")

    def write(self, path: Path, at: datetime) -> None:
        """Write the archive, readable by its owner. Raises BundleError if a Secret's value is in it after all."""
        self.text("problems.txt", "\n".join(self._problems) + "\n" if self._problems else "none\n")
        for name, text in self.files.items():
            leaked = self._redactor.leak(text)
            if leaked:
                raise BundleError(f"{name} holds the value of {leaked}: this is a defect; nothing was written")
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".tmp")
        beside.touch(mode=0o600)
        with tarfile.open(beside, "w:gz") as archive:
            for name in sorted(self.files):
                body = self.files[name].encode()
                member = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/{name}")
                member.size, member.mtime = len(body), int(at.timestamp())
                archive.addfile(member, io.BytesIO(body))
        beside.replace(path)


def bundle(access: Access, runs: Path, say: Callable[[str], None], now: datetime | None = None) -> Path:
    """Collect events, objects, logs, nodes, the stack's state and the versions; the path of `bundle-<utc time>.tar.gz`.

    A part that cannot be had is noted in it and does not stop the rest, be it the whole cluster. `say` is given one
    line: path and size. Raises BundleError.
    """
    at = now or datetime.now(UTC)
    api, ours = access.api, access.platform.namespaces.ours
    lost = _unreachable(api)
    secrets: dict[str, list[dict[str, Any]] | None] = {} if lost else {one: _secrets(api, one) for one in ours}
    known = [one for found in secrets.values() for one in found or []]
    made = Bundle(Redactor(known, plain=(*ours, PROJECT)))
    if lost:
        made.problem("the cluster", lost)
    else:
        _cluster(made, api, secrets, access.platform.namespaces.pipelines)
        made.ask("status", lambda: made.text("status.txt", status_text(access, at)))
    made.ask("versions", lambda: made.tree("versions.yaml", _versions(access, reachable=not lost)))
    made.tree("settings/platform.yaml", access.platform.model_dump(mode="json"))
    made.ask("stack settings", lambda: made.tree("settings/stack.yaml", _settings(access)))
    made.ask("stack state", lambda: made.tree("pulumi/state.yaml", _state(access)))
    path = runs / f"bundle-{at:%Y%m%d-%H%M%S}.tar.gz"
    made.write(path, at)
    say(f"{path} ({path.stat().st_size / 1024:.0f} KiB, {len(made.files)} files, Secrets by their keys only)")
    return path


def summarise_state(export: dict[str, Any]) -> dict[str, Any]:
    """What of `pulumi stack export` tells where an update stopped: no inputs, no outputs; a pure function."""
    deployment = export.get("deployment") or {}
    kept = ("urn", "type", "id", "parent", "dependencies", "external", "pendingReplacement", "delete", "initErrors")
    pending = deployment.get("pending_operations") or []
    return {
        "manifest": {key: (deployment.get("manifest") or {}).get(key) for key in ("time", "version")},
        "pending_operations": [
            {"type": one.get("type"), "urn": (one.get("resource") or {}).get("urn")} for one in pending
        ],
        "resources": [
            {key: one[key] for key in kept if one.get(key)} | {"modified": one.get("modified")}
            for one in deployment.get("resources") or []
        ],
    }


def settings_without_secrets(config: dict[str, Any]) -> dict[str, Any]:
    """`pulumi config --json` with secret values left out; a pure function."""
    return {
        key: "[secret]" if one.get("secret") else one.get("objectValue", one.get("value"))
        for key, one in config.items()
        if isinstance(one, dict)
    }


def events_text(events: list[Event]) -> str:
    """Events by time, one line each; a pure function."""
    lines = []
    for one in sorted(events, key=lambda event: event.at.timestamp() if event.at else 0.0):
        about = one.involved_object
        when = f"{one.at:%Y-%m-%dT%H:%M:%SZ}" if one.at else "-"
        lines.append(f"{when} {one.type} {about.kind}/{about.name} {one.reason}: {' '.join(one.message.split())}\n")
    return "".join(lines)


def status_text(access: Access, now: datetime) -> str:
    """The table of `make status`. Raises UnreachableError."""
    out = io.StringIO()
    facts = gather(access.api, access.platform, now)
    Screen(file=out, width=220, color_system=None).print(table(rows(access.platform, facts), now))
    return out.getvalue()


def _secrets(api: Reader, namespace: str) -> list[dict[str, Any]] | None:
    """The Secrets of a namespace; None when this user may not see them."""
    try:
        items = api.get(f"/api/v1/namespaces/{namespace}/secrets").get("items") or []
    except ApiError:
        return None
    return [{"kind": "Secret", **one} for one in items]


def _unreachable(api: Reader) -> UnreachableError | None:
    """Asked once: every other question would wait as long for the same."""
    try:
        api.get("/version")
    except UnreachableError as error:
        return error
    except ApiError:
        return None
    return None


def _cluster(made: Bundle, api: Reader, secrets: dict[str, list[dict[str, Any]] | None], pipelines: str) -> None:
    for namespace, found in secrets.items():
        for one in found or []:
            made.tree(f"objects/{namespace}/secrets/{one['metadata']['name']}.yaml", one)
        core = f"/api/v1/namespaces/{namespace}"
        paths = {kind: f"{core}/{kind}" for kind in CORE}
        for group, kinds in GROUPS.items():
            paths |= {kind: f"/apis/{group}/namespaces/{namespace}/{kind}" for kind in kinds}
        if namespace == pipelines:
            paths["sparkapplications"] = APPLICATIONS.format(namespace)
        for kind, path in paths.items():
            made.ask(f"{kind} of {namespace}", _objects, made, api, namespace, kind, path)
        made.ask(f"events of {namespace}", _events, made, api, namespace)
        if found is None:
            made.problem(f"logs of {namespace}", "its Secrets may not be read, so logs cannot be searched for them")
        else:
            made.ask(f"logs of {namespace}", _logs, made, api, namespace)
    for kind, path in WIDE.items():
        made.ask(kind, _objects, made, api, "cluster", kind, path)
    for kind, path in WIDE_OURS.items():
        made.ask(kind, _ours, made, api, kind, path)


def _objects(made: Bundle, api: Reader, place: str, kind: str, path: str, **query: str) -> None:
    for one in api.get(path, **query).get("items") or []:
        made.tree(f"objects/{place}/{kind}/{one['metadata']['name'].replace(':', '_')}.yaml", one)


def _ours(made: Bundle, api: Reader, kind: str, path: str) -> None:
    _objects(made, api, "cluster", kind, path, labelSelector=f"{PART_OF}={PROJECT}")


def _events(made: Bundle, api: Reader, namespace: str) -> None:
    items = api.get(f"/api/v1/namespaces/{namespace}/events").get("items") or []
    made.text(f"events/{namespace}.txt", events_text([Event.model_validate(one) for one in items]))


def _logs(made: Bundle, api: Reader, namespace: str) -> None:
    for one in api.get(f"/api/v1/namespaces/{namespace}/pods").get("items") or []:
        for name, path, query in _runs(Pod.model_validate(one)):
            made.ask(f"log {name}", _log, made, api, name, path, query)


def _log(made: Bundle, api: Reader, name: str, path: str, query: dict[str, str]) -> None:
    made.text(name, api.text(path, **query))


def _runs(pod: Pod) -> Iterator[tuple[str, str, dict[str, str]]]:
    """File name, path and query of each log of a pod: the current run of a container and the one before."""
    meta = pod.metadata
    path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/log"
    for one in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        name = f"logs/{meta.namespace}/{meta.name}/{one.name}"
        query = {"container": one.name, "tailLines": LOG_LINES, "limitBytes": LOG_BYTES}
        if one.state.running or one.state.terminated:
            yield f"{name}.log", path, query
        if one.last_state.terminated:
            yield f"{name}.previous.log", path, {**query, "previous": "true"}


def _versions(access: Access, *, reachable: bool) -> dict[str, Any]:
    own = {name.lower(): value for name, value in vars(versions).items() if name.isupper() and not name.startswith("_")}
    return {
        "pinned": json.loads(json.dumps(own)),
        "cluster": access.api.get("/version") if reachable else None,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "images": dict(access.platform.images),
    }


def _settings(access: Access) -> dict[str, Any]:
    return settings_without_secrets(_json(access.pulumi("config", "--json")))


def _state(access: Access) -> dict[str, Any]:
    return summarise_state(_json(access.pulumi("stack", "export")))


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ClusterError("Pulumi printed no JSON") from error
    return found if isinstance(found, dict) else {}
