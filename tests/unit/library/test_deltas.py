"""Deltas are written once, and read back as the chain named them or not at all (R4, R5)."""

from __future__ import annotations

import random
import re
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete
from effectively_once.state import catalog
from effectively_once.state.deltas import DAMAGE, Named, ShardDeltas, decode, encode, largest
from tests.depth import examples
from tests.unit.ledger.memory_store import Fate, MemoryStore

LAYOUT = Layout("counts")
KEY = LAYOUT.delta("ids", 3, 1)


def ids(*names: str) -> pa.Table:
    return pa.table({"id": list(names), "event_time_ms": [1000 * n for n in range(len(names))]}, schema=catalog.SCHEMA)


def log_of(store: MemoryStore) -> ShardDeltas:
    return ShardDeltas(store, LAYOUT, catalog.KIND, 1, catalog.canonical)


def test_a_delta_comes_back_as_it_was_written() -> None:
    store = MemoryStore()
    log = log_of(store)
    rows = log.write(3, ids("a", "b"))
    assert rows == Delta(rows=2, digest=digest.of_rows_in(ids("a", "b")), bytes=len(store.objects[KEY]))
    assert log.read(Named(3, rows)).equals(ids("a", "b"))


def test_a_stream_that_was_cut_between_two_batches_is_no_shorter_table() -> None:
    """Arrow itself takes it for one: a body that ends early would be a delta of fewer rows."""
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, catalog.SCHEMA) as writer:
        for name in "abcd":
            writer.write_table(ids(name))
    whole = buffer.getvalue().to_pybytes()
    shorter = set()
    for size in range(len(whole)):
        with suppress(*DAMAGE):
            shorter.add(pa.ipc.open_stream(whole[:size]).read_all().num_rows)
        with pytest.raises(DAMAGE):
            decode(whole[:size])
    assert shorter == {0, 1, 2, 3, 4}
    # An end before the end hides what follows.
    with pytest.raises(DAMAGE):
        decode(whole + whole)
    assert decode(whole).num_rows == 4


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("é" * 7, "", '"', "\\n")])
def test_a_small_delta_travels_in_the_record_and_costs_no_request(names: tuple[str, ...]) -> None:
    store = MemoryStore()
    log = ShardDeltas(store, LAYOUT, catalog.KIND, 1, catalog.canonical, inline_bytes=512)
    rows = log.write(3, ids(*names))
    kept = Delta.model_validate_json(rows.model_dump_json())
    assert kept.bytes == len(kept.inline or "")
    assert log.read(Named(3, kept)).equals(ids(*names))
    assert store.requests == []


def test_an_empty_delta_is_not_written() -> None:
    store = MemoryStore()
    assert log_of(store).write(3, ids()) == Delta()
    assert store.requests == []


@pytest.mark.parametrize("anew", [None, 5])
def test_what_an_epoch_that_is_not_recorded_created_is_described_as_when_it_was_written(anew: int | None) -> None:
    store = MemoryStore()
    log = ShardDeltas(store, LAYOUT, catalog.KIND, 1, catalog.canonical, anew=anew)
    rows = log.write(3, ids("a", "b"))
    assert log.read_created(3) == rows
    assert log.read_created(4) is None
    assert log_of(store).read_created(3) == (rows if anew is None else None)
    key = LAYOUT.delta(catalog.KIND, 3, 1, anew)
    store.objects[key] = store.objects[key][:-9]
    with pytest.raises(ChainError, match=key):
        log.read_created(3)


def test_deltas_of_other_epochs_shards_and_kinds_have_other_names() -> None:
    """So have spans, from each other and from the delta of each of their epochs."""
    spans = [Span(first=0, last=11, rows=1), Span(first=0, last=0, rows=1), Span(first=11, last=11, rows=1)]
    named = [Named(0, Delta(rows=1)), Named(11, Delta(rows=1)), *(Named(span.last, span) for span in spans)]
    names = {each.key(LAYOUT, kind, shard) for kind in ("ids", "counts") for each in named for shard in (0, 11)}
    assert len(names) == 20
    assert None not in names


@pytest.mark.parametrize("rows", [Delta(), Delta(rows=1, inline="{}"), Span(first=0, last=3)])
def test_what_is_empty_or_inline_has_no_object(rows: Delta | Span) -> None:
    assert Named(3, rows).key(LAYOUT, "ids", 0) is None


AB = ids("a", "b")


@pytest.mark.parametrize("repeat", [AB, AB[::-1], pa.concat_tables([AB[:1], AB[1:]])])
def test_a_repeat_with_the_same_rows_leaves_the_delta_as_it_is(repeat: pa.Table) -> None:
    store = MemoryStore()
    first = log_of(store).write(3, ids("a", "b"))
    kept = dict(store.objects)
    assert log_of(store).write(3, repeat) == first
    assert store.objects == kept


@pytest.mark.parametrize("repeat", [ids("a"), ids("a", "b", "c"), ids("a", "x"), ids("a", "a", "b")])
def test_a_repeat_with_other_rows_is_an_error_that_names_the_step(repeat: pa.Table) -> None:
    store = MemoryStore()
    log_of(store).write(3, ids("a", "b"))
    kept = dict(store.objects)
    with pytest.raises(SinkError, match=f"epoch 3 decided otherwise in step 'ids', shard 1.*{KEY}.*deterministic"):
        log_of(store).write(3, repeat)
    assert store.objects == kept


@given(st.lists(st.sampled_from(Fate), max_size=10))
def test_lost_answers_change_nothing_about_what_is_written(fates: list[Fate]) -> None:
    store = MemoryStore(fates)
    log = log_of(store)
    rows = log.write(3, ids("a", "b"))
    assert log.write(3, ids("a", "b")) == rows
    assert log.read(Named(3, rows)).num_rows == 2


def test_a_delta_that_is_missing_is_named() -> None:
    store = MemoryStore()
    rows = log_of(store).write(3, ids("a", "b"))
    store.answer(Delete(KEY))
    with pytest.raises(ChainError, match=f"a delta that the chain names is missing .{KEY}"):
        log_of(store).read(Named(3, rows))


@pytest.mark.parametrize(
    ("body", "how"),
    [
        (encode(AB) * 2, "the stream does not come to its end: 2 rows in "),
        (encode(ids("a", "c")), f"its rows are not those the chain names ({KEY})"),
        (encode(ids("a")), f"its rows are not those the chain names ({KEY})"),
        (encode(AB.drop("id")), 'Field "id" does not exist'),
    ],
    ids=["twice", "another row", "a row less", "no column of ids"],
)
def test_a_whole_delta_that_is_not_the_one_recorded_is_refused(body: bytes, how: str) -> None:
    store = MemoryStore()
    rows = log_of(store).write(3, AB)
    store.objects[KEY] = body
    with pytest.raises(ChainError, match=f"^a delta is corrupt: .*{re.escape(how)}") as refused:
        log_of(store).read(Named(3, rows))
    assert KEY in str(refused.value)


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32), st.floats(0, 1), st.booleans())
@example(0, 0.0, True)
def test_damaged_bytes_are_a_corrupt_delta_or_no_damage_to_the_ids(seed: int, where: float, cut: bool) -> None:
    store = MemoryStore()
    log = log_of(store)
    rows = log.write(3, ids("a", "b", "c"))
    whole = store.objects[KEY]
    place = int(where * (len(whole) - 1))
    rng = random.Random(seed)
    store.objects[KEY] = whole[:place] if cut else whole[:place] + rng.randbytes(8) + whole[place + 8 :]
    try:
        assert log.read(Named(3, rows))["id"].to_pylist() == ["a", "b", "c"]
    except ChainError as refused:
        assert str(refused).startswith("a delta is corrupt: ")
        assert KEY in str(refused)
        assert "\n" not in str(refused)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.8])
def test_a_delta_that_was_cut_off_is_refused_by_its_repeat_too(kept: float) -> None:
    store = MemoryStore()
    log_of(store).write(3, ids("a", "b"))
    whole = store.objects[KEY]
    store.objects[KEY] = whole[: int(kept * len(whole))]
    with pytest.raises(ChainError, match=f"a delta is corrupt: .*{KEY}"):
        log_of(store).write(3, ids("a", "b"))


def test_a_table_survives_its_encoding() -> None:
    table = pa.concat_tables([ids("a", "é"), ids("😀")])
    assert decode(encode(table)).equals(table.combine_chunks())


@pytest.mark.parametrize(
    ("parts", "size"),
    [
        ([], None),
        ([Delta()], None),
        ([Delta(rows=1, largest=5)], 5),
        ([Delta(rows=1)], None),
        ([Delta(rows=1, largest=5), Delta(), Span(first=1, last=2, rows=2, largest=7)], 12),
        ([Delta(rows=1, largest=5), Delta(rows=1)], None),
        ([Delta(rows=1, largest=2**62)] * 2, 2**63),
        ([Delta(rows=1, largest=2**63)] * 2, 2**63),
    ],
)
def test_what_no_sum_of_some_deltas_exceeds(parts: list[Delta | Span], size: int | None) -> None:
    """A part of a version that did not tell leaves it open."""
    assert largest(parts) == size


def test_a_delta_that_tells_no_largest_sum_is_recorded_as_ever() -> None:
    """Older versions refuse a field that they do not know."""
    assert "largest" not in Delta(rows=1).model_dump_json()
    told = Delta(rows=1, largest=2**63)
    assert Delta.model_validate_json(told.model_dump_json()) == told
    assert Delta.model_validate_json('{"rows": 1}').largest is None
