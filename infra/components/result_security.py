"""Who PostgreSQL is and what its roles are: a certificate, and for each pipeline one with its own schema and marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from infra.components.authority import Authority, sign_pair
from infra.components.clients import CA, DATABASE_SUFFIX, encode
from infra.components.credentials import DATABASE
from infra.components.derived import KEY, derive, version
from infra.components.secret import make_secret
from infra.settings import Settings
from infra.values.postgres import Security

SERVER, USERS = "postgres-tls", "postgres-users"
NAME: Final = "postgres"
"""Of the Service, and in the certificate."""


def secret(settings: Settings, name: str) -> str:
    """Return the Secret with the login of the pipeline of that name."""
    return f"{name}{DATABASE_SUFFIX}" if settings.security.result_store else DATABASE


def values(settings: Settings) -> Security | None:
    """Return what the server's chart is told, None where connections are plain, or there is none."""
    if not settings.security.result_store or not settings.result_store.enabled:
        return None
    suffix = version(settings)
    return Security(
        tls_secret=f"{SERVER}-{suffix}",
        users_secret=f"{USERS}-{suffix}",
        users=tuple(one.identity for one in settings.pipelines.values() if one.result_store),
        grant_image=settings.images.spark,
    )


def hosts(settings: Settings) -> list[str]:
    """Return all names of the server."""
    service = f"{NAME}.{settings.namespace}"
    return [NAME, service, f"{service}.svc", f"{service}.svc.cluster.local"]


class ResultSecurity(pulumi.ComponentResource):
    """Secrets of the server, and of roles on both sides; nothing where connections are plain."""

    def __init__(
        self,
        settings: Settings,
        root: Secret | None,
        authority: Authority,
        after: list[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("effectively-once:platform:ResultSecurity", "result-security", None, opts)
        self._after = after
        made, rotation = values(settings), settings.security.rotation
        if made is not None and root is not None:
            signed = authority.sign(partial(sign_pair, NAME, hosts(settings)))
            self._secret(made.tls_secret, settings.namespace, signed, kept=True)
            drawn = root.data.apply(partial(_passwords, made.users, rotation))
            self._secret(made.users_secret, settings.namespace, drawn)
            for user in made.users:
                login = pulumi.Output.all(root.data, authority.bundle).apply(partial(_login, user, rotation))
                self._secret(f"{user.replace('_', '-')}{DATABASE_SUFFIX}", settings.pipelines_namespace, login)
        self.register_outputs({})

    def _secret(self, name: str, namespace: str, data: Any, *, kept: bool = False) -> None:
        ignored = ["data"] if kept else []
        opts = pulumi.ResourceOptions(parent=self, depends_on=self._after, ignore_changes=ignored)
        make_secret(name, namespace, NAME, data, opts)


def _password(root: Mapping[str, str], user: str, rotation: int) -> str:
    return encode(derive(root[KEY], f"result-store/{user}", rotation))


def _passwords(users: Sequence[str], rotation: int, root: Mapping[str, str]) -> dict[str, str]:
    return {user: _password(root, user, rotation) for user in users}


def _login(user: str, rotation: int, both: Sequence[Any]) -> dict[str, str]:
    root, bundle = both
    return {"PGUSER": encode(user), "PGPASSWORD": _password(root, user, rotation), CA: bundle}
