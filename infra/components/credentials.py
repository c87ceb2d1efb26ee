"""Passwords: made once, kept by the state, known to nobody by value (docs/adr/0010)."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Final

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.components.release import FORCE, labels
from infra.components.secret import make_secret
from infra.settings import Settings, SettingsError

# Names of Secrets, not secrets.
OBJECT_STORE_ROOT: Final = "minio-root"
OBJECT_STORE: Final = "object-store-credentials"
RESULT_STORE: Final = "postgres-credentials"
DATABASE: Final = "result-store-credentials"
ROOT: Final = "platform-root"
"""What other secrets are derived from."""
USER: Final = "effectively-once"
PASSWORD_BYTES: Final = 24  # of randomness: 32 characters


def derives(settings: Settings) -> bool:
    """Return whether other secrets are derived from one that is drawn."""
    security = settings.security
    return security.spark or security.kafka or security.object_store or security.result_store


class Credentials(pulumi.ComponentResource):
    """Secrets of object store and result store, the same values wherever they are needed.

    Every update draws a new password and throws it away: `ignore_changes` keeps the one that the state has. Copies
    derive from the first Secret, so that an update that was killed between two of them cannot part them.
    """

    def __init__(self, settings: Settings, after: list[pulumi.Resource], opts: pulumi.ResourceOptions) -> None:
        super().__init__("effectively-once:platform:Credentials", "credentials", None, opts)
        self._settings = settings
        self._after = after
        external = settings.object_store.external
        access: Secret | None = None
        if external is not None:
            of_session = ("AWS_SESSION_TOKEN",) if external.session_token else ()
            keys = {name: name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", *of_session)}
            if external.credentials_secret is not None:  # pods may have an identity of their own instead
                access = self._existing("object-store-external", external.credentials_secret)
        else:
            access = self._make(OBJECT_STORE_ROOT, "minio", {"rootUser": USER}, "rootPassword")
            keys = {"AWS_ACCESS_KEY_ID": "rootUser", "AWS_SECRET_ACCESS_KEY": "rootPassword"}
        security = settings.security
        # Where pipelines have keys of their own, the owner's are for tools outside the cluster.
        if access is not None and not security.object_store:
            self._copy(OBJECT_STORE, "minio", settings.pipelines_namespace, access, keys)
        if access is not None and (settings.history_server.enabled or security.object_store):
            self._copy(OBJECT_STORE, "minio", settings.namespace, access, keys)
        self.root = self._make(ROOT, "platform", {}, "root") if derives(settings) else None
        made_store = settings.result_store.enabled and settings.result_store.external is None
        made = None
        if made_store:
            made = self._make(RESULT_STORE, "postgres", {"username": USER.replace("-", "_")}, "password")
        if any(pipeline.result_store for pipeline in settings.pipelines.values()) and not security.result_store:
            brought = settings.result_store.external
            owner = made or self._existing("result-store-external", brought.credentials_secret if brought else "")
            login = {"PGUSER": "username", "PGPASSWORD": "password"}
            self._copy(DATABASE, "postgres", settings.pipelines_namespace, owner, login)
        self.register_outputs({})

    def _existing(self, name: str, reference: str) -> Secret:
        return Secret.get(name, reference, opts=pulumi.ResourceOptions(parent=self, depends_on=self._after))

    def _make(self, name: str, component: str, known: Mapping[str, str], password: str) -> Secret:
        """Return the Secret with `known` values and one that is drawn; the one that is there when it is adopted."""
        settings = self._settings
        if settings.adopt_credentials:
            return self._existing(f"{name}-adopted", f"{settings.namespace}/{name}")
        keep = not settings.storage.delete_volumes
        values = dict(known) | {password: secrets.token_urlsafe(PASSWORD_BYTES)}
        # A Secret of that name that the state does not know was left by an update that was killed before anybody
        # could use it, and may be overwritten; or belongs to volumes that were kept, and must not be.
        annotations = {} if keep else {FORCE: "true"}
        return Secret(
            name,
            metadata={
                "name": name,
                "namespace": settings.namespace,
                "labels": labels(component),
                "annotations": annotations,
            },
            type="Opaque",
            data=pulumi.Output.secret({key: base64.b64encode(text.encode()).decode() for key, text in values.items()}),
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=self._after, ignore_changes=["data"], retain_on_delete=keep
            ),
        )

    def _copy(self, name: str, component: str, namespace: str, source: Secret, keys: Mapping[str, str]) -> None:
        """Put values of `source` into another namespace; `keys` maps new key to old."""
        data = pulumi.Output.all(source.data, source.id).apply(lambda both: pick(both[0], keys, str(both[1])))
        opts = pulumi.ResourceOptions(parent=self, depends_on=self._after)
        make_secret(name, namespace, component, data, opts, called=f"{name}-{namespace}")


def pick(found: Mapping[str, str] | None, keys: Mapping[str, str], secret: str) -> dict[str, str]:
    """Values of a Secret's data under new names; `keys` maps new key to old.

    Raises SettingsError naming the Secret and the keys that it lacks; never a value.
    """
    data = found or {}
    lacking = sorted({old for old in keys.values() if old not in data})
    if lacking:
        there = ", ".join(sorted(data)) or "none"
        raise SettingsError([f"Secret {secret} lacks {', '.join(lacking)} (it has: {there}); add what is missing"])
    return {new: data[old] for new, old in keys.items()}
