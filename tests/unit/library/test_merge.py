"""Merged deltas: chosen by the chain alone, and equal to the deltas that they stand for (R4, R5, R9)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain as chained
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger import digest
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, Get, Put
from effectively_once.state import catalog, merge
from effectively_once.state.deltas import Named, ShardDeltas, encode
from effectively_once.state.merge import FAN, choose, merge_oldest, take_in
from tests.depth import examples
from tests.unit.ledger.memory_store import Fate, MemoryStore
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.listed_store import ListedStore

LAYOUT = Layout("counts")
INLINE_BYTES = 25


def entry(first: int, length: int = 1, rows: int = 1) -> Named:
    last = first + length - 1
    return Named(last, Delta(rows=rows) if length == 1 else Span(first=first, last=last, rows=rows))


def entries(begin: int, end: int, length: int = 1, rows: int = 1) -> list[Named]:
    return [entry(first, length, rows) for first in range(begin, end, length)]


def epochs(group: Sequence[Named] | None) -> tuple[int, int] | None:
    return None if group is None else (group[0].first, group[-1].epoch)


@pytest.mark.parametrize(
    ("named", "group"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param(entries(0, 63), None, id="the last epoch is not recorded"),
        pytest.param(entries(0, 64), (0, 63), id="all are recorded"),
        pytest.param(entries(0, 200), (0, 63), id="the oldest one first"),
        pytest.param(entries(1, 127), None, id="the floor has taken the first epoch of one, the other is not complete"),
        pytest.param(entries(1, 128), (64, 127), id="a later one is complete"),
        pytest.param(entries(0, 64, rows=0), (0, 63), id="empty ones count"),
        pytest.param(entries(0, 20) + entries(21, 85), None, id="an epoch has no delta"),
        pytest.param(entries(0, 128, 64) + entries(128, 192), (128, 191), id="the rest is merged"),
        pytest.param(entries(0, 4032, 64) + entries(4032, 4095), None, id="63 spans and 63 deltas"),
        pytest.param(entries(0, 4096, 64), (0, 4095), id="64 spans"),
        pytest.param(entries(64, 4160, 64), None, id="64 spans that begin in between"),
        pytest.param(entries(0, 64 * 4096, 4096), None, id="the longest spans"),
        pytest.param(entries(0, 64, rows=merge.ROWS // 64), (0, 63), id="as many rows as may be"),
        pytest.param([*entries(0, 63), entry(63, rows=merge.ROWS)], None, id="too many rows"),
        pytest.param([entry(0, rows=merge.ROWS), *entries(1, 128)], (64, 127), id="too many rows, the next one fits"),
    ],
)
def test_a_group_is_chosen_that_every_driver_would_choose(named: list[Named], group: tuple[int, int] | None) -> None:
    assert epochs(choose(named)) == group


@given(st.integers(2, 5), st.integers(0, 200))
def test_a_start_reads_few_objects_however_many_epochs_live(fan: int, count: int) -> None:
    named: list[Named] = []
    for epoch in range(count):
        group = choose(named, fan)
        if group is not None:
            at = named.index(group[0])
            span = Span(first=group[0].first, last=group[-1].epoch, rows=sum(part.rows.rows for part in group))
            named[at : at + fan] = [Named(span.last, span)]
        named.append(entry(epoch))
    assert [epoch for each in named for epoch in range(each.first, each.epoch + 1)] == list(range(count))
    assert sum(each.rows.rows for each in named) == count
    # A group is complete one epoch before it is merged, and then it is its spans' turn.
    assert len(named) <= (fan - 1) + 1 + (fan - 1) + 1 + count // fan**2


def ids(*names: str) -> pa.Table:
    return pa.table({"id": list(names), "event_time_ms": [1000 + len(name) for name in names]}, schema=catalog.SCHEMA)


def log_of(store: MemoryStore) -> ShardDeltas:
    return ShardDeltas(store, LAYOUT, catalog.KIND, 1, catalog.canonical, inline_bytes=INLINE_BYTES)


CONTENTS = [("a", "b", "c"), (), ("d",), ("é", "f", "g", "a")]
SPAN = LAYOUT.span(catalog.KIND, 0, 3, 1)


def written(store: MemoryStore) -> list[Named]:
    """Four deltas: two objects, an empty one, an inline one."""
    named = [Named(epoch, log_of(store).write(epoch, ids(*names))) for epoch, names in enumerate(CONTENTS)]
    assert [each.inline is not None for each in named] == [False, False, True, False]
    return named


@pytest.mark.parametrize("readers", [1, 8])
def test_a_span_holds_the_rows_of_its_deltas_in_order(readers: int) -> None:
    store = ListedStore()
    span = merge_oldest(log_of(store), written(store), fan=4, readers=readers)
    rows = [*chained.from_iterable(CONTENTS)]
    assert span is not None
    assert (span.first, span.last, span.rows, span.bytes) == (0, 3, 8, len(store.objects[SPAN]))
    whole = log_of(store).read(Named(3, span))
    assert whole["id"].to_pylist() == rows
    assert span.digest == digest.of_rows_in(whole)


def test_spans_are_merged_as_deltas_are() -> None:
    store = MemoryStore()
    log = log_of(store)
    named = written(store)
    halves = [
        span for half in (named[:2], named[2:]) if (span := merge_oldest(log, half, fan=2, readers=1)) is not None
    ]
    whole = merge_oldest(log, [Named(span.last, span) for span in halves], fan=2, readers=1)
    at_once = MemoryStore()
    assert whole == merge_oldest(log_of(at_once), written(at_once), fan=4, readers=1)
    assert store.objects[SPAN] == at_once.objects[SPAN]


def test_a_group_without_rows_is_recorded_and_has_no_object() -> None:
    store = MemoryStore()
    assert merge_oldest(log_of(store), entries(0, FAN, rows=0)) == Span(first=0, last=FAN - 1)
    assert merge_oldest(log_of(store), entries(0, FAN - 1)) is None
    assert store.requests == []


@given(st.lists(st.sampled_from(Fate), max_size=8))
def test_lost_answers_and_repeats_change_nothing_about_a_span(fates: list[Fate]) -> None:
    store = MemoryStore()
    named = written(store)
    store.fated(*fates)
    first = merge_oldest(log_of(store), named, fan=4, readers=1)
    body = store.objects[SPAN]
    assert merge_oldest(log_of(store), named, fan=4, readers=1) == first
    assert store.objects[SPAN] == body


def test_a_span_of_the_same_rows_in_other_bytes_is_taken_for_what_it_is() -> None:
    """As another version of Arrow may write them."""
    store = MemoryStore()
    named = written(store)
    other = encode(ids(*chained.from_iterable(CONTENTS)).replace_schema_metadata({"written_by": "another"}))
    store.objects[SPAN] = other
    span = merge_oldest(log_of(store), named, fan=4, readers=1)
    assert span is not None
    assert (store.objects[SPAN], span.bytes) == (other, len(other))


OTHER_ROWS = f"epochs 0 to 3 of 'ids', shard 1, were merged to other rows.*{SPAN}"


@pytest.mark.parametrize(
    ("theirs", "kind", "says"),
    [
        (encode(ids("a")), SinkError, OTHER_ROWS),
        (encode(ids("a", "b", "c", "d", "e", "f", "g", "a")), SinkError, OTHER_ROWS),
        (b"no Arrow", ChainError, f"a delta is corrupt: .*{SPAN}"),
    ],
)
def test_a_span_of_other_rows_or_that_is_damaged_is_an_error_and_is_left_as_it_is(
    theirs: bytes, kind: type[Exception], says: str
) -> None:
    store = MemoryStore()
    named = written(store)
    store.objects[SPAN] = theirs
    with pytest.raises(kind, match=says):
        merge_oldest(log_of(store), named, fan=4, readers=1)
    assert store.objects[SPAN] == theirs


@pytest.mark.parametrize("readers", [1, 8])
@pytest.mark.parametrize(
    "body", [None, b"no Arrow", encode(ids("a", "b", "x")), encode(ids("a")), encode(ids("a", "b", "c").drop("id"))]
)
def test_a_part_that_is_missing_or_damaged_is_named_and_nothing_is_written(body: bytes | None, readers: int) -> None:
    """So it comes to a driver that was replaced: the newer one has deleted the parts."""
    store = ListedStore()
    named = written(store)
    key = LAYOUT.delta(catalog.KIND, 0, 1)
    store.answer(Delete(key))
    if body is not None:
        store.objects[key] = body
    with pytest.raises(ChainError, match=f"(missing|corrupt: ).*{key}"):
        merge_oldest(log_of(store), named, fan=4, readers=readers)
    assert SPAN not in store.objects


def test_inline_rows_that_are_not_those_of_the_chain_are_not_merged() -> None:
    store = MemoryStore()
    named = written(store)
    rows = named[2].rows
    assert isinstance(rows, Delta)
    named[2] = Named(2, rows.model_copy(update={"inline": (rows.inline or "").replace('"d"', '"x"')}))
    with pytest.raises(ChainError, match=f"deltas cannot be merged, their rows are not those the chain names.*{SPAN}"):
        merge_oldest(log_of(store), named, fan=4, readers=1)
    named[2] = Named(2, rows.model_copy(update={"inline": '{"id":["d"]}'}))
    with pytest.raises(ChainError, match="deltas cannot be merged, their columns differ"):
        merge_oldest(log_of(store), named, fan=4, readers=1)
    assert SPAN not in store.objects


def test_each_part_is_read_once_and_its_rows_are_digested_once() -> None:
    """None is read of those that are empty or inline; and the span is not digested after its parts."""
    store, seen = MemoryStore(), list[int]()
    named = written(store)
    asked = len(store.requests)

    def canonical(table: pa.Table) -> pa.Table:
        seen.append(table.num_rows)
        return catalog.canonical(table)

    merge_oldest(ShardDeltas(store, LAYOUT, catalog.KIND, 1, canonical), named, fan=4, readers=1)
    assert seen == [8]
    assert [(type(request), request.key) for request in store.requests[asked:]] == [
        (Get, LAYOUT.delta(catalog.KIND, 0, 1)),
        (Get, LAYOUT.delta(catalog.KIND, 3, 1)),
        (Put, SPAN),
    ]


SPANS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), max_size=6)


@settings(max_examples=examples(300))
@given(SPANS)
def test_spans_take_the_place_of_whole_entries_or_are_refused(spans: list[tuple[int, int]]) -> None:
    """However the chain came to name them, no epoch is named twice."""
    named: dict[merge.Where, list[Named]] = {}
    for epoch in range(10):
        record = record_of(declaration(epoch)).model_copy(update={"deltas": {"ids": {"1": Delta(rows=1)}}})
        assert take_in(named, record) == []
    held = named["ids", 1]
    for first, length in spans:
        last, before = first + length - 1, list(held)
        span = Span(first=first, last=last, rows=length)
        update = {"epoch": 10, "deltas": {}, "merged": {"ids": {"1": span}}}
        shared = [each for each in before if each.first <= last and first <= each.epoch]
        inside = [each for each in shared if first <= each.first and each.epoch <= last]
        record = record_of(declaration(10)).model_copy(update=update)
        if shared != inside:
            with pytest.raises(ChainError, match=f"epochs {first} to {last} overlap others .ids, shard 1"):
                take_in(named, record)
            assert held == before
            continue
        assert take_in(named, record) == [(("ids", 1), part) for part in inside]
        covered = [epoch for each in held for epoch in range(each.first, each.epoch + 1)]
        assert covered == sorted(set(covered))
        assert Named(last, span, shards=record.shards) in held


def test_the_bound_of_rows_is_one_that_arrow_can_hold() -> None:
    """Text of more than 2 GiB is no single column: ids may have 4,000 bytes each."""
    assert merge.ROWS * 4000 < 2**31
    with patch.object(merge, "ROWS", 7):
        store = MemoryStore()
        assert merge_oldest(log_of(store), written(store), fan=4) is None
