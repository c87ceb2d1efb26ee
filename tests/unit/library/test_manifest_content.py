"""What a manifest tells of its files, what is missing, and which manifests without a checksum are still read."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from effectively_once.errors import SinkError
from effectively_once.ledger import checksum
from effectively_once.ledger.layout import Layout
from effectively_once.sinks import manifest
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.manifest_span import manifest_of
from tests.unit.ledger.memory_store import MemoryStore

LAYOUT = Layout("clicks")
TABLE = pa.table({"user": ["ann", "bob"], "n": [1, 2]})


@pytest.fixture
def store() -> MemoryStore:
    """Epochs 0 to 2 of one sink, two rows each."""
    made = MemoryStore()
    for epoch in range(3):
        ManifestSink(made, LAYOUT, "raw", partial(str, f"of-{epoch}")).publish(epoch, 7, TABLE)
    sink(made).stage(1, TABLE)  # nobody's
    return made


def sink(store: MemoryStore) -> ManifestSink:
    return ManifestSink(store, LAYOUT, "raw")


def test_a_manifest_tells_its_files_and_who_published_them(store: MemoryStore) -> None:
    name = LAYOUT.staged_file("raw", 1, "of-1")
    told = dict(sink(store).manifest(1) or {})
    assert told.pop("files") == [{"name": name, "rows": 2}]
    assert told.pop("digest").startswith("xxh3:")
    size = len(store.objects[name])
    assert told == {"epoch": 1, "generation": 7, "publication": "of-1", "rows": 2, "bytes": size}


def test_a_file_tells_what_a_disk_changed(store: MemoryStore) -> None:
    """A backup does not compare digests."""
    body = bytearray(store.objects[LAYOUT.staged_file("raw", 1, "of-1")])
    assert pq.read_table(pa.BufferReader(bytes(body)), page_checksum_verification=True).equals(TABLE)
    body[body.index(b"ann")] ^= 1
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(pa.BufferReader(bytes(body)), page_checksum_verification=True)


@pytest.mark.parametrize(("page_bytes", "values"), [(1 << 20, manifest.PAGE_VALUES), (26, 3), (4, 1)])
def test_a_page_of_a_file_is_bounded_by_values_and_by_bytes(
    page_bytes: int, values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here of ten rows of 8 bytes each. A writer that is not told writes pages of any size."""
    asked: list[Any] = []
    write = pq.write_table

    def note(table: pa.Table, into: pa.BufferOutputStream, **how: Any) -> None:
        asked.append(how["write_batch_size"])
        write(table, into, **how)

    monkeypatch.setattr(pq, "write_table", note)
    monkeypatch.setattr(manifest, "PAGE_BYTES", page_bytes)
    sink(MemoryStore()).stage(0, pa.table({"n": range(10)}))
    assert asked == [values]


def test_rows_are_read_from_an_epoch_on_and_what_is_missing_is_named(store: MemoryStore) -> None:
    rows = list(sink(store).rows(2, 1))
    assert [epoch for epoch, _, _ in rows] == [1, 1, 2, 2]
    assert [row for *_, row in rows] == TABLE.to_pylist() * 2
    file, manifest = LAYOUT.staged_file("raw", 2, "of-2"), LAYOUT.manifest("raw", 2)
    for gone, says in ((file, "a file that a manifest names is missing"), (manifest, "a manifest is missing")):
        del store.objects[gone]
        with pytest.raises(SinkError, match=rf"{says} .{gone}\)\. Restore it"):
            list(sink(store).rows(2))


@pytest.mark.parametrize(
    ("changes", "sealed", "reads"),
    [
        ({}, False, True),
        ({}, True, True),
        ({"later": 1}, True, True),
        ({"later": 1}, False, False),
        ({"digest": None}, True, False),
        ({"files": None}, True, False),
        ({"rows": None}, False, False),
    ],
)
def test_only_a_manifest_of_before_may_lack_its_checksum(
    changes: dict[str, Any], sealed: bool, reads: bool, store: MemoryStore
) -> None:
    """Those of before had these fields and no others; one that lost the name of its checksum has another."""
    fields = {**dict(sink(store).manifest(0) or {}), **changes}
    fields = {name: value for name, value in fields.items() if value is not None}
    body = checksum.seal(fields) if sealed else json.dumps(fields).encode()
    if reads:
        assert manifest_of(body, "here") == fields
        return
    with pytest.raises(SinkError, match=r"a manifest is damaged .here"):
        manifest_of(body, "here")


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}"])
def test_what_is_no_manifest_is_damaged(body: bytes, store: MemoryStore) -> None:
    key = LAYOUT.manifest("raw", 0)
    store.objects[key] = body
    with pytest.raises(SinkError, match=rf"a manifest is damaged \({key}"):
        sink(store).has(0)
    with pytest.raises(SinkError, match=rf"a manifest is damaged \({key}"):
        sink(store).publish(0, 8, TABLE)
