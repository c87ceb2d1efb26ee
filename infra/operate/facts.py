"""What the cluster says about our namespaces right now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from infra.cluster.api import ApiError, Reader
from infra.cluster.platform import Platform
from infra.operate.objects import Application, Event, Node, Part, Pod, Workload

APPLICATIONS = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/{}/sparkapplications"
LAST_LINES = "80"

Kind = TypeVar("Kind", bound=Part)


@dataclass(frozen=True)
class Facts:
    """One look at the cluster; `unknown` names what it would not say, with the reason."""

    now: datetime
    namespaces: dict[str, str] = field(default_factory=dict)
    """Phase by name, of those that are there."""
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    workloads: tuple[Workload, ...] = ()
    applications: tuple[Application, ...] = ()
    events: tuple[Event, ...] = ()
    last_words: dict[str, str] = field(default_factory=dict)
    """The end of the log, by name, of pods that failed."""
    unknown: dict[str, str] = field(default_factory=dict)


def gather(api: Reader, platform: Platform, now: datetime | None = None) -> Facts:
    """Ask for everything once. Raises UnreachableError; what is refused or absent becomes a fact of its own."""
    unknown: dict[str, str] = {}

    def ask(what: str, path: str, kind: type[Kind], **query: str) -> tuple[Kind, ...]:
        return _list(api, path, kind, lambda error: unknown.setdefault(what, error.answer), **query)

    phases = {}
    for name in platform.namespaces.ours:
        try:
            found = api.get(f"/api/v1/namespaces/{name}")
            phases[name] = str(found.get("status", {}).get("phase", "Active"))
        except ApiError as error:
            if error.status != 404:
                unknown[f"namespace {name}"] = error.answer
    pods: list[Pod] = []
    workloads: list[Workload] = []
    events: list[Event] = []
    for name in phases:
        core, apps = f"/api/v1/namespaces/{name}", f"/apis/apps/v1/namespaces/{name}"
        pods += ask(f"pods of {name}", f"{core}/pods", Pod)
        events += ask(f"events of {name}", f"{core}/events", Event)
        for plural, kind in (("statefulsets", "StatefulSet"), ("deployments", "Deployment")):
            found_here = ask(f"{plural} of {name}", f"{apps}/{plural}", Workload)
            workloads += [one.model_copy(update={"kind": kind}) for one in found_here]
    namespace = platform.namespaces.pipelines
    applications = ask("SparkApplications", APPLICATIONS.format(namespace), Application) if namespace in phases else ()
    return Facts(
        now=now or datetime.now(UTC),
        namespaces=phases,
        nodes=ask("nodes", "/api/v1/nodes", Node),
        pods=tuple(pods),
        workloads=tuple(workloads),
        applications=applications,
        events=tuple(events),
        last_words={pod.metadata.name: words for pod in pods if (words := _last_words(api, pod))},
        unknown=unknown,
    )


def pods_of(api: Reader, namespace: str, selector: str = "") -> tuple[Pod, ...]:
    """The pods of a namespace that carry these labels. Raises ApiError, UnreachableError."""
    query = {"labelSelector": selector} if selector else {}
    return _parse(api.get(f"/api/v1/namespaces/{namespace}/pods", **query), Pod)


def log_path(pod: Pod) -> str:
    """Where the API has the log of a pod."""
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/log"


def _list(
    api: Reader, path: str, kind: type[Kind], refused: Callable[[ApiError], object], **query: str
) -> tuple[Kind, ...]:
    try:
        return _parse(api.get(path, **query), kind)
    except ApiError as error:
        refused(error)
        return ()


def _parse(answer: dict[str, Any], kind: type[Kind]) -> tuple[Kind, ...]:
    return tuple(kind.model_validate(one) for one in answer.get("items") or [])


def _last_words(api: Reader, pod: Pod) -> str:
    """The end of the log of the first container that ended badly, of its last run."""
    for one in pod.status.container_statuses:
        here, before = one.state.terminated, one.last_state.terminated
        ended = here or (before if one.state.waiting else None)
        if ended is None or ended.exit_code == 0:
            continue
        query = {"container": one.name, "tailLines": LAST_LINES, **({} if here else {"previous": "true"})}
        try:
            return api.text(log_path(pod), **query)
        except ApiError:
            return ""  # the log went with the container; exit code and reason are still told
    return ""
