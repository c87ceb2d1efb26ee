"""A reader, two compactions and a driver that was replaced, in every order of their requests (R9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from effectively_once.errors import SinkError
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, Step, body_of, create_once, run
from effectively_once.ledger.rows import Rows
from effectively_once.operate.retention.compaction import delete_beside, write_span
from effectively_once.sinks import manifest_span, reader
from effectively_once.sinks.manifest import ManifestSink, Shown
from effectively_once.sinks.publish import Published
from effectively_once.sinks.staged import StagedFile
from tests.model.asked import asking
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.library.interleaved import Actor, every_order

LAYOUT, SINK = Layout("clicks"), "totals"
SPANNED = (0, 1)
PRODUCT = manifest_span.EPOCHS
HEAD = Head(pipeline="clicks", generation=1, owner="a", settings={}, last_recorded=3, floor=2)
ROWS = [3, 0, 1, 4]
"""Rows of each epoch; the second was abandoned, or is of no rows."""


@pytest.fixture(autouse=True, scope="module")
def _two_epochs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_span, "EPOCHS", 2)
        yield


def of_rows(epoch: int, number: int) -> list[StagedFile]:
    if not number:
        return []
    return [StagedFile(name=LAYOUT.staged_file(SINK, epoch, f"of-{number}"), rows=number, digest=f"xxh3:{number:032x}")]


def publish(store: ObjectStore, epoch: int, number: int, by: str) -> tuple[Rows, Published]:
    return ManifestSink(store, LAYOUT, SINK, lambda: by).publish_staged(epoch, 1, of_rows(epoch, number))


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    store = MemoryStore()
    for epoch, number in enumerate(ROWS):
        publish(store, epoch, number, "first")
    store.objects[LAYOUT.head] = HEAD.encode()
    return store.objects


def compaction() -> Step[bool]:
    """What `compact_group` does; the chain stays."""
    done = yield from write_span(LAYOUT, SINK, HEAD, SPANNED)
    if done:
        yield from delete_beside(LAYOUT, SINK, SPANNED)
    return done


def reading() -> Step[list[tuple[int, int]]]:
    """Rows by epoch, as a reader that pinned the head sees them."""

    def read(store: ObjectStore) -> list[tuple[int, int]]:
        found = reader.read_kept(store, LAYOUT, SINK, HEAD, 0)
        return [(epoch, manifest["rows"]) for epoch, manifest in found.manifests.items()]

    return asking(read)


def asking_for(epoch: int) -> Actor:
    return lambda: asking(lambda store: (ManifestSink(store, LAYOUT, SINK).manifest(epoch) or {}).get("rows"))


def replaced(epoch: int, number: int) -> Actor:
    """A driver that was replaced publishes an epoch that has long been recorded."""
    return lambda: asking(lambda store: publish(store, epoch, number, "replaced")[1])


def shown(objects: dict[str, bytes]) -> list[tuple[int, int]]:
    store = MemoryStore()
    store.objects = objects
    return list(run(reading(), store))


EXPECTED = list(enumerate(ROWS))


def test_a_reader_sees_the_same_rows_whatever_comes_between_its_requests(objects: dict[str, bytes]) -> None:
    ends = 0
    for after, (rows, done, _) in every_order(objects, [reading, compaction, replaced(1, 7)]):
        assert rows == EXPECTED
        assert done is True
        assert shown(after) == EXPECTED
        ends += 1
    assert ends > 20, "the orders differ in nothing"


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_reader_of_one_epoch_does_too(objects: dict[str, bytes], epoch: int) -> None:
    for _, (rows, _, _) in every_order(objects, [asking_for(epoch), compaction, replaced(epoch, 7)]):
        assert rows == ROWS[epoch]


def test_a_repeat_below_the_floor_is_refused_or_finds_its_own_rows_whenever_it_comes(objects: dict[str, bytes]) -> None:
    other, same = set(), set()
    for _, (_, with_other, with_same) in every_order(objects, [compaction, replaced(1, 7), replaced(0, 3)]):
        other.add(type(with_other))
        same.add(with_same)
    assert other == {SinkError}
    assert same == {Published.BEFORE}


def test_manifests_of_a_span_are_no_gap_for_the_epoch_after_it(objects: dict[str, bytes]) -> None:
    """They went lawfully: an epoch of the span is a repeat, the one after it is published."""
    store = MemoryStore()
    store.objects = dict(objects)
    assert run(compaction(), store)
    for epoch in (2, 3):
        del store.objects[LAYOUT.manifest(SINK, epoch)]
    assert publish(store, 1, ROWS[1], "later")[1] is Published.BEFORE
    assert publish(store, 2, ROWS[2], "later")[1] is Published.NOW


def test_two_compactions_make_one_span(objects: dict[str, bytes]) -> None:
    key = LAYOUT.manifests(SINK, *SPANNED)
    bodies = set()
    for after, (first, second, _) in every_order(objects, [compaction, compaction, replaced(1, 7)]):
        assert (first, second) == (True, True)
        assert shown(after) == EXPECTED
        bodies.add(after[key])
    assert len(bodies) == 1


def backwards() -> Step[bool]:
    """Delete first."""
    yield from delete_beside(LAYOUT, SINK, SPANNED)
    return (yield from write_span(LAYOUT, SINK, HEAD, SPANNED))


class SpanFirst(ManifestSink):
    """Asks for the span once, before the manifests."""

    _asked: Any = ()

    def _read_shown(self, epochs: Sequence[int]) -> list[Shown]:
        self._asked = super()._span_of(epochs[0])
        return super()._read_shown(epochs)

    def _span_of(self, epoch: int) -> Any:
        return self._asked


class ManifestFirst(ManifestSink):
    """Takes a manifest that is there for the word on its epoch."""

    def _read_shown(self, epochs: Sequence[int]) -> list[Shown]:
        shown = []
        for epoch in epochs:
            body = run(body_of(LAYOUT.manifest(SINK, epoch)), self._store)
            alone = None if body is None else Shown(epoch, "", manifest_span.manifest_of(body, ""))
            shown.append(alone or super()._read_shown([epoch])[0])
        return shown


class Unguarded(ManifestSink):
    """Publishes without asking for a span."""

    def _span_of(self, epoch: int) -> Any:
        return None


@pytest.mark.parametrize(
    ("other", "less", "wrong"), [(SpanFirst, [(2, 1), (3, 4)], (1, 7)), (ManifestFirst, None, (1, 7))]
)
def test_to_read_in_another_order_shows_what_was_not_published_or_misses_what_was(
    objects: dict[str, bytes], other: type[ManifestSink], less: Any, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "ManifestSink", other)
    seen = [rows for _, (rows, *_) in every_order(objects, [reading, compaction, replaced(1, 7)])]
    assert any(wrong in rows for rows in seen), "what a replaced driver created"
    assert less is None or less in seen


def test_to_delete_before_the_span_is_there_loses_epochs(objects: dict[str, bytes]) -> None:
    wrong = [rows for _, (rows, _) in every_order(objects, [reading, backwards]) if rows != EXPECTED]
    assert [(2, 1), (3, 4)] in wrong


def test_to_publish_without_asking_for_the_span_takes_a_repeat_for_the_first(objects: dict[str, bytes]) -> None:
    def unguarded() -> Step[Published]:
        return asking(lambda store: Unguarded(store, LAYOUT, SINK).publish_staged(0, 1, of_rows(0, 7))[1])

    ends = {end for _, (_, end) in every_order(objects, [compaction, unguarded]) if isinstance(end, Published)}
    assert ends == {Published.NOW}


def head(**changes: Any) -> Head:
    return HEAD.model_copy(update=changes)


@pytest.mark.parametrize(
    "refused",
    [head(floor=1), head(last_recorded=0, floor=9), head(last_recorded=1, floor=2)],
    ids=["not all below the floor", "not recorded", "the last recorded, which is the mark"],
)
def test_a_span_that_the_head_does_not_allow_is_refused_and_nothing_is_asked(
    objects: dict[str, bytes], refused: Head
) -> None:
    store = MemoryStore()
    store.objects = dict(objects)
    with pytest.raises(SinkError, match="epochs 0 to 1 of sink totals are not all recorded and below the floor"):
        run(write_span(LAYOUT, SINK, refused, SPANNED), store)
    assert (store.objects, store.requests) == (objects, [])


def _lines(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.splitlines()]


Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda body: body[: body.index(b"\n")], "does not hold epochs 0 to 1"),
        (lambda body: body + b"\n" + body, "does not hold epochs 0 to 1"),
        (lambda body: b"\n".join(reversed(body.split(b"\n"))), "a manifest is damaged, that of epoch 0"),
        (lambda body: body[:-9], "a manifest is damaged, that of epoch 1"),
        (lambda body: body.replace(b'"rows":3', b'"rows":4'), "a manifest is damaged, that of epoch 0"),
        (lambda _: b"", "does not hold epochs 0 to 1"),
    ],
)
def test_a_damaged_span_is_named_and_nothing_is_deleted(objects: dict[str, bytes], damage: Damage, said: str) -> None:
    store = MemoryStore()
    store.objects = dict(objects)
    assert run(write_span(LAYOUT, SINK, HEAD, SPANNED), store)
    key = LAYOUT.manifests(SINK, *SPANNED)
    assert _lines(store.objects[key]) == [json.loads(objects[LAYOUT.manifest(SINK, epoch)]) for epoch in SPANNED]
    store.objects[key] = damage(store.objects[key])
    before = dict(store.objects)
    for step in (compaction(), reading()):
        with pytest.raises(SinkError, match=f"{said} .{key}.*backup"):
            run(step, store)
    assert store.objects == before


def test_a_span_of_somebody_else_is_read_before_anything_is_deleted(objects: dict[str, bytes]) -> None:
    key, ends = LAYOUT.manifests(SINK, *SPANNED), set()
    for after, (end, held) in every_order(objects, [compaction, lambda: create_once(key, b"not a span")]):
        ends.add(type(end))
        if held == b"not a span":
            assert isinstance(end, SinkError)
            assert {LAYOUT.manifest(SINK, epoch) for epoch in SPANNED} <= after.keys()
    assert ends == {bool, SinkError}


def test_bounds_are_arithmetic_and_those_of_the_product_stay_what_they_are() -> None:
    assert [manifest_span.bounds_of(epoch) for epoch in (0, 1, 2, 5)] == [(0, 1), (0, 1), (2, 3), (4, 5)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_span, "EPOCHS", PRODUCT)
        name = LAYOUT.manifests(SINK, *manifest_span.bounds_of(1999))
    assert name == "clicks/totals/manifests/000001000-000001999.json", "spans that are there would not be found"
