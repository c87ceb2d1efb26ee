"""Passwords that a destroy left are taken over, those too that others are derived from; what is missing is named."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pulumi_kubernetes.core.v1 import Secret

from infra.components.adopted import list_adopted
from infra.components.credentials import Credentials
from infra.components.derived import derive
from infra.components.shape import require_same
from tests.infra.platform import PLAIN, crds, deploy, secret_value, settings
from tests.infra.there import LAPTOP, There, refusals

KEPT: dict[str, tuple[str, ...]] = {
    "minio-root": ("rootUser", "rootPassword"),
    "postgres-credentials": ("username", "password"),
}
ROOT: dict[str, tuple[str, ...]] = {"platform-root": ("root",)}
ALL = {"kafka": True, "object_store": True, "result_store": True, "spark": True}
EXTERNAL = {
    "object_store": {"external": {"endpoint": "https://s3.example", "credentials_secret": "vault/s3"}},
    "result_store": {"external": {"host": "db.example", "credentials_secret": "vault/db"}},
}


@pytest.mark.parametrize("security", [{}, *({name: True} for name in ALL), ALL])
@pytest.mark.parametrize("external", [{}, EXTERNAL], ids=["own", "external"])
@pytest.mark.thinned(3)
def test_what_is_looked_for_is_what_the_program_reads(
    security: dict[str, Any], external: Mapping[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if external and {*security} & {*EXTERNAL}:
        return
    read: list[str] = []
    existing = Credentials._existing

    def note(self: Credentials, name: str, reference: str) -> Secret:
        read.append(reference)
        return existing(self, name, reference)

    monkeypatch.setattr(Credentials, "_existing", note)
    wanted = settings(profile="production", adopt_credentials=True, security=PLAIN | security, **external)
    deploy(wanted, crds(tmp_path))
    ours = {reference for reference in read if not reference.startswith("vault/")}
    assert ours == {f"effectively-once/{name}" for name in list_adopted(wanted)}
    assert ("effectively-once/platform-root" in ours) is bool(security)


@pytest.mark.parametrize("rotation", [0, 1])
def test_what_is_derived_comes_of_the_root_that_was_kept(rotation: int, tmp_path: Path) -> None:
    """So the next rotation knows the keys of before, which pods have until they are started anew."""
    wanted = {"adopt_credentials": True, "security": {**ALL, "rotation": rotation}}
    tables = {"user_counts": {"result_store": True}}
    made = deploy(settings(profile="production", pipelines=tables, **wanted), crds(tmp_path))
    assert "platform-root" not in made.engine.of("Secret"), "it is read, and not made"

    def derived(purpose: str, number: int = rotation) -> str:
        return derive(secret_value("root"), purpose, number)

    keys = made.secret("user-counts-object-store")["AWS_SECRET_ACCESS_KEY"]
    assert keys == derived("object-store/user_counts")
    assert made.secret(f"minio-users-{rotation}")["user_counts-0"] == derived("object-store/user_counts", 0)
    assert made.secret("user-counts-kafka")["password"] == derived("kafka/user_counts")
    assert made.secret("user-counts-result-store")["PGPASSWORD"] == derived("result-store/user_counts")
    assert made.secret("user-counts-spark")["page"] == derived("spark/user-counts/page")


@pytest.mark.parametrize("name", [*ALL])
def test_without_a_root_that_was_kept_it_is_refused_with_how_to_make_one(name: str) -> None:
    """No destroy left one where nothing was derived before."""
    there = There(LAPTOP, secrets=KEPT)
    (line,) = refusals(there, adopt_credentials=True, security={name: True})
    assert line.startswith("adopt_credentials: there is no Secret effectively-once/platform-root")
    assert "kubectl -n effectively-once create secret generic platform-root --from-literal=root=" in line
    require_same(settings(adopt_credentials=True, security=PLAIN), there.find)
    require_same(settings(security={name: True}), There(LAPTOP).find)


def test_a_root_that_is_there_will_do_whoever_made_it() -> None:
    require_same(settings(adopt_credentials=True, security=ALL), There(LAPTOP, secrets=KEPT | ROOT).find)


def test_each_password_that_is_gone_is_named() -> None:
    lines = refusals(There(LAPTOP), adopt_credentials=True, security=PLAIN)
    assert [line.partition(" to take over")[0] for line in lines] == [
        f"adopt_credentials: there is no Secret effectively-once/{name}" for name in KEPT
    ]
    assert all("leave adopt_credentials out" in line for line in lines)


def test_a_secret_without_its_keys_is_named_with_them_and_not_with_values() -> None:
    there = There(LAPTOP, secrets=KEPT | {"platform-root": ("seed",)})
    (line,) = refusals(there, adopt_credentials=True, security=ALL)
    assert line.startswith("adopt_credentials: Secret effectively-once/platform-root lacks root (it has: seed)")
    assert base64.b64encode(b"x").decode() not in line


def test_nothing_of_what_is_brought_is_looked_for() -> None:
    wanted = settings(adopt_credentials=True, security=PLAIN, **EXTERNAL)
    assert list_adopted(wanted) == {}
