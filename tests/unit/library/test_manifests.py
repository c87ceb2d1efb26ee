"""A sink of files: one attempt creates the manifest of an epoch, it tells all rows (R8), also from a span (R9)."""

from __future__ import annotations

import io
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from effectively_once.errors import SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Get
from effectively_once.sinks import manifest_span
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.manifest_span import allowed, bounds_of, decode, encode
from effectively_once.sinks.publish import Published
from tests.unit.ledger.memory_store import MemoryStore

LAYOUT = Layout("clicks")
FIELDS = {"files": [], "rows": 0, "digest": ""}
PARTS = [pa.table({"user": [f"u{n}", "v"], "n": [n, n]}) for n in range(3)]


def sink(store: MemoryStore) -> ManifestSink:
    return ManifestSink(store, LAYOUT, "raw")


def test_a_manifest_tells_the_rows_of_all_files() -> None:
    """A part without rows has none."""
    store = MemoryStore()
    files = [sink(store).stage(0, part) for part in (*PARTS, PARTS[0].slice(0, 0))]
    content, published = sink(store).publish_staged(0, 1, files)
    assert published is Published.NOW
    whole = pa.concat_tables(PARTS)
    assert (content.rows, content.digest) == (whole.num_rows, digest.of_rows_in(whole))
    assert content.bytes == sum(file.bytes for file in files)
    told = sink(store).manifest(0) or {}
    assert told["files"] == [{"name": file.name, "rows": file.rows} for file in files[:-1]]
    assert told.items() >= content.model_dump().items()
    assert [row for _, _, row in sink(store).rows(0)] == whole.to_pylist()


def test_a_repeat_stages_other_files_and_shows_the_first_ones() -> None:
    store = MemoryStore()
    first = sink(store).stage(0, PARTS[0])
    sink(store).publish_staged(0, 1, [first])
    again = sink(store).stage(0, PARTS[0])
    assert again.name != first.name
    assert sink(store).publish_staged(0, 2, [again])[1] is Published.BEFORE
    shown = sink(store).manifest(0)
    assert shown is not None
    assert ([file["name"] for file in shown["files"]], shown["generation"]) == ([first.name], 1)
    with pytest.raises(SinkError, match="epoch 0 is published with digest"):
        sink(store).publish_staged(0, 3, [sink(store).stage(0, PARTS[1])])


def test_of_two_attempts_without_rows_one_is_the_first() -> None:
    """Their manifests name no file; what tells them apart is who published."""
    numbers = itertools.count()
    store = MemoryStore()
    attempts = [ManifestSink(store, LAYOUT, "raw", lambda: f"attempt {next(numbers)}") for _ in range(2)]
    assert [attempt.publish_staged(0, 1, [])[1] for attempt in attempts] == [Published.NOW, Published.BEFORE]


def test_an_epoch_after_a_manifest_that_is_gone_is_refused() -> None:
    """The bucket was set back while a driver ran. Readers follow manifests without a gap and would never come to it."""
    store = MemoryStore()
    for epoch in range(3):
        sink(store).publish_staged(epoch, 1, [])
    del store.objects[LAYOUT.manifest("raw", 2)]
    with pytest.raises(SinkError, match="the manifest of epoch 2 is gone: the sink or the chain was recreated"):
        sink(store).publish_staged(3, 1, [])
    assert not sink(store).has(3)
    sink(store).publish_staged(2, 1, [])
    assert sink(store).publish_staged(3, 1, [])[1] is Published.NOW


@pytest.mark.parametrize(
    ("recorded", "floor", "may"),
    [(999, 1000, False), (1000, 1000, True), (1000, 999, False), (2000, 1000, True), (998, 1000, False)],
)
def test_a_span_may_be_made_of_what_is_below_the_floor_and_no_mark(recorded: int, floor: int, may: bool) -> None:
    """The manifest of the last recorded epoch is what a start looks for (R10)."""
    head = Head(pipeline="clicks", generation=1, owner="o", settings={}, last_recorded=recorded, floor=floor)
    assert allowed(head, (0, 999)) == may


def test_a_file_is_staged_whole_under_a_name_of_its_own_and_of_no_rows_there_is_none() -> None:
    store = MemoryStore()
    assert sink(store).stage(4, PARTS[0].slice(0, 0)).name is None
    assert store.objects == {}
    file = sink(store).stage(4, PARTS[0])
    ((name, body),) = store.objects.items()
    assert name.startswith("clicks/raw/data/000000004-")
    assert (file.name, file.rows, file.digest, file.bytes) == (name, 2, digest.of_rows_in(PARTS[0]), len(body))
    assert pq.read_table(io.BytesIO(body)) == PARTS[0]


def test_a_sink_that_is_new_to_a_chain_begins_where_it_is_and_any_other_is_refused_there() -> None:
    store = MemoryStore()
    with pytest.raises(SinkError, match="the manifest of epoch 4 is gone"):
        sink(store).publish_staged(5, 1, [])
    assert store.objects == {}
    assert sink(store).publish_staged(5, 1, [], begins=True)[1] is Published.NOW
    assert sink(store).publish(6, 1, PARTS[0])[1] is Published.NOW


def spans(monkeypatch: pytest.MonkeyPatch, compacted: list[tuple[int, int]]) -> MemoryStore:
    """Six epochs, each of a generation as its number; the manifests of some are in spans and nowhere else."""
    monkeypatch.setattr(manifest_span, "EPOCHS", 2)
    store = MemoryStore()
    for epoch in range(6):
        sink(store).publish(epoch, epoch, PARTS[epoch % 3])
    for bounds in compacted:
        manifests = {epoch: sink(store).manifest(epoch) or {} for epoch in bounds}
        store.objects[LAYOUT.manifests("raw", *bounds)] = encode(manifests)
        for epoch in bounds:
            del store.objects[LAYOUT.manifest("raw", epoch)]
    return store


@pytest.mark.parametrize("spanned", [False, True])
@pytest.mark.parametrize(
    ("last", "first", "epochs"), [(5, 0, [5, 4, 3, 2, 1, 0]), (5, 2, [5, 4, 3, 2]), (3, 3, [3]), (2, 3, [])]
)
def test_manifests_are_told_newest_first_from_spans_or_beside_them(
    last: int, first: int, epochs: list[int], spanned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = spans(monkeypatch, [(0, 1), (2, 3)] if spanned else [])
    shown = [*sink(store).newest_first(last, first)]
    assert [one.epoch for one in shown] == epochs
    assert [one.manifest and one.manifest["generation"] for one in shown] == epochs
    in_span = [one.key == LAYOUT.manifests("raw", *bounds_of(one.epoch)) for one in shown]
    assert in_span == [spanned and epoch < 4 for epoch in epochs]


@pytest.mark.parametrize("gone", [5, 3, 2, 0])
def test_nothing_is_told_behind_a_manifest_that_is_gone(gone: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = spans(monkeypatch, [])
    del store.objects[LAYOUT.manifest("raw", gone)]
    shown = [*sink(store).newest_first(5, 0)]
    assert [one.epoch for one in shown] == [*range(5, gone - 1, -1)]
    assert [(one.epoch, one.key) for one in shown if one.manifest is None] == [(gone, LAYOUT.manifest("raw", gone))]


def test_a_repeat_of_an_epoch_in_a_span_is_compared_with_it_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = spans(monkeypatch, [(2, 3)])
    for epoch in (2, 4):
        assert sink(store).publish(epoch, 9, PARTS[epoch % 3])[1] is Published.BEFORE
    with pytest.raises(SinkError, match="epoch 3 is published with digest"):
        sink(store).publish(3, 9, PARTS[2])
    for epoch in (2, 3):
        shown = sink(store).manifest(epoch)
        assert shown is not None
        assert shown["generation"] == epoch


def test_a_span_is_asked_for_once_and_spares_a_thousand_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one epoch the manifest comes first: it may be deleted once its span is there, and never before."""
    store = spans(monkeypatch, [(2, 3)])
    of_two, one = LAYOUT.manifests("raw", 2, 3), sink(store)
    manifests = [LAYOUT.manifest("raw", epoch) for epoch in range(4)]
    for telling, asked in (
        (lambda: one.manifest(2), [manifests[2], of_two]),
        (lambda: one.manifest(3), []),
        (lambda: [*one.newest_first(3, 2)], []),
        (lambda: [*sink(store).newest_first(3, 2)], [of_two]),
        (
            lambda: [*one.newest_first(1, 0)],
            [LAYOUT.manifests("raw", 0, 1), manifests[1], manifests[0], LAYOUT.manifests("raw", 0, 1)],
        ),
    ):
        store.requests.clear()
        assert telling()
        assert [request.key for request in store.requests if isinstance(request, Get)] == asked


def test_a_span_may_hold_spaces() -> None:
    manifests = {epoch: {"epoch": epoch, "publication": "by me", **FIELDS} for epoch in (2, 3)}
    assert decode(encode(manifests), (2, 3), "here") == manifests
