"""One flipped bit of any object that the chain names: a refusal by name that says what to do, never another output."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pyarrow as pa
import pytest

from effectively_once.driver import control
from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.epoch import as_shown, recorded, refusals
from effectively_once.errors import PipelineError, SinkError
from effectively_once.ledger import checksum, continuity
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.operate.backup.backup_manifest import BackupManifest, Copied, manifest_of, object_of
from effectively_once.pipeline.columns import COORDINATES
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.sinks import letter_records, manifest_span, reader
from effectively_once.sinks.dead_letters import Cut, DeadLetter
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.reader import files_of
from effectively_once.state import catalog
from effectively_once.state.deltas import Named, ShardDeltas
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration, flipped, record_of
from tests.unit.library.listed_store import ListedStore

LAYOUT = Layout("counts")
IDS = pa.table({"id": [f"id-{n}" for n in range(60)], "event_time_ms": [1000 * n for n in range(60)]}, catalog.SCHEMA)
ROWS = pa.table({"id": ["a", "b"], "value": [1, 2]})
FLIPS = 60
Read = Callable[[], Any]
"""Reads the one object of a store, as the product does."""


def _log(store: ObjectStore) -> ShardDeltas:
    return ShardDeltas(store, LAYOUT, catalog.KIND, 0, catalog.canonical)


def delta(store: MemoryStore) -> Read:
    """A delta of an epoch."""
    named = Named(3, _log(store).write(3, IDS))
    return lambda: _log(store).read(named).to_pylist()


def span(store: MemoryStore) -> Read:
    """Deltas of two epochs, merged."""
    log = _log(store)
    digest = ShardDeltas(MemoryStore(), LAYOUT, catalog.KIND, 0, catalog.canonical).write(0, IDS).digest
    log.create(LAYOUT.span(catalog.KIND, 2, 3, 0), IDS, digest)
    named = Named(3, Span(rows=IDS.num_rows, digest=digest, first=2, last=3))
    return lambda: log.read(named).to_pylist()


def manifest(store: MemoryStore) -> Read:
    """What makes an epoch visible on the object store."""
    ManifestSink(store, LAYOUT, "files").publish(0, 1, ROWS)
    for key in [key for key in store.objects if key.endswith(".parquet")]:
        del store.objects[key]
    key = LAYOUT.manifest("files", 0)

    def read() -> Any:
        found = ManifestSink(store, LAYOUT, "files").manifest(0)
        assert found is not None
        return found, files_of(found, key)

    return read


def span_of_manifests(store: MemoryStore) -> Read:
    """Manifests of many epochs in one object."""
    bounds = manifest_span.bounds_of(0)
    made = {n: {"epoch": n, "generation": 1, "files": [], "rows": 0, "digest": "0" * 32} for n in range(1000)}
    key = LAYOUT.manifests("files", *bounds)
    store.objects[key] = manifest_span.encode(made)
    return lambda: manifest_span.decode(store.objects[key], bounds, key)


def recorded_output(store: MemoryStore) -> Read:
    """What a recorded step answered."""
    step = RecordedStep(
        "look", lambda rows: rows.select(["value"]).rename_columns(["answer"]), pa.schema([("answer", pa.int64())])
    )

    def read() -> Any:
        return recorded.add_recorded(step, store, LAYOUT, epoch=3, shard=0, rows=ROWS)[0].to_pylist()

    read()
    return read


def coordinates(store: MemoryStore) -> Read:
    """Rows that a shard shows of an epoch that is repaired."""
    rows = pa.table([["events"] * 3, [0, 0, 1], [4, 5, 6]], schema=COORDINATES)
    shown = as_shown.write(store, "counts/repair/3-0", rows, Delta())
    return lambda: as_shown.read(store, shown).to_pylist()


def backup(store: MemoryStore) -> Read:
    """What makes a backup complete."""
    made = BackupManifest(pipeline="counts", taken_ms=5, head="{}", objects={}).add_digest()
    store.objects["backup.json"] = made.model_dump_json().encode()
    # A place is a store with a name.
    return lambda: manifest_of(cast(Any, store))


def copied(store: MemoryStore) -> Read:
    """An object of a backup."""
    store.objects["deltas/x"] = b"any bytes" * 9
    digest = hashlib.sha256(store.objects["deltas/x"]).hexdigest()
    made = BackupManifest(
        pipeline="counts", taken_ms=5, head="{}", objects={"deltas/x": Copied(bytes=81, sha256=digest)}
    )
    return lambda: object_of(cast(Any, store), made, "deltas/x")


def file(store: MemoryStore) -> Read:
    """A file of an object-store sink, as readers of its manifest read it."""
    ManifestSink(store, LAYOUT, "files", lambda: "f").publish(0, 1, ROWS)
    key = LAYOUT.manifest("files", 0)
    shown = manifest_span.manifest_of(store.objects.pop(key), key)
    return lambda: reader._table(store, shown, key, verify=True).to_pydict()


def refusals_of_tables(store: MemoryStore) -> Read:
    """What the tables of an epoch refuse of a shard, as its first step has recorded it."""
    key = LAYOUT.step_record(refusals.STEP, 3, 0)
    refused = {"events-0-7": "refused by table counts: check"}, {"counts": {("a", 60_000): "result refused: check"}}
    store.objects[key] = refusals.Refusals(*refused).encode()
    return lambda: refusals.Refusals.of(store.objects[key], key)


def wish(store: MemoryStore) -> Read:
    """What an operator asks of the drivers."""
    asked = control.Wish.make(control.State.DRAINING, {"events": {"0": (0, 30), "1": (0, 60)}})
    run(control.ask(LAYOUT, asked), store)
    return lambda: run(control.read(LAYOUT), store)


def record(store: MemoryStore) -> Read:
    """A refused record that is larger than a dead letter."""
    value = b"\xff" * 100
    sha256 = hashlib.sha256(value).hexdigest()
    key = letter_records.put(store, LAYOUT, 3, value, sha256)
    letter = DeadLetter("not_json", None, None, 3, ("events", 0, 7), Cut(bytes=100, sha256=sha256, key=key))
    return lambda: letter_records.read(store, letter)


FOLDER = LAYOUT.checkpoint("000001-abcd")
PLANNED = b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":5,"conf":{}}\n{"events":{"0":%d,"1":%d}}'
CHECKPOINT = {
    "metadata": b'{"id":"6d0b7a"}',
    "commits/6": b'v1\n{"nextBatchWatermarkMs":0}',
    "offsets/6": PLANNED % (70, 140),
    "offsets/7": PLANNED % (80, 160),
}


def _checkpoint(store: MemoryStore, name: str) -> Read:
    """One object of Spark's checkpoint, whose batch 7 no epoch covers yet, and where the next epoch begins."""
    tail = tuple(record_of(declaration(epoch)) for epoch in range(7))
    head = Head(pipeline="counts", generation=1, owner="o", settings={}, last_recorded=6, tail=tail)
    key = f"{FOLDER}/{name}"
    store.objects[key] = CHECKPOINT[name]

    def read() -> Any:
        whole = ListedStore()
        whole.objects = {f"{FOLDER}/{other}": body for other, body in CHECKPOINT.items()} | store.objects
        known = Checkpoint(cast(Any, whole), LAYOUT, "000001-abcd")
        known.check()
        if known.fits(head):
            ranges = known.ranges(7, {})
            assert continuity.classify(head, ranges, key) == "new"
            return {topic: {p: start for p, (start, _) in parts.items()} for topic, parts in ranges.items()}
        # A new lineage begins there.
        return continuity.ends(head)

    return read


OF_JSON = {
    "manifest": manifest,
    "span_of_manifests": span_of_manifests,
    "backup": backup,
    "refusals_of_tables": refusals_of_tables,
    "wish": wish,
}
KINDS: dict[str, Callable[[MemoryStore], Read]] = {
    **OF_JSON,
    "delta": delta,
    "span": span,
    "recorded_output": recorded_output,
    "coordinates": coordinates,
    "copied": copied,
    "file": file,
    "record": record,
    "offsets": partial(_checkpoint, name="offsets/7"),
    "offsets_before": partial(_checkpoint, name="offsets/6"),
    "commits": partial(_checkpoint, name="commits/6"),
    "name_of_query": partial(_checkpoint, name="metadata"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_refused_by_name_or_changes_nothing(kind: str) -> None:
    """What a flip does not change is what the object says: padding, or how it is written. In JSON nothing is."""
    store = MemoryStore()
    read = KINDS[kind](store)
    (key,) = store.objects
    whole, want, refused = store.objects[key], read(), 0
    draw = random.Random(kind)
    for bit in draw.sample(range(8 * len(whole)), FLIPS):
        store.objects[key] = flipped(whole, bit)
        try:
            assert read() == want, bit
        except PipelineError as error:
            assert error.todo, bit
            assert any(word in str(error) for word in (key, "backup.json", "/manifests/")), (bit, str(error))
            refused += 1
    assert refused == FLIPS if kind in OF_JSON else refused > FLIPS / 4


def test_a_manifest_of_before_has_no_checksum_and_is_read() -> None:
    store = MemoryStore()
    ManifestSink(store, LAYOUT, "files").publish(0, 1, ROWS)
    key = LAYOUT.manifest("files", 0)
    content, sealed = checksum.open_sealed(store.objects[key])
    assert sealed
    store.objects[key] = checksum.canonical(content)
    assert ManifestSink(store, LAYOUT, "files").manifest(0) == content


def test_a_backup_copies_no_file_whose_rows_a_flip_changed() -> None:
    """It compares no digests: the pages' checksums are what it has."""
    store, draw = MemoryStore(), random.Random(3)
    rows = pa.table({"value": [draw.getrandbits(62) for _ in range(2000)]})
    ManifestSink(store, LAYOUT, "files", lambda: "f").publish(0, 1, rows)
    key = LAYOUT.staged_file("files", 0, "f")
    whole, refused = store.objects[key], 0
    # The columns' values; what follows them describes them.
    for bit in draw.sample(range(8 * len(whole) * 8 // 10), FLIPS):
        try:
            assert reader.of_file(flipped(whole, bit), key, 2000).equals(rows), bit
        except SinkError as error:
            assert "Restore" in error.todo
            refused += 1
    assert refused > FLIPS / 2
