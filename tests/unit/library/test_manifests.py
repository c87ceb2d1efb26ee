"""A sink of files: the manifest of an epoch is created once, by one attempt, and tells all of its rows (R8)."""

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
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.manifest_span import allowed
from effectively_once.sinks.publish import Published
from tests.unit.ledger.memory_store import MemoryStore

LAYOUT = Layout("clicks")
PARTS = [pa.table({"user": [f"u{n}", "v"], "n": [n, n]}) for n in range(3)]


def sink(store: MemoryStore) -> ManifestSink:
    return ManifestSink(store, Layout("clicks"), "raw")


def test_a_manifest_tells_the_rows_of_all_files() -> None:
    store = MemoryStore()
    content, published = sink(store).publish_staged(0, 1, [sink(store).stage(0, part) for part in PARTS])
    assert published is Published.NOW
    whole = pa.concat_tables(PARTS)
    assert (content.rows, content.digest) == (whole.num_rows, digest.of_rows_in(whole))
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
    attempts = [ManifestSink(store, Layout("clicks"), "raw", lambda: f"attempt {next(numbers)}") for _ in range(2)]
    assert [attempt.publish_staged(0, 1, [])[1] for attempt in attempts] == [Published.NOW, Published.BEFORE]


def test_an_epoch_after_a_manifest_that_is_gone_is_refused() -> None:
    """The bucket was set back while a driver ran. Readers follow manifests without a gap and would never come to it."""
    store = MemoryStore()
    for epoch in range(3):
        sink(store).publish_staged(epoch, 1, [])
    del store.objects[Layout("clicks").manifest("raw", 2)]
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
