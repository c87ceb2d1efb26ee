"""Rows of a shard with more text than one array of Arrow's takes are decided and published as any others."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from effectively_once import Count, Pipeline, RecordedStep, ToFiles, ToKafka, ToTable, Windowed, long_texts
from effectively_once.ledger import column_digest, digest
from effectively_once.ledger.hashes import of_ids
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import body_of, run
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.sinks import manifest
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.state import catalog, sums
from effectively_once.state.lateness import Windows
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.library.one_epoch import Place, table

LIMIT = 100
COLUMNS = pa.schema([("user", pa.string()), ("amount", pa.int64()), ("payload", pa.string())])
PIPELINE = Pipeline(
    lambda frame: frame,
    COLUMNS,
    rows=(ToTable("orders"), ToKafka("accepted")),
    window_ms=100,
    lateness_ms=0,
    windows=(Windowed("user", {"n": Count()}, ToTable("per_user")),),
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an array take LIMIT bytes of text."""
    monkeypatch.setattr(long_texts, "ARRAY_BYTES", LIMIT)


def rows() -> pa.Table:
    """Thirty rows in another order than that of their source, copies and dead letters among them."""
    given = [
        {
            "id": f"{number % 20}" + "i" * 20,
            "offset": 29 - number,
            "user": f"{number % 7}" + "u" * 30,
            "payload": "p" * number,
            "reason": "bad" if number % 5 == 0 else None,
            "value": b"v" * number if number % 5 == 0 else None,
        }
        for number in range(30)
    ]
    return table(given, PIPELINE)


def text_of(chunk: pa.Array) -> int:
    return sum(len(value.as_buffer()) for value in chunk if value.is_valid)


def arrays(found: pa.Table) -> list[pa.Array]:
    """Arrays of text of a table, each of which has to fit."""
    kinds = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
    return [chunk for column in found.columns if column.type in kinds for chunk in column.iterchunks()]


def test_what_is_published_is_the_same_however_much_text_an_array_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, dead letters, the digest of the ids, partial aggregates and the results of windows."""
    found: list[tuple[Any, ...]] = []
    place = Place()
    for limit in (long_texts.ARRAY_BYTES, LIMIT):
        monkeypatch.setattr(long_texts, "ARRAY_BYTES", limit)
        place.published.clear()
        carried, told = place.dedup(rows(), PIPELINE, batches=4)
        place.aggregate(carried.filter(pa.compute.equal(carried["kind"], "partial")), PIPELINE)
        partial = carried.drop_columns(["note"]).to_pylist()
        found.append((dict(place.published), {**told, "ms": None}, sorted(map(str, partial))))
    assert found[0] == found[1]
    assert found[0][1]["duplicate"], "there are copies"
    assert found[0][0][DEAD_LETTER, 0]


@pytest.mark.usefixtures("small")
def test_no_array_of_a_shard_takes_more_text_than_it_can() -> None:
    place = Place()
    place.dedup(rows(), PIPELINE, batches=4)
    shown = place.published["orders", 0]
    assert shown.schema.field("payload").type == pa.string(), "sinks see the types that were declared"
    assert max(map(text_of, arrays(shown))) <= LIMIT
    assert shown["payload"].num_chunks > 1


@pytest.mark.usefixtures("small")
def test_a_recorded_step_gets_the_columns_that_were_declared() -> None:
    seen: list[pa.Table] = []

    def answer(given: pa.Table) -> pa.Table:
        seen.append(given)
        return pa.table({"more": given["payload"]})

    pipeline = Pipeline(
        lambda frame: frame,
        COLUMNS,
        rows=(ToTable("orders"),),
        recorded=RecordedStep("look_up", answer, pa.schema([("more", pa.string())])),
    )
    place = Place()
    place.dedup(rows(), pipeline, batches=4)
    assert {field.name: field.type for field in seen[0].schema}["payload"] == pa.string()
    shown = place.published["orders", 0]
    assert shown["more"].to_pylist() == shown["payload"].to_pylist()


def test_digests_do_not_depend_on_the_offsets_of_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeat on a worker of another version, or the judge, takes others."""
    whole = rows().select(["id", "payload", "value", "amount"])
    before = digest.of_rows_in(whole), [column_digest.of_values(column) for column in whole.columns]
    monkeypatch.setattr(long_texts, "ARRAY_BYTES", 1)
    assert (digest.of_rows_in(whole), [column_digest.of_values(column) for column in whole.columns]) == before
    values = [b"", b"a", b"bc" * 20]
    assert of_ids(pa.array(values, pa.binary())).tolist() == of_ids(pa.array(values, pa.large_binary())).tolist()
    large = pa.array(values, pa.large_binary()).slice(1)
    assert of_ids(large).tolist() == of_ids(pa.array(values[1:], pa.binary())).tolist()


@pytest.mark.usefixtures("small")
def test_rows_are_taken_in_order_nulls_and_repeats_too() -> None:
    given = pa.table({"text": ["x" * (number % 40) if number % 3 else None for number in range(20)], "n": range(20)})
    for order in (np.arange(20)[::-1], np.array([3, 1]), np.repeat(np.arange(20), 9), np.arange(0)):
        found = long_texts.take(given, order)
        assert found.schema == given.schema
        assert found.to_pylist() == [given.slice(int(row), 1).to_pylist()[0] for row in order]
        assert all(text_of(chunk) <= LIMIT for chunk in arrays(found))


@pytest.mark.usefixtures("small")
def test_a_value_longer_than_an_array_should_be_is_one_of_its_own() -> None:
    given = pa.table({"text": ["a", "x" * (3 * LIMIT), "b"]})
    found = long_texts.sort(given, ["text"])["text"]
    assert found.to_pylist() == ["a", "b", "x" * (3 * LIMIT)]
    assert found.num_chunks == 2


@pytest.mark.usefixtures("small")
def test_groups_of_long_keys_and_their_lanes_are_those_of_short_ones() -> None:
    keys = [f"{number % 6}" + "k" * 40 for number in range(24)]
    given = pa.table({"key": keys, "n": [2**62] * 24})
    found = sums.group_rows(given, ["key"], {"n": "sum"})
    assert found.schema.field("key").type == pa.string()
    assert sums.separate(found, ["key"], {"n": "sum"})[1] == [{"key": f"{n}" + "k" * 40, "n": 2**64} for n in range(6)]
    assert all(text_of(chunk) <= LIMIT for chunk in arrays(found))


@pytest.mark.usefixtures("small")
def test_the_catalog_keeps_ids_in_arrays_that_fit() -> None:
    """Else the ids of two epochs could not be joined to one run."""
    known = catalog.Catalog(Windows(100, 0))
    ids = pa.table({"id": ["i" * 30 + str(number) for number in range(20)], "event_time_ms": [5] * 20})
    known.fold(ids)
    for bucket in known._buckets.values():
        assert all(text_of(part.ids) <= LIMIT and part.ids.type == pa.binary() for part in bucket._folded)
    assert known.decide(pa.chunked_array([["i" * 30 + "7", "another"]])).tolist() == [False, True]
    assert not known.decide(ids["id"]).any()


@pytest.mark.usefixtures("small")
def test_a_file_of_long_values_has_smaller_pages_and_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PAGE_BYTES", 1000)
    asked: dict[str, Any] = {}
    write = pq.write_table

    def written(*some: Any, **more: Any) -> None:
        asked.update(more)
        write(*some, **more)

    monkeypatch.setattr(pq, "write_table", written)
    store, layout = MemoryStore(), Layout("files")
    given = pa.table({"text": ["x" * 100] * 50})
    name = ManifestSink(store, layout, ToFiles("rows").name).stage(0, given).name
    assert name is not None
    assert 1 <= asked["write_batch_size"] <= 10
    body = run(body_of(name), store)
    assert body is not None
    assert pq.read_table(io.BytesIO(body)).to_pylist() == given.to_pylist()
