"""Digests that older versions wrote stay good: each is compared with what the same rows come to in its own form."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from effectively_once.epoch import as_shown
from effectively_once.errors import ChainError, PipelineError, SinkError
from effectively_once.ledger import checksum, digest, former_digest
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.hashes import U64, of_ids
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.rows import Rows
from effectively_once.operate.retention import compaction
from effectively_once.pipeline.columns import COORDINATES
from effectively_once.sinks import reader
from effectively_once.sinks.kafka import ShardSink
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import Mark, Published
from effectively_once.state import catalog, merge
from effectively_once.state.deltas import Named, ShardDeltas
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.kafka_shard_stub import ADDRESS, Producer
from tests.unit.library.test_deltas import ids
from tests.unit.library.test_kafka_commit import ROWS

LAYOUT = Layout("clicks")


def _log(store: MemoryStore) -> ShardDeltas:
    return ShardDeltas(store, LAYOUT, catalog.KIND, 0, catalog.canonical)


def _as_before(delta: Delta, table: pa.Table) -> Delta:
    return delta.model_copy(update={"digest": former_digest.of_rows_in(table)})


def _named(store: MemoryStore, former: int) -> list[Named]:
    """Four deltas, the first ones of an older version."""
    found = []
    for epoch in range(4):
        table = ids(f"a{epoch}", f"b{epoch}")
        delta = _log(store).write(epoch, table)
        found.append(Named(epoch, _as_before(delta, table) if epoch < former else delta))
    return found


def test_a_delta_is_read_by_its_own_digest() -> None:
    store = MemoryStore()
    (first, *_) = _named(store, 1)
    assert _log(store).read(first).equals(ids("a0", "b0"))
    other = Named(0, _as_before(Delta(rows=2), ids("a0", "other")))
    with pytest.raises(ChainError, match="its rows are not those the chain names"):
        _log(store).read(other)


def test_deltas_of_one_form_are_merged_and_of_two_forms_are_not() -> None:
    store = MemoryStore()
    span = merge.merge_oldest(_log(store), _named(store, 4), fan=4, readers=1)
    whole = pa.concat_tables([ids(f"a{n}", f"b{n}") for n in range(4)])
    assert isinstance(span, Span)
    assert span.digest == former_digest.of_rows_in(whole)
    assert _log(store).read(Named(3, span)).equals(whole)
    # Another driver finds it there, as an object of other bytes and of the same rows.
    key = LAYOUT.span(catalog.KIND, 0, 3, 0)
    assert _log(store).create(key, pa.Table.from_batches(whole.to_batches()[::-1]), span.digest)[1] == span.digest
    for former in (1, 2, 3):
        assert merge.merge_oldest(_log(MemoryStore()), _named(MemoryStore(), former), fan=4, readers=1) is None


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """A broker whose shard shows epoch 0, published by an older version."""
    mark = Mark(0, 1, len(ROWS), former_digest.of_rows([value for _, value in ROWS]))
    return Producer.installed(monkeypatch, mark)


def test_a_repeat_of_what_an_older_version_published_is_known_by_its_mark(shown: Producer) -> None:
    assert ShardSink(ADDRESS).publish(0, 2, ROWS)[1] is Published.BEFORE
    with pytest.raises(SinkError, match="epoch 0 is published with digest"):
        ShardSink(ADDRESS).publish(0, 2, ROWS[1:])
    assert shown.committed == []
    assert ShardSink(ADDRESS).publish(1, 2, ROWS)[1] is Published.NOW


PART = pa.table({"user": ["ann", "bob"], "n": [1, 2]})


def _manifest_of_before(store: MemoryStore) -> tuple[ManifestSink, str]:
    sink = ManifestSink(store, LAYOUT, "raw")
    sink.publish(0, 1, PART)
    key = LAYOUT.manifest("raw", 0)
    content = json.loads(store.objects[key]) | {"digest": former_digest.of_rows_in(PART)}
    store.objects[key] = checksum.seal({name: it for name, it in content.items() if name != checksum.FIELD})
    return sink, key


def test_a_repeat_of_files_is_known_by_a_manifest_of_an_older_version() -> None:
    sink, _ = _manifest_of_before(MemoryStore())
    assert sink.publish(0, 2, PART)[1] is Published.BEFORE
    with pytest.raises(SinkError, match="epoch 0 is published with digest"):
        sink.publish(0, 3, PART.slice(0, 1))
    with pytest.raises(SinkError, match="epoch 0 is published with digest"):
        sink.publish(0, 3, pa.table({"user": ["ann", "bob"], "n": [1, 3]}))


def test_a_reader_verifies_a_manifest_by_its_own_form() -> None:
    store = MemoryStore()
    _, key = _manifest_of_before(store)
    manifest = json.loads(store.objects[key])
    assert reader._table(store, manifest, key, verify=True).equals(PART)
    wrong = manifest | {"digest": former_digest.of_rows_in(PART.slice(1))}
    with pytest.raises(PipelineError, match="do not hold the rows"):
        reader._table(store, wrong, key, verify=True)


def test_a_manifest_whose_epoch_two_versions_published_is_compacted_by_its_rows() -> None:
    """The older one made it visible, this one recorded the epoch."""
    store = MemoryStore()
    sink, _ = _manifest_of_before(store)
    manifest = sink.manifest(0)
    assert manifest is not None
    for rows, told, refused in (
        (2, digest.of_rows_in(PART), False),
        (2, former_digest.of_rows_in(PART), False),
        (3, digest.of_rows_in(PART), True),
        (2, "1" * 32, True),
    ):
        record = record_of(declaration(0)).model_copy(update={"sinks": {"raw": {"0": Rows(rows=rows, digest=told)}}})
        if refused:
            with pytest.raises(SinkError, match="not of the rows that were recorded"):
                compaction._refuse_another(record, LAYOUT, "raw", manifest)
        else:
            compaction._refuse_another(record, LAYOUT, "raw", manifest)


def test_what_a_repair_pinned_is_read_by_its_own_form() -> None:
    store = MemoryStore()
    rows = pa.table({field.name: [None] for field in COORDINATES}, schema=COORDINATES)
    pinned = as_shown.write(store, "shown", rows, None)
    before = pinned.model_copy(update={"digest": former_digest.of_rows_in(rows)})
    assert as_shown.read(store, before).equals(as_shown.read(store, pinned))
    with pytest.raises(ChainError, match="not those that were pinned"):
        as_shown.read(store, AsShown(rows=1, digest="1" * 32, key="shown"))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[pa.DataType]:
    """Types of the arrays whose values are hashed."""
    types: list[pa.DataType] = []

    def note(values: pa.Array) -> U64:
        types.append(values.type)
        return of_ids(values)

    monkeypatch.setattr(former_digest, "of_ids", note)
    return types


def test_messages_of_a_shard_are_hashed_as_one_array_however_long_they_are(hashed: list[pa.DataType]) -> None:
    """Arrow would make several of bytes that it is told no type of, and they have no offsets together."""
    former_digest.of_rows([b"one", b"two"])
    assert hashed == [pa.large_binary()]


@pytest.mark.parametrize(("wide", "narrow"), [(pa.large_string(), pa.string()), (pa.large_binary(), pa.binary())])
def test_a_column_that_was_made_wide_stays_so_and_has_the_digest_of_a_narrow_one(
    wide: pa.DataType, narrow: pa.DataType, hashed: list[pa.DataType]
) -> None:
    values = [b"a", None, b"", b"long enough"]
    digests = {former_digest.of_rows_in(pa.table({"v": pa.array(values, kind)})) for kind in (wide, narrow)}
    assert hashed[0] == pa.large_binary()
    assert len(digests) == 1
