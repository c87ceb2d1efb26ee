"""Who MinIO is and who its users are: a certificate, and for each pipeline derived keys for its own folders."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.components import derived
from infra.components.authority import Authority, sign_pair
from infra.components.clients import CA, OBJECT_STORE_CA, encode
from infra.components.credentials import OBJECT_STORE
from infra.components.derived import KEY, derive
from infra.components.secret import make_secret
from infra.settings import Pipeline, Settings
from infra.settings.exposure import LOOPBACK, resolve_exposure
from infra.values.minio import Folder, Security

SERVER, USERS = "minio-tls", "minio-users"
NAME: Final = "minio"
"""Of the Service, and in the certificate."""
SUFFIX: Final = "-object-store"
"""Behind a pipeline's name: the Secret with its keys."""
HISTORY: Final = "history-server"
"""Also a user's name: no identity has a dash."""
EVENT_LOGS: Final = "spark-events/"


def secret(settings: Settings, name: str) -> str:
    """Return the Secret with the keys of a pipeline or of the history server."""
    return f"{name}{SUFFIX}" if settings.security.object_store else OBJECT_STORE


def version(settings: Settings) -> str | None:
    """Return what differs when keys do, None where everybody has the owner's."""
    return str(settings.security.rotation) if settings.security.object_store else None


def event_log_folder(settings: Settings, name: str) -> str | None:
    """Return the folder below that of event logs that is a pipeline's own, None where they share that."""
    return name if settings.security.object_store else None


def values(settings: Settings) -> Security | None:
    """Return what the store's chart is told, None where connections are plain and everybody has the owner's keys."""
    if not settings.security.object_store:
        return None
    policies = {one.identity: tuple(rights(settings, one)) for one in settings.pipelines.values()}
    logs: tuple[Folder, ...] = ()
    if settings.history_server.enabled:
        policies[HISTORY] = (Folder(bucket=settings.object_store.bucket, folder=EVENT_LOGS),)
        logs = tuple(right for one in policies.values() for right in one if right.folder.startswith(EVENT_LOGS))
    return Security(
        tls_secret=_server_secret(settings),
        users_secret=f"{USERS}-{version(settings)}",
        policies=policies,
        users={_user(name, number): name for name in policies for number in numbers(settings)},
        folders=logs,
        grant_image=settings.images.spark,
    )


def rights(settings: Settings, pipeline: Pipeline) -> Iterator[Folder]:
    """Yield what a pipeline may read and write: what is below its identity, its backups and its event logs."""
    yield Folder(bucket=pipeline.bucket, folder=f"{pipeline.identity}/")
    if pipeline.backup is not None:
        bucket, folder = pipeline.backups
        yield Folder(bucket=bucket, folder=folder)
    if settings.history_server.enabled:
        name = pipeline.identity.replace("_", "-")
        yield Folder(bucket=settings.object_store.bucket, folder=f"{EVENT_LOGS}{name}/")


def hosts(settings: Settings) -> list[str]:
    """Return all names of the store: of its Service, of its nodes, and of whoever forwards a port to it."""
    namespace = settings.namespace
    found = [NAME, f"{NAME}.{namespace}", f"{NAME}.{namespace}.svc", f"{NAME}.{namespace}.svc.cluster.local"]
    found += [f"*.{NAME}-nodes.{namespace}.svc", "localhost", LOOPBACK]
    ways = [resolve_exposure(settings, name) for name in ("object_store", "console")]
    # An Ingress shows a certificate of its own.
    found += [way.host for way in ways if way.by in ("NodePort", "LoadBalancer") and way.host]
    return list(dict.fromkeys(found))


def _server_secret(settings: Settings) -> str:
    """Return its name, which differs when those of the store do: what was signed is kept, and lacks the new ones."""
    names = hashlib.sha256("\n".join(hosts(settings)).encode()).hexdigest()[:8]
    return f"{SERVER}-{derived.version(settings)}-{names}"


def numbers(settings: Settings) -> list[int]:
    """Return whose keys open the store: those of before too, which pods have until they are started anew."""
    rotation = settings.security.rotation
    return [rotation, *([rotation - 1] if rotation else [])]


def _user(name: str, number: int) -> str:
    return f"{name}-{number}"


class ObjectSecurity(pulumi.ComponentResource):
    """Secrets of the server, of users on both sides, and of whom clients believe; nothing without TLS."""

    def __init__(
        self,
        settings: Settings,
        root: Secret | None,
        authority: Authority,
        after: list[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("effectively-once:platform:ObjectSecurity", "object-security", None, opts)
        self._after = after
        made = values(settings)
        if made is not None and root is not None:
            signed = authority.sign(partial(sign_pair, NAME, hosts(settings)))
            self._secret(made.tls_secret, settings.namespace, signed, kept=True)
            for namespace in (settings.namespace, settings.pipelines_namespace):
                self._secret(OBJECT_STORE_CA, namespace, authority.bundle.apply(lambda bundle: {CA: bundle}))
            self._secret(made.users_secret, settings.namespace, root.data.apply(partial(_passwords, dict(made.users))))
            of_pods = {one.identity: settings.pipelines_namespace for one in settings.pipelines.values()}
            if settings.history_server.enabled:
                of_pods[HISTORY] = settings.namespace
            for name, namespace in of_pods.items():
                keys = root.data.apply(partial(_keys, _user(name, settings.security.rotation)))
                self._secret(f"{name.replace('_', '-')}{SUFFIX}", namespace, keys)
        self.register_outputs({})

    def _secret(self, name: str, namespace: str, data: Any, *, kept: bool = False) -> None:
        ignored = ["data"] if kept else []
        opts = pulumi.ResourceOptions(parent=self, depends_on=self._after, ignore_changes=ignored)
        called = f"{name}-{namespace}" if name == OBJECT_STORE_CA else None
        make_secret(name, namespace, NAME, data, opts, called=called)


def _password(root: Mapping[str, str], user: str) -> str:
    name, _, number = user.rpartition("-")
    return encode(derive(root[KEY], f"object-store/{name}", int(number)))


def _passwords(users: Mapping[str, str], root: Mapping[str, str]) -> dict[str, str]:
    return {user: _password(root, user) for user in users}


def _keys(user: str, root: Mapping[str, str]) -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": encode(user), "AWS_SECRET_ACCESS_KEY": _password(root, user)}
