"""One row a component: ready or why not; pure functions of the facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from infra.cluster.platform import Executors, Pipeline, Platform
from infra.operate.facts import Facts
from infra.operate.objects import NAME, Application, Event, Meta, Node, Pod, Workload
from infra.operate.reasons import about, last_error_line, latest, why_not

PRESSURE = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
STILL = {"SUSPENDED": "is suspended, which its settings do not ask for", "COMPLETED": "ended by itself"}


@dataclass(frozen=True)
class Row:
    """What is known of one component; times are UTC."""

    component: str
    ready: bool
    state: str
    restarts: int = 0
    since: datetime | None = None
    last_event: Event | None = None


def rows(platform: Platform, facts: Facts) -> list[Row]:
    """Judge every component the stack says it deployed, and the nodes under them."""
    names, found = platform.namespaces, platform
    result = [_nodes(facts), *(_namespace(name, facts) for name in names.ours)]
    result.append(_component("kafka", names.platform, _host(found.kafka.bootstrap), facts))
    result.append(_component("minio", names.platform, _host(found.object_store.endpoint), facts))
    if found.result_store:
        result.append(_component("postgres", names.platform, _host(found.result_store.endpoint), facts))
    result.append(_component("spark-operator", names.operator, None, facts))
    if found.history_server:
        result.append(_component("history-server", names.platform, None, facts))
    if found.monitoring:
        result.append(_component("monitoring", names.platform, None, facts))
    result += [_pipeline(one, names.pipelines, facts) for one in (*_meant(found), *_others(found, facts))]
    result += [Row(what, False, f"cannot be asked: {why}") for what, why in facts.unknown.items() if what != "nodes"]
    return result


def _meant(platform: Platform) -> Iterator[Pipeline]:
    """Pipelines as the stack's output has them, each with the application of its standby."""
    for one in platform.pipelines.values():
        yield one
        if one.settings.get("standby"):
            yield one.model_copy(update={"name": f"{one.name}-standby"})


def _others(platform: Platform, facts: Facts) -> list[Pipeline]:
    """Pipelines on the cluster that the stack's output does not name: its last update may not have finished."""
    named = {one.name for one in _meant(platform)}
    return [
        Pipeline(
            name=one.metadata.name, suspend=one.spec.suspend, executors=Executors(count=one.spec.executor.instances)
        )
        for one in facts.applications
        if one.metadata.name not in named
    ]


def is_ours(host: str, namespace: str) -> bool:
    """Whether a host name is that of a Service in the namespace (a bare name is; `name.namespace[.svc...]` too)."""
    labels = host.split(".")
    return host != "localhost" if len(labels) == 1 else labels[1] == namespace


def _host(address: str) -> str:
    """The first host of `host:port[,...]` or of a URL."""
    first = address.split(",", 1)[0]
    return urlsplit(first if "://" in first else f"//{first}").hostname or ""


def _nodes(facts: Facts) -> Row:
    if "nodes" in facts.unknown:
        # Not ours to need: a tenant of somebody's cluster may not be allowed to look.
        return Row("nodes", True, f"not shown to this user: {facts.unknown['nodes']}")
    bad = [f"{one.metadata.name}: {why}" for one in facts.nodes if (why := _node(one))]
    names = {one.metadata.name for one in facts.nodes}
    events = [one for one in facts.events if one.involved_object.kind == "Node" and one.involved_object.name in names]
    return Row(
        "nodes",
        bool(facts.nodes) and not bad,
        _summary(len(facts.nodes) - len(bad), len(facts.nodes), bad, "node") if facts.nodes else "there is none",
        since=_oldest(one.metadata for one in facts.nodes),
        last_event=latest(events),
    )


def _node(node: Node) -> str | None:
    by_type = {one.type: one for one in node.status.conditions}
    ready = by_type.get("Ready")
    if ready is None or ready.status != "True":
        return f"not ready: {(ready.message or ready.reason) if ready else 'says nothing'}"
    pressed = [by_type[kind] for kind in PRESSURE if kind in by_type and by_type[kind].status == "True"]
    if pressed:
        return f"{pressed[0].type}: {pressed[0].message or pressed[0].reason}"
    return "is cordoned: takes no new pods" if node.spec.unschedulable else None


def _namespace(name: str, facts: Facts) -> Row:
    phase = facts.namespaces.get(name)
    state = {None: "is not there: run `make up`", "Active": "active"}.get(phase, f"is {str(phase).lower()}")
    return Row(f"namespace {name}", phase == "Active", state)


def _component(name: str, namespace: str | None, host: str | None, facts: Facts) -> Row:
    """A StatefulSet or Deployment (or several, e.g. brokers and controllers) that carries the component's name."""
    if namespace is None:
        return Row(name, True, "an installed one is used; not judged here")
    workloads = [one for one in facts.workloads if _is(one.metadata, name, namespace)]
    if not workloads:
        if host is not None and not is_ours(host, namespace):
            return Row(name, True, f"an external one is used, {host}; `make open` asks it")
        return Row(name, False, f"there is no such workload in {namespace}: run `make up`")
    pods = [one for one in facts.pods if _is(one.metadata, name, namespace) and one.status.phase != "Succeeded"]
    wanted = sum(one.spec.replicas for one in workloads)
    bad = [f"{one.metadata.name}: {why}" for one in pods if (why := _why(one, facts))]
    good = len(pods) - len(bad)
    if not pods and wanted:
        warned = latest(one for one in _events(workloads, [], facts) if one.type == "Warning")
        bad = [f"no pod was made{f': {warned.message}' if warned else ''}"]
    return Row(
        name,
        good >= wanted and not bad,
        _summary(good, wanted, bad, "pod"),
        sum(one.restarts for one in pods),
        _oldest(one.metadata for one in workloads),
        latest(_events(workloads, pods, facts)),
    )


def _pipeline(pipeline: Pipeline, namespace: str, facts: Facts) -> Row:
    name = f"pipeline {pipeline.name}"
    applications = [one for one in facts.applications if one.metadata.name == pipeline.name]
    pods = [one for one in facts.pods if one.metadata.namespace == namespace and one.application == pipeline.name]
    events = _events([], pods, facts) + about(facts.events, "SparkApplication", pipeline.name, namespace)
    if not applications:
        failed = _failed_job(pods, facts)
        why = "there is no such SparkApplication: run `make up`"
        return Row(name, False, failed or why, last_event=latest(events))
    application = applications[0]
    state, ready = _application(pipeline, application, pods, facts)
    return Row(
        name,
        ready,
        state,
        max(0, application.status.execution_attempts - 1) + sum(one.restarts for one in pods),
        application.metadata.creation_timestamp,
        latest(events),
    )


def _application(pipeline: Pipeline, application: Application, pods: list[Pod], facts: Facts) -> tuple[str, bool]:
    told = application.status.application_state
    if pipeline.suspend:
        quiet = told.state in ("SUSPENDED", "")
        return ("suspended, as its settings ask", True) if quiet else (f"is to be suspended, is {told.state}", False)
    driver = next((one for one in pods if one.metadata.name == application.status.driver_info.pod_name), None)
    driver = driver or next((one for one in pods if one.role == "driver"), None)
    if told.state != "RUNNING":
        return _not_running(told.state, told.error_message, driver, pods, facts), False
    if driver is None:
        return "the operator says RUNNING, but there is no driver pod", False
    why = _why(driver, facts)
    if why:
        return f"driver: {why}", False
    executors = [one for one in pods if one.role == "executor" and one.status.phase not in ("Succeeded", "Failed")]
    bad = [f"{one.metadata.name}: {why}" for one in executors if (why := _why(one, facts))]
    good, wanted = len(executors) - len(bad), pipeline.executors.count
    return f"driver, {_summary(good, wanted, bad, 'executor')}", good >= wanted and not bad


def _not_running(state: str, message: str, driver: Pod | None, pods: list[Pod], facts: Facts) -> str:
    """Why an application is not in RUNNING: the job before it, its driver, or the operator's own message."""
    failed = _failed_job(pods, facts)
    if failed:
        return failed
    shown = state or "new: the operator has not looked at it yet"
    why = _why(driver, facts) if driver else None
    if why:
        return f"{shown}; driver: {why}"
    words = last_error_line(facts.last_words.get(driver.metadata.name, "")) if driver else ""
    rest = words or " ".join(message.split())[:240]
    return f"{STILL.get(state, shown)}{f': {rest}' if rest else ''}"


def _failed_job(pods: list[Pod], facts: Facts) -> str | None:
    """Why the job that makes bucket and topics has not done so; None when its last pod did, or none tried."""
    tries = [one for one in pods if not one.role]
    if not tries:
        return None
    newest = max(tries, key=lambda one: str(one.metadata.creation_timestamp))
    why = _why(newest, facts)
    return f"bucket and topics are not made: {why}" if why else None


def _why(pod: Pod, facts: Facts) -> str | None:
    return why_not(pod, facts.events, facts.last_words.get(pod.metadata.name, ""))


def _is(meta: Meta, name: str, namespace: str) -> bool:
    return meta.namespace == namespace and meta.labels.get(NAME) == name


def _events(workloads: Iterable[Workload], pods: Iterable[Pod], facts: Facts) -> list[Event]:
    def each() -> Iterator[Event]:
        for one in workloads:
            yield from about(facts.events, one.kind, one.metadata.name, one.metadata.namespace)
        for pod in pods:
            yield from about(facts.events, "Pod", pod.metadata.name, pod.metadata.namespace)

    return list(each())


def _oldest(metas: Iterable[Meta]) -> datetime | None:
    return min((one.creation_timestamp for one in metas if one.creation_timestamp), default=None)


def _summary(good: int, wanted: int, bad: list[str], noun: str) -> str:
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f"{good}/{wanted} {noun}{'s' if wanted != 1 else ''}{f'; {bad[0]}{more}' if bad else ''}"
