"""Objects that break one rule each, of objects that break none; previews and the API server are given the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from infra.policy.pods import Object, pods
from infra.policy.rules import DELETED
from infra.settings import Settings
from tests.charts.deployment import releases
from tests.charts.render import render
from tests.infra.platform import IMAGES, settings

PINNED: Final = f"registry.example/x:1@sha256:{'ab' * 32}"
SECURITY: Final = {"kafka": True, "object_store": True, "result_store": True, "pinned_images": True}
STRICT: Final = settings(
    profile="production",
    security=SECURITY,
    images=dict.fromkeys(IMAGES, PINNED),
    pipelines={"user_counts": {"result_store": True, "backup": {"schedule": "@daily"}}},
)
"""Everything that can be asked for is."""


@dataclass(frozen=True)
class Case:
    """An object of `STRICT` by kind and name, and what is done to it."""

    rule: str
    kind: str
    name: str
    change: Callable[[Object], object]
    says: str

    def __str__(self) -> str:
        """Name the case."""
        return f"{self.rule}: {self.says}"

    @property
    def good(self) -> Object:
        """The object as it is deployed."""
        return copy.deepcopy(next(one for one in objects(STRICT) if _named(one) == (self.kind, self.name)))

    @property
    def bad(self) -> Object:
        """The object that breaks the rule."""
        one = self.good
        self.change(one)
        return one


def _named(one: Object) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def objects(wanted: Settings) -> Iterator[Object]:
    """Yield everything that charts make of settings, each with its namespace."""
    for release, chart, namespace, values in releases(wanted):
        for one in render(chart, values.to_helm(), release, namespace):
            yield {**one, "metadata": {"namespace": namespace, **one["metadata"]}}


def _pod(change: Callable[[Object], object]) -> Callable[[Object], object]:
    """Do it to every pod of an object."""

    def work(one: Object) -> None:
        for _, pod in pods(one):
            change(pod)

    return work


def _container(**fields: Any) -> Callable[[Object], object]:
    return _pod(lambda pod: pod["containers"][0].update(fields))


def _more(kind: str, **fields: Any) -> Callable[[Object], object]:
    return _pod(lambda pod: pod.setdefault(kind, []).append(fields))


def _line(name: str, before: str, after: str) -> Callable[[Object], object]:
    """Change text in a ConfigMap; text that is not there would change nothing."""

    def work(one: Object) -> None:
        assert before in one["data"][name]
        one["data"][name] = one["data"][name].replace(before, after)

    return work


def _retention(**fields: str) -> Callable[[Object], object]:
    return lambda one: one["spec"]["persistentVolumeClaimRetentionPolicy"].update(fields)


def _denied(one: Object) -> None:
    _retention(whenDeleted="Delete")(one)
    one["metadata"]["annotations"] = {DELETED: "false"}


def _drop_item(name: str) -> Callable[[Object], object]:
    """Mount a Secret without one of its files."""

    def work(pod: Object) -> None:
        (items,) = (each["secret"]["items"] for each in pod["volumes"] if "secret" in each)
        items[:] = [one for one in items if one["path"] != name]

    return _pod(work)


def _plain_drives(pod: Object) -> None:
    (container,) = pod["containers"]
    container["args"] = [word.replace("https://", "http://") for word in container["args"]]


def _without(option: str) -> Callable[[Object], object]:
    """Leave an option of the server out, with its `-c`."""

    def work(pod: Object) -> None:
        (container,) = pod["containers"]
        (at,) = (number for number, word in enumerate(container["args"]) if word.startswith(option))
        del container["args"][at - 1 : at + 1]

    return _pod(work)


_PRIVILEGED: Final = {"allowPrivilegeEscalation": True, "privileged": True}
_SAFE: Final = {
    "name": "first",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
CASES: Final = (
    Case("restricted", "StatefulSet", "kafka", _container(securityContext=_PRIVILEGED), "kafka: privileged"),
    Case(
        "restricted",
        "Deployment",
        "spark-operator",
        _more("volumes", name="node", hostPath={"path": "/"}),
        "volume node is none of",
    ),
    Case("restricted", "CronJob", "user-counts-backup", _pod(lambda pod: pod.update(hostPID=True)), "hostPID is set"),
    Case(
        "restricted",
        "SparkApplication",
        "user-counts",
        lambda one: one["spec"]["executor"]["template"]["spec"].update(hostNetwork=True),
        "executor: hostNetwork is set",
    ),
    *(
        Case(rule, "StatefulSet", "minio", _container(image=image), f"minio runs {image}")
        for rule, image in (
            ("tagged-images", "minio"),
            ("tagged-images", "minio:latest"),
            ("tagged-images", "registry.example:5000/minio"),
            ("tagged-images", "minio@sha256:ab"),
            ("pinned-images", "registry.example:5000/minio:1"),
        )
    ),
    Case(
        "tagged-images",
        "Deployment",
        "history-server",
        _more("initContainers", image="x:latest", **_SAFE),
        "first runs x:latest",
    ),
    Case(
        "pinned-images",
        "SparkApplication",
        "user-counts",
        lambda one: one["spec"].update(image="spark:1"),
        "driver: spark-kubernetes-driver runs spark:1",
    ),
    Case("volumes-kept", "StatefulSet", "kafka", _retention(whenDeleted="Delete"), "whenDeleted is Delete"),
    Case("volumes-kept", "StatefulSet", "minio", _denied, "whenDeleted is Delete"),
    Case(
        "volumes-kept-when-scaled",
        "StatefulSet",
        "kafka-controller",
        _retention(whenScaled="Delete"),
        "whenScaled is Delete",
    ),
    *(
        Case("kafka-encrypted", "ConfigMap", name, _line("server.properties", f"{listener}:{before}", after), says)
        for name, listener, before, after, says in (
            ("kafka", "INTERNAL", "SASL_SSL", "INTERNAL:SASL_PLAINTEXT", "listener INTERNAL is SASL_PLAINTEXT"),
            ("kafka-controller", "CONTROLLER", "SSL", "CONTROLLER:PLAINTEXT", "listener CONTROLLER is PLAINTEXT"),
        )
    ),
    Case(
        "kafka-encrypted",
        "ConfigMap",
        "kafka",
        _line("server.properties", "listener.security.protocol.map", "# "),
        "listeners without it are plain",
    ),
    Case(
        "postgres-encrypted",
        "ConfigMap",
        "postgres",
        _line("pg_hba.conf", "hostssl", "host"),
        "takes plain connections: host all",
    ),
    Case("postgres-encrypted", "StatefulSet", "postgres", _without("ssl=on"), "without ssl=on"),
    Case("postgres-encrypted", "StatefulSet", "postgres", _without("hba_file"), "its own pg_hba.conf"),
    Case("minio-encrypted", "StatefulSet", "minio", _without("/etc/minio-tls"), "has no --certs-dir"),
    Case("minio-encrypted", "StatefulSet", "minio", _pod(_plain_drives), "speak plainly"),
    Case("minio-encrypted", "StatefulSet", "minio", _drop_item("public.crt"), "mounted as public.crt"),
    Case("minio-encrypted", "StatefulSet", "minio", _drop_item("private.key"), "mounted as private.key"),
)
