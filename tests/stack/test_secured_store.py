"""A real object store with the certificate, users and policies of the chart: TLS alone, and to each its own folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3

from effectively_once.errors import AccessError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, Found, Get, Put, run
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once.store.s3_client import ACCESS_KEY, CERTIFICATES, SECRET_KEY
from infra.certificates import make_authority
from infra.embedded.ports import HOST
from infra.embedded.process import wait_for
from tests.drives import Drives
from tests.stack.secured_store import Secured, mount_certificates, secured_store

pytestmark = pytest.mark.stack
As = Callable[..., S3ObjectStore]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_store(tmp_path_factory.mktemp("secured-store")) as running:
        yield running


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


def test_who_believes_another_authority_is_refused_by_that(
    secured: Secured, store_of: As, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.crt"
    other.write_text(make_authority("another platform").certificate)
    monkeypatch.setenv(CERTIFICATES, str(other))
    with pytest.raises(AccessError, match=r"certificate of the object store is refused.*AWS_CA_BUNDLE"):
        store_of("clicks-0").check(Layout("clicks").head)
    assert secured.give(monkeypatch) == 0, "it is there all the same"


def test_a_host_that_the_certificate_is_not_for_is_refused_by_that(store_of: As) -> None:
    store = store_of("clicks-0")
    port = store.address.endpoint.rpartition(":")[2]
    elsewhere = S3ObjectStore(BucketAddress(f"https://store.example:{port}", store.address.bucket))
    connect = urllib3.util.connection.create_connection
    with pytest.MonkeyPatch.context() as patch:
        # Whatever that name leads to elsewhere, here it leads to the store.
        patch.setattr(
            urllib3.util.connection, "create_connection", lambda at, *more, **how: connect((HOST, at[1]), *more, **how)
        )
        with pytest.raises(AccessError, match="certificate of the object store is refused: Hostname mismatch"):
            elsewhere.check(Layout("clicks").head)


def test_a_plain_connection_is_refused_by_that(secured: Secured, store_of: As) -> None:
    plain = secured.server.endpoint.replace("https://", "http://")
    store = S3ObjectStore(BucketAddress(plain, store_of("clicks-0").address.bucket))
    for ask in (lambda: store.check(Layout("clicks").head), lambda: [*store.names("clicks/")]):
        with pytest.raises(AccessError, match="speaks TLS, and is asked without"):
            ask()


@pytest.mark.parametrize("believed", [True, False])
def test_drives_of_two_certificates_find_each_other_by_the_authority(tmp_path: Path, believed: bool) -> None:
    """While certificates are renewed nodes show different ones, and what a node shows itself it believes anyway."""
    authority = make_authority("a platform")
    for one in ("old", "new"):
        mount_certificates(tmp_path / one, authority, [HOST])
        if not believed:
            (tmp_path / one / "CAs" / "ca.crt").unlink()
    (tmp_path / "ca.crt").write_text(authority.certificate)
    drives = Drives(tmp_path, 4, authority=tmp_path / "ca.crt")

    def is_writable() -> bool:
        return drives.is_healthy(0, "cluster")

    def is_refused() -> bool:
        return any("unknown authority" in one.log.read_text() for one in drives.servers.values())

    try:
        for number in range(4):
            drives.start(number, "old" if number < 2 else "new")
        if believed:
            wait_for("four drives", 40.0, is_writable, drives.servers[0])
            return
        wait_for("a node that does not believe another", 40.0, is_refused, drives.servers[0])
        assert not is_writable()
    finally:
        drives.kill_all()
