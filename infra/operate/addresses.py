"""`make open`: where everything is, how to get there, and whether it answers now."""

from __future__ import annotations

import os
import shlex
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from rich.console import Console as Screen
from rich.markup import escape

from infra.cluster.access import ACCESS_KEYS, SECRET_KEYS, Access
from infra.cluster.api import ApiError, ClusterError, Reader
from infra.cluster.platform import Platform, Store
from infra.embedded.ports import HOST
from infra.operate import probes
from infra.operate.facts import Facts, gather
from infra.operate.forward import Forward, hold
from infra.operate.objects import NAME, Pod
from infra.operate.rows import Row, rows

UI_PORT = 4040


@dataclass(frozen=True)
class Address:
    """One thing to open. Without `probe` it is inside the cluster only, and `component` says whether it is ready."""

    name: str
    address: str
    probe: probes.Probe | None = None
    component: str = ""
    forward: Forward | None = None
    note: str = ""
    """How to log in, for instance: a command, never a value."""


def addresses(
    platform: Platform,
    facts: Facts,
    kubectl: str,
    keys: Mapping[str, tuple[str, ...]],
    believed: ssl.SSLContext | None = None,
) -> list[Address]:
    """List them; a pure function.

    Args:
        platform: the stack's output.
        facts: what the cluster says: which driver serves which UI.
        kubectl: begins the command lines shown.
        keys: names of the keys in each Secret, by `namespace/name`.
        believed: whose certificates servers of ours show; None where none shows one.
    """
    names = platform.namespaces
    found = [
        _spark_ui(name, one.name, names.pipelines, facts, UI_PORT + number)
        for number, (name, one) in enumerate(platform.pipelines.items())
    ]
    if platform.history_server:
        outside = platform.history_server.external_url
        found.append(_service("history server", outside, names.platform, "history-server", 18080))
    if platform.monitoring:
        found.append(_service("Prometheus", None, names.platform, "prometheus", 9090))
        found.append(_service("Alertmanager", None, names.platform, "alertmanager", 9093))
    store, password = platform.object_store, _password(platform.object_store, names.platform, kubectl, keys)
    if store.external_endpoint or "minio" in _list_deployed(facts):
        own = believed if store.certificates else None
        found.append(
            _service("object store (S3)", store.external_endpoint, names.platform, "minio", 9000, believed=own)
        )
        console = _service("MinIO console", store.external_console, names.platform, "minio", 9001, believed=own)
        found.append(_add_note(console, password))
    else:
        found.append(Address("object store (S3)", store.endpoint, probes.http, note=password))
    kafka = platform.kafka
    outside = kafka.external_bootstrap or (None if "kafka" in _list_deployed(facts) else kafka.bootstrap)
    login = f"login: Secret {names.pipelines}/{kafka.secret}" if kafka.secret else ""
    found.append(
        Address("Kafka bootstrap", outside, _broker_probe(believed if kafka.certificates else None), note=login)
        if outside
        else Address("Kafka bootstrap", kafka.bootstrap, None, "kafka", note="set external_access.kafka.by to reach it")
    )
    if platform.result_store:
        found.append(_result_store(platform.result_store, names.platform, facts, kubectl, keys))
    return found


def _spark_ui(pipeline: str, application: str, namespace: str, facts: Facts, local: int) -> Address:
    name, component = f"Spark UI of {pipeline}", f"pipeline {application}"
    driver = driver_of(application, facts)
    if driver is None:
        return Address(name, "", None, component, note="no driver runs now")
    found = next((one for one in facts.applications if one.metadata.name == application), None)
    remote = found.status.driver_info.web_ui_port if found else UI_PORT
    forward = Forward(namespace, f"pod/{driver.metadata.name}", remote or UI_PORT, local)
    return Address(name, f"http://{HOST}:{local}", None, component, forward)


def driver_of(application: str, facts: Facts) -> Pod | None:
    """The driver of a SparkApplication, when it runs."""
    running = [one for one in facts.pods if one.application == application and one.status.phase == "Running"]
    return next((one for one in running if one.role == "driver" and not one.metadata.deletion_timestamp), None)


def _service(
    name: str, outside: str | None, namespace: str, service: str, port: int, *, believed: ssl.SSLContext | None = None
) -> Address:
    if outside:
        return Address(name, outside, partial(probes.http, believed=believed) if believed else probes.http)
    forward = Forward(namespace, f"svc/{service}", port, port)
    return Address(name, f"{'https' if believed else 'http'}://{HOST}:{port}", None, service, forward)


def _broker_probe(believed: ssl.SSLContext | None) -> probes.Probe:
    return partial(probes.kafka, believed=believed) if believed else probes.kafka


def _result_store(
    store: Store, namespace: str, facts: Facts, kubectl: str, keys: Mapping[str, tuple[str, ...]]
) -> Address:
    note = _password(store, namespace, kubectl, keys)
    if store.external_endpoint or "postgres" not in _list_deployed(facts):
        return Address("PostgreSQL", store.external_endpoint or store.endpoint, probes.postgres, note=note)
    forward = Forward(namespace, "svc/postgres", 5432, 5432)
    return Address("PostgreSQL", f"{HOST}:5432", None, "postgres", forward, note)


def _add_note(address: Address, note: str) -> Address:
    return Address(address.name, address.address, address.probe, address.component, address.forward, note)


def _password(store: Store, namespace: str, kubectl: str, keys: Mapping[str, tuple[str, ...]]) -> str:
    """The command that prints the password, or nothing where there is no Secret."""
    if not store.secret:
        return ""
    where = store.secret_namespace or namespace
    there = keys.get(f"{where}/{store.secret}", ())
    key = next((one for one in (*SECRET_KEYS, "password") if one in there), None)
    if key is None:
        return f"Secret {where}/{store.secret} is not there" if not there else f"Secret {where}/{store.secret}"
    path = shlex.quote(f"{{.data.{key}}}")
    user = next((one for one in (*ACCESS_KEYS, "username") if one in there), None)
    same = f"; user: the same with .data.{user}" if user else ""
    return f"password: {kubectl} -n {where} get secret {store.secret} -o jsonpath={path} | base64 -d{same}"


def _list_deployed(facts: Facts) -> set[str]:
    return {one.metadata.labels.get(NAME, "") for one in facts.workloads}


def show_addresses(access: Access, screen: Screen, *, forward: bool = False) -> int:
    """Print the addresses, what they need, and whether each answers.

    Exit code 0 when all of them answer (or are ready inside), else 1. With `forward` the ways in that kubectl opens are
    held until Ctrl-C. Raises ClusterError.
    """
    facts = gather(access.api, access.platform)
    judged = {one.component: one for one in rows(access.platform, facts)}
    kubectl = kubectl_line(access, os.environ)
    found = addresses(access.platform, facts, kubectl, _keys(access), _believed(access))
    states = [state_of(one, judged, access.api) for one in found]
    for line in lines(found, states, kubectl):
        screen.print(line, soft_wrap=True)
    if forward:
        hold(
            {one.name: one.forward for one in found if one.forward},
            kubectl_line(access, {}),
            access.environment,
            screen,
        )
    return 1 if any(bad for bad, _ in states) else 0


def state_of(address: Address, judged: Mapping[str, Row], api: Reader) -> tuple[bool, str]:
    """Whether something is wrong, and what to show."""
    if address.probe:
        why = address.probe(address.address)
        return why is not None, f"does not answer: {why}" if why else "answers"
    forward = address.forward
    if forward and forward.target.startswith("pod/"):
        path = (
            f"/api/v1/namespaces/{forward.namespace}/{forward.target.replace('pod/', 'pods/')}:{forward.remote}/proxy"
        )
        try:
            api.text(f"{path}/api/v1/applications")
        except ApiError as error:
            # The page of a pipeline that is secured; the API server itself has just been asked for other things.
            if error.status == 401:
                return False, "answers inside, and asks for a password"
            return True, f"does not answer: {error.answer}"
        return False, "answers inside"
    row = judged.get(address.component)
    if row is None or row.ready:
        return False, "ready inside"
    return True, f"not ready: {row.state}"


def lines(found: list[Address], states: list[tuple[bool, str]], kubectl: str) -> list[str]:
    """Lay them out, with rich's markup; commands stand on lines of their own, whole, so that they can be copied."""
    names, places = (max(map(len, column)) for column in zip(*((one.name, one.address) for one in found), strict=True))
    shown = []
    for one, (bad, state) in zip(found, states, strict=True):
        sign = "[red]✗[/]" if bad else "[green]✓[/]"
        shown.append(f"{sign} {escape(f'{one.name:<{names}}  {one.address:<{places}}  {state}')}")
        more = (one.forward.command(kubectl) if one.forward else "", one.note)
        shown += [f"    {escape(line)}" for line in more if line]
    return shown


def kubectl_line(access: Access, env: Mapping[str, str]) -> str:
    """How kubectl is called so that a pasted line meets the same cluster."""
    words = ["kubectl"]
    if env.get("KUBECONFIG") != str(access.kubeconfig):
        words += ["--kubeconfig", str(access.kubeconfig)]
    return shlex.join([*words, *(["--context", access.context] if access.context else [])])


def _believed(access: Access) -> ssl.SSLContext | None:
    """Whom to believe: servers of ours show certificates of one authority. None: none shows one, or it is hidden."""
    platform = access.platform
    shown = [one.certificates for one in (platform.kafka, platform.object_store) if one.certificates]
    if not shown:
        return None
    try:
        (certificates,) = access.read_secret(platform.namespaces.platform, shown[0], ("ca.crt",)).values()
        return ssl.create_default_context(cadata=certificates)
    except (ClusterError, ssl.SSLError):
        return None  # absent, or not for this user: what is asked says that it is not believed


def _keys(access: Access) -> dict[str, tuple[str, ...]]:
    """Names of the keys in the stores' Secrets."""
    found = {}
    for store in (access.platform.object_store, access.platform.result_store):
        if store is None or not store.secret:
            continue
        where = store.secret_namespace or access.platform.namespaces.platform
        try:
            secret = access.api.get(f"/api/v1/namespaces/{where}/secrets/{store.secret}")
        except ApiError:
            continue  # absent, or not for this user: the line says so
        found[f"{where}/{store.secret}"] = tuple(secret.get("data") or {})
    return found
