"""Who MinIO's users are: one for each pipeline, with keys that are derived, and its own folders of the buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.components.clients import encode
from infra.components.credentials import OBJECT_STORE
from infra.components.derived import KEY, derive
from infra.components.release import FORCE, labels
from infra.settings import Pipeline, Settings
from infra.values.minio import Folder, Security

USERS: Final = "minio-users"
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
    """Return what the store's chart is told, None where everybody has the owner's keys."""
    if not settings.security.object_store:
        return None
    policies = {one.identity: tuple(rights(settings, one)) for one in settings.pipelines.values()}
    logs: tuple[Folder, ...] = ()
    if settings.history_server.enabled:
        policies[HISTORY] = (Folder(bucket=settings.object_store.bucket, folder=EVENT_LOGS),)
        logs = tuple(right for one in policies.values() for right in one if right.folder.startswith(EVENT_LOGS))
    return Security(
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


def numbers(settings: Settings) -> list[int]:
    """Return whose keys open the store: those of before too, which pods have until they are started anew."""
    rotation = settings.security.rotation
    return [rotation, *([rotation - 1] if rotation else [])]


def _user(name: str, number: int) -> str:
    return f"{name}-{number}"


class ObjectSecurity(pulumi.ComponentResource):
    """Secrets of users, on both sides; nothing where everybody has the owner's keys."""

    def __init__(
        self, settings: Settings, root: Secret | None, after: list[pulumi.Resource], opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("effectively-once:platform:ObjectSecurity", "object-security", None, opts)
        self._after = after
        made = values(settings)
        if made is not None and root is not None:
            self._secret(made.users_secret, settings.namespace, root.data.apply(partial(_passwords, dict(made.users))))
            of_pods = {one.identity: settings.pipelines_namespace for one in settings.pipelines.values()}
            if settings.history_server.enabled:
                of_pods[HISTORY] = settings.namespace
            for name, namespace in of_pods.items():
                keys = root.data.apply(partial(_keys, _user(name, settings.security.rotation)))
                self._secret(f"{name.replace('_', '-')}{SUFFIX}", namespace, keys)
        self.register_outputs({})

    def _secret(self, name: str, namespace: str, data: Any) -> None:
        metadata = {"name": name, "namespace": namespace, "labels": labels("minio"), "annotations": {FORCE: "true"}}
        own = pulumi.ResourceOptions(parent=self, depends_on=self._after)
        Secret(name, metadata=metadata, type="Opaque", data=pulumi.Output.secret(data), opts=own)


def _password(root: Mapping[str, str], user: str) -> str:
    name, _, number = user.rpartition("-")
    return encode(derive(root[KEY], f"object-store/{name}", int(number)))


def _passwords(users: Mapping[str, str], root: Mapping[str, str]) -> dict[str, str]:
    return {user: _password(root, user) for user in users}


def _keys(user: str, root: Mapping[str, str]) -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": encode(user), "AWS_SECRET_ACCESS_KEY": _password(root, user)}
