"""Spark's checkpoint before a driver goes on with it: what cannot be read is named, with what to do about it."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.errors import CheckpointError
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Answer, Request
from effectively_once.store.object_store import S3ObjectStore
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.listed_store import ListedStore

LINEAGE = "000001-abcd"
FOLDER = Layout("clicks").checkpoint(LINEAGE)
WHOLE = {
    "metadata": b'{"id": "x"}',
    "offsets/0": b'v1\n{"batchWatermarkMs": 0, "conf": {}}\n{"events": {"0": 5}}',
    "offsets/1": b'v1\n{"batchWatermarkMs": 0, "conf": {}}\n{"events": {"0": 9}}',
    "commits/0": b'v1\n{"nextBatchWatermarkMs": 0}',
}


def checkpoint(**changed: bytes | None) -> Checkpoint:
    """One that fits, but for objects with other content, or without some."""
    store = ListedStore()
    for name, body in {**WHOLE, **changed}.items():
        if body is not None:
            store.objects[f"{FOLDER}/{name}"] = body
    return Checkpoint(cast(S3ObjectStore, store), Layout("clicks"), LINEAGE)


def test_a_whole_checkpoint_and_one_that_never_was_are_gone_on_with() -> None:
    checkpoint().check()
    assert checkpoint().offsets(1) == {"events": {"0": 9}}
    checkpoint(**dict.fromkeys(WHOLE)).check()


class Awaiting(ListedStore):
    """Has two who read wait for each other."""

    def __init__(self) -> None:
        super().__init__()
        self._both_read = threading.Barrier(2)

    def answer(self, request: Request) -> Answer:
        self._both_read.wait(20.0)
        return super().answer(request)


def test_a_batch_lies_between_two_offsets_that_are_read_at_once() -> None:
    """Were one read after the other, the first reader would wait for ever."""
    store = Awaiting()
    store.objects = {f"{FOLDER}/{name}": body for name, body in WHOLE.items()}
    found = Checkpoint(cast(S3ObjectStore, store), Layout("clicks"), LINEAGE)
    assert found.ranges(1, {"events": {"0": 2}}) == {"events": {"0": (5, 9)}}
    assert checkpoint().ranges(0, {"events": {"0": 2}}) == {"events": {"0": (2, 5)}}


GARBLED: list[tuple[str, bytes | None]] = [
    ("offsets/1", b'v1\n{"cut'),
    ("offsets/1", b"\x00\xff"),
    ("offsets/1", b'v2\n{}\n{"events": {"0": 9}}'),
    ("offsets/0", b"v1\n{}\n[]"),
    ("commits/0", b"nonsense"),
    ("commits/0", b"v1\n[]"),
    ("metadata", b"{]"),
    ("metadata", b"[]"),
    ("metadata", None),
    ("metadata", b'{"ie": "x"}'),
    ("offsets/1", b'v1\n{"batchWatermarkMs": 0,\n{"events": {"0": 9}}'),
    ("offsets/1", b'v1\n[]\n{"events": {"0": 9}}'),
]


@pytest.mark.parametrize(("name", "content"), GARBLED)
def test_what_cannot_be_read_is_named_with_what_to_delete(name: str, content: bytes | None) -> None:
    with pytest.raises(CheckpointError, match=r"^a checkpoint object cannot be read: ") as refused:
        checkpoint(**{name: content}).check()
    assert refused.value.where == f"{FOLDER}/{name}"
    assert refused.value.todo.startswith(f"Delete the folder {FOLDER} (never head.json)")


@pytest.mark.parametrize(
    ("lineage", "ends", "fits"),
    [
        (LINEAGE, 9, True),
        (LINEAGE, 5, True),
        (LINEAGE, 10, False),
        ("000002-abcd", 9, False),
    ],
)
def test_a_checkpoint_fits_that_ends_where_the_chain_does_or_one_batch_later(
    lineage: str, ends: int, fits: bool
) -> None:
    """Any other would have Spark plan ranges that do not adjoin; so would that of another lineage."""
    pinned = declaration(0, {"events": {"0": (0, ends)}}).model_copy(update={"lineage": lineage})
    head = Head(pipeline="clicks", generation=1, owner="o", settings={}, last_recorded=0, tail=(record_of(pinned),))
    assert checkpoint().fits(head) == fits
    later = {f"offsets/{batch}": b'v1\n{}\n{"events": {"0": %d}}' % (9 + batch) for batch in (2, 3)}
    assert not checkpoint(**later).fits(head), "it goes on for two batches more"
    assert not checkpoint().fits(head.model_copy(update={"tail": ()}))
    assert not checkpoint().fits(head, 2), "Spark would refuse it"


def test_a_batch_of_several_sources_ends_where_all_of_them_do() -> None:
    both = {f"offsets/{batch}": b'v1\n{}\n{"a": {"0": %d}}\n{"b": {"0": 3}}' % (4 + batch) for batch in (0, 1)}
    found = checkpoint(**both)
    assert found.ranges(1, {}) == {"a": {"0": (4, 5)}, "b": {"0": (3, 3)}}
    pinned = declaration(0, {"a": {"0": (4, 5)}, "b": {"0": (3, 3)}}).model_copy(update={"lineage": LINEAGE})
    head = Head(pipeline="clicks", generation=1, owner="o", settings={}, last_recorded=0, tail=(record_of(pinned),))
    assert [found.fits(head, sources) for sources in (1, 2, 3)] == [False, True, False]
