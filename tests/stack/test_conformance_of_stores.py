"""What every store that is had keeps of what the chain needs; docs/reference/stores.md has to say the same."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from minio.commonconfig import ENABLED
from minio.versioningconfig import VersioningConfig

from effectively_once.errors import StoreError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, ObjectStore, Put, Written
from effectively_once.store.folder_store import FolderStore
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once.store.probe import StoreProbe
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import CHECKOUT
from tests.fake_s3 import Lack, fake_s3
from tests.unit.ledger import store_contract

pytestmark = pytest.mark.stack

WRITERS, ROUNDS = 16, 5
PAGE = CHECKOUT / "docs" / "reference" / "stores.md"
ROW = re.compile(r"^\| (?P<store>[^|]+?) \| [^|]* \| (?P<cells>(?:(?:yes|no) \| ){6}).*$", re.MULTILINE)


def one_of_many_wins(store: ObjectStore, key: str) -> None:
    """Of many writers that create one name at once exactly one is told that it did, and its content is there."""
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS):
            together = threading.Barrier(WRITERS)

            def create(writer: int, name: str = f"{key}/{number}", together: threading.Barrier = together) -> bool:
                together.wait(30)
                return isinstance(store.answer(Put(name, b"%d" % writer, None)), Written)

            winners = [writer for writer, won in enumerate(pool.map(create, range(WRITERS))) if won]
            found = store.answer(Get(f"{key}/{number}"))
            assert isinstance(found, Found)
            assert [found.body] == [b"%d" % winner for winner in winners]


def a_driver_starts(store: ObjectStore, key: str) -> None:
    """Pass what a start tries."""
    StoreProbe(store, "store", Layout(key)).run()


CLAUSES: tuple[Callable[[ObjectStore, str], None], ...] = (
    store_contract.creates_once,
    store_contract.replaces_what_was_read,
    store_contract.forgets_what_is_deleted,
    store_contract.keeps_every_byte,
    one_of_many_wins,
    a_driver_starts,
)
"""In the order of the page's columns."""


@contextmanager
def opened(name: str, stack: EmbeddedStack, folder: Path) -> Iterator[ObjectStore]:
    """Open a store by the name that the page has for it."""
    if name == "a local folder":
        yield FolderStore(folder)
    elif name.startswith("MinIO"):
        bucket, client = f"test-{uuid.uuid4().hex}", stack.object_store.client()
        client.make_bucket(bucket)
        if name == "MinIO, versioned bucket":
            client.set_bucket_versioning(bucket, VersioningConfig(ENABLED))
        yield S3ObjectStore(BucketAddress(stack.endpoints.s3_endpoint, bucket))
    else:
        with fake_s3(Lack(name.removeprefix("fake: "))) as (endpoint, _):
            yield S3ObjectStore(BucketAddress(endpoint, "bucket"), patience_s=1.0)


def holds(clause: Callable[[ObjectStore, str], None], store: ObjectStore) -> str:
    """Say whether a store keeps a clause, as the page says it."""
    try:
        clause(store, clause.__name__)
    except (AssertionError, NotImplementedError, StoreError):
        return "no"
    return "yes"


def on_the_page() -> dict[str, list[str]]:
    """Read the page's table of the stores that tests can start."""
    part = PAGE.read_text().partition("## Stores that tests start")[2].partition("\n## ")[0]
    return {row["store"]: row["cells"].removesuffix(" | ").split(" | ") for row in ROW.finditer(part)}


@pytest.mark.parametrize(
    "name",
    [
        "a local folder",
        "MinIO",
        "MinIO, versioned bucket",
        *(f"fake: {lack}" for lack in Lack if lack not in (Lack.CONFLICTS, Lack.FULL)),
    ],
)
def test_the_page_says_what_a_store_keeps(name: str, stack: EmbeddedStack, tmp_path: Path) -> None:
    with opened(name, stack, tmp_path) as store:
        assert on_the_page().get(name) == [holds(clause, store) for clause in CLAUSES]
