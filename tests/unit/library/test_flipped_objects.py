"""One flipped bit of any object that the chain names: a refusal by name that says what to do, never another output."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
import pytest

from effectively_once import as_shown, catalog, stable
from effectively_once.backup_manifest import BackupManifest, manifest_of
from effectively_once.columns import COORDINATES
from effectively_once.deltas import Named, ShardDeltas
from effectively_once.errors import PipelineError
from effectively_once.ledger import checksum
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore
from effectively_once.ledger.records import Delta, Span
from effectively_once.reader import files_of
from effectively_once.sinks import manifest_span
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.stable import RecordedStep
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import flipped

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
    store.objects[key] = manifest_span.encoded(made)
    return lambda: manifest_span.decoded(store.objects[key], bounds, key)


def recorded_output(store: MemoryStore) -> Read:
    """What a recorded step answered."""
    step = RecordedStep("look", lambda rows: rows.select(["value"]).rename_columns(["answer"]),
                        pa.schema([("answer", pa.int64())]))  # fmt: skip

    def read() -> Any:
        return stable.recorded(step, store, LAYOUT, epoch=3, shard=0, rows=ROWS)[0].to_pylist()

    read()
    return read


def coordinates(store: MemoryStore) -> Read:
    """Rows that a shard shows of an epoch that is repaired."""
    rows = pa.table([["events"] * 3, [0, 0, 1], [4, 5, 6]], schema=COORDINATES)
    shown = as_shown.write(store, "counts/repair/3-0", rows, Delta())
    return lambda: as_shown.read(store, shown).to_pylist()


def backup(store: MemoryStore) -> Read:
    """What makes a backup complete."""
    made = BackupManifest(pipeline="counts", taken_ms=5, head="{}", objects={}).digested()
    store.objects["backup.json"] = made.model_dump_json().encode()
    # A place is a store with a name.
    return lambda: manifest_of(cast(Any, store))


@pytest.mark.parametrize(
    "kind", [delta, span, manifest, span_of_manifests, recorded_output, coordinates, backup],
    ids=lambda kind: kind.__name__,
)  # fmt: skip
def test_a_flipped_bit_is_refused_by_name_or_changes_nothing(kind: Callable[[MemoryStore], Read]) -> None:
    """What a flip does not change is what the object says: padding, or how it is written."""
    store = MemoryStore()
    read = kind(store)
    (key,) = store.objects
    whole, want, refused = store.objects[key], read(), 0
    draw = random.Random(kind.__name__)
    for bit in draw.sample(range(8 * len(whole)), FLIPS):
        store.objects[key] = flipped(whole, bit)
        try:
            assert read() == want, bit
        except PipelineError as error:
            assert error.todo, bit
            assert any(word in str(error) for word in (key, "backup.json")), (bit, str(error))
            refused += 1
    assert refused > FLIPS / 4


@pytest.mark.parametrize("kind", [manifest, span_of_manifests, backup], ids=lambda kind: kind.__name__)
def test_of_an_object_of_json_every_flip_is_refused(kind: Callable[[MemoryStore], Read]) -> None:
    store = MemoryStore()
    read = kind(store)
    (key,) = store.objects
    whole = store.objects[key]
    for bit in random.Random(1).sample(range(8 * len(whole)), FLIPS):
        store.objects[key] = flipped(whole, bit)
        with pytest.raises(PipelineError):
            read()


def test_a_manifest_of_before_has_no_checksum_and_is_read() -> None:
    store = MemoryStore()
    ManifestSink(store, LAYOUT, "files").publish(0, 1, ROWS)
    key = LAYOUT.manifest("files", 0)
    content, sealed = checksum.opened(store.objects[key])
    assert sealed
    store.objects[key] = checksum.canonical(content)
    assert ManifestSink(store, LAYOUT, "files").manifest(0) == content
