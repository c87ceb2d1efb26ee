"""A real object store with the users and policies of the chart: a pipeline has its folders, and nothing of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from effectively_once.errors import AccessError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, Found, Get, Put, run
from effectively_once.operate import grant_objects
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from infra.components import object_security
from infra.embedded.object_store import ObjectStore
from infra.toolchain.prepare import prepare
from infra.values.minio import MinioValues, Security
from tests.charts.render import render
from tests.charts.samples import IMAGE
from tests.infra.platform import settings as platform

pytestmark = pytest.mark.stack
PIPELINES = {"user_counts": {}, "clicks": {"job": "own.clicks", "topic": "clicks"}}
As = Callable[..., S3ObjectStore]


class Secured:
    """A store, and the command of the chart's Job with its file.

    Attributes:
        server: of the owner.
        bucket: of the pipelines.
        passwords: of each user.
    """

    def __init__(self, server: ObjectStore, folder: Path) -> None:
        self.server, self._folder = server, folder
        self.bucket = platform(pipelines=PIPELINES).object_store.bucket
        self.passwords: dict[str, str] = {}

    def give(self, patch: pytest.MonkeyPatch, rotation: int = 0, pipelines: Mapping[str, Any] = PIPELINES) -> int:
        """Give the rights of these pipelines, with a password for each user that is of its name; the exit code."""
        wanted = platform(security={"object_store": True, "rotation": rotation}, pipelines=pipelines)
        security = object_security.values(wanted)
        assert isinstance(security, Security)
        objects = render("minio", MinioValues(image=IMAGE, security=security).to_helm())
        told = json.loads(objects.one("ConfigMap", "minio-grants")["data"]["grants.json"])
        path, passwords = self._folder / "grants.json", self._folder / "passwords"
        path.write_text(json.dumps({**told, "endpoint": self.server.endpoint}))
        passwords.mkdir(exist_ok=True)
        self.passwords |= {user: f"password of {user}" for user in told["users"]}
        for user, password in self.passwords.items():
            (passwords / user).write_text(password)
        patch.setenv(ACCESS_KEY, self.server.access_key)
        patch.setenv(SECRET_KEY, self.server.secret_key)
        return grant_objects.main([str(path), f"--passwords={passwords}", "--deadline-s=60"])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured-store")
    server = ObjectStore(folder / "data", folder / "store.log", prepare().minio)
    server.start()
    yield Secured(server, folder)
    server.stop()


@pytest.fixture
def store_of(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> As:
    """Return the store as a user reaches it."""
    assert secured.give(monkeypatch) == 0

    def reach(user: str, password: str | None = None) -> S3ObjectStore:
        monkeypatch.setenv(ACCESS_KEY, user)
        monkeypatch.setenv(SECRET_KEY, password or secured.passwords[user])
        return S3ObjectStore(BucketAddress(secured.server.endpoint, secured.bucket))

    return reach


def test_a_pipeline_begins_its_chain_and_reads_lists_and_deletes_what_is_its_own(store_of: As) -> None:
    own, layout = store_of("clicks-0"), Layout("clicks")
    own.check(layout.head)
    assert run(chain.there(layout), own) is None
    own.answer(Put("clicks/deltas/one", b"1", None))
    assert isinstance(own.answer(Get("clicks/deltas/one")), Found)
    assert list(own.names("clicks/deltas/")) == ["clicks/deltas/one"]
    own.answer(Delete("clicks/deltas/one"))
    assert list(own.names("clicks/")) == []


@pytest.mark.parametrize(
    "key", ["user_counts/head.json", "clicks-2/head.json", "head.json", "spark-events/user-counts/a"]
)
def test_it_neither_reads_nor_writes_nor_deletes_anything_else(store_of: As, key: str) -> None:
    own = store_of("clicks-0")
    for request in (Get(key), Put(key, b"mine", None), Delete(key)):
        with pytest.raises(AccessError):
            own.answer(request)


@pytest.mark.parametrize("prefix", ["", "user_counts/", "click", "spark-events/"])
def test_it_lists_nothing_else(store_of: As, prefix: str) -> None:
    with pytest.raises(AccessError):
        list(store_of("clicks-0").names(prefix))


def test_a_wrong_key_is_refused_by_name(store_of: As) -> None:
    for user, password in (("clicks-0", "another's"), ("nobody-0", "any password")):
        with pytest.raises(AccessError):
            store_of(user, password).check(Layout("clicks").head)


def test_keys_of_before_are_good_for_one_rotation_and_who_is_no_more_is_taken_away(
    secured: Secured, store_of: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = Layout("clicks").head
    for number, good in ((1, ("clicks-0", "clicks-1")), (2, ("clicks-1", "clicks-2"))):
        assert secured.give(monkeypatch, number) == 0
        for user in good:
            store_of(user).check(head)
    with pytest.raises(AccessError):
        store_of("clicks-0").check(head)
    assert secured.give(monkeypatch, 2, {"user_counts": {}}) == 0
    with pytest.raises(AccessError):
        store_of("clicks-2").check(head)
    store_of("user_counts-2").check(Layout("user_counts").head)
