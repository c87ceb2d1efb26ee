"""How the chain and a bucket hold a delta, to the byte, and what is said of one that is damaged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from effectively_once import Count, Max, Min, Sum
from effectively_once.errors import ChainError
from effectively_once.ledger import digest
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.layout import Layout
from effectively_once.state import catalog, windows
from effectively_once.state.accumulators import accumulators
from effectively_once.state.deltas import DAMAGE, Named, ShardDeltas, decode, encode
from effectively_once.state.merge import take_in
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.test_deltas import ids

LAYOUT = Layout("counts")
KEY = LAYOUT.delta("ids", 3, 1)


def log_of(store: MemoryStore, inline_bytes: int = 0, anew: int | None = None) -> ShardDeltas:
    return ShardDeltas(store, LAYOUT, catalog.KIND, 1, catalog.canonical, inline_bytes, anew)


def test_what_was_decided_anew_is_read_by_the_name_that_it_was_given() -> None:
    """Beside it lies what others had decided before: it counts no more."""
    store = MemoryStore()
    log_of(store).write(3, ids("of before"))
    delta = log_of(store, anew=5).write(3, ids("a", "b"))
    record = record_of(declaration(3)).model_copy(update={"anew": (2, 5), "deltas": {"ids": {"1": delta}}})
    named: dict[tuple[str, int], list[Named]] = {}
    take_in(named, record)
    ((entry,),) = named.values()
    assert entry.key(LAYOUT, "ids", 1) == LAYOUT.delta("ids", 3, 1, 5)
    assert log_of(store).read(entry).equals(ids("a", "b"))


def test_a_delta_in_a_record_is_json_without_a_space_and_as_large_as_its_bound_at_most() -> None:
    """Head holds 64 records, and is written with each epoch."""
    rows = ids("a", "b")
    kept = log_of(MemoryStore(), inline_bytes=rows.nbytes).write(3, rows)
    assert kept.inline == '{"id":["a","b"],"event_time_ms":[0,1000]}'
    assert log_of(MemoryStore(), inline_bytes=rows.nbytes - 1).write(3, rows).inline is None


def test_no_rows_are_read_as_none() -> None:
    store = MemoryStore()
    assert log_of(store).read(Named(3, Delta())).num_rows == 0
    assert store.requests == []


@pytest.mark.parametrize("last", [2**32 - 1, 7])
def test_a_stream_that_was_cut_after_a_number_which_looks_like_its_end_is_no_shorter_table(last: int) -> None:
    """Eight bytes of a column may be those that every stream ends with."""
    buffer = pa.BufferOutputStream()
    ends = []
    with pa.ipc.new_stream(buffer, pa.schema([("n", pa.int64())])) as writer:
        for number in (last, 1):
            writer.write_table(pa.table({"n": [number]}))
            ends.append(buffer.tell())
    whole = buffer.getvalue().to_pybytes()
    assert decode(whole)["n"].to_pylist() == [last, 1]
    for end in ends:
        assert pa.ipc.open_stream(whole[:end]).read_all().num_rows > 0
        with pytest.raises(DAMAGE):
            decode(whole[:end])


def test_an_offset_in_the_middle_that_points_out_of_its_text_is_damage() -> None:
    """The first and the last one are right: to follow it would read what is not there."""
    offsets = pa.py_buffer(np.array([0, 1 << 20, 2, 3], np.int32).tobytes())
    text = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abc")])
    with pytest.raises(DAMAGE):
        decode(encode(pa.table([text, pa.array([1, 2, 3])], schema=catalog.SCHEMA)))


@pytest.mark.parametrize("asked", ["created", "repeated"])
def test_an_object_without_a_column_is_named_by_those_who_only_digest_it(asked: str) -> None:
    store = MemoryStore()
    store.objects[KEY] = encode(ids("a", "b").drop("id"))
    log = log_of(store)
    with pytest.raises(ChainError, match=r'^a delta is corrupt: .*Field "id" does not exist') as refused:
        log.read_created(3) if asked == "created" else log.write(3, ids("a", "b"))
    assert KEY in str(refused.value)


def test_windows_that_sum_nothing_have_no_largest_sum() -> None:
    """Older versions refuse the field."""
    columns = pa.schema([("n", pa.int64())])
    counted, least, most, summed = (
        accumulators({"n": value}, columns) for value in (Count(), Min("n"), Max("n"), Sum("n"))
    )
    delta = pa.table({"key": ["ann"], "window_start_ms": [0], "n": [7]}, schema=windows.schema(summed))
    for values in (counted, least, most):
        assert windows.largest(delta, values) is None
    assert windows.largest(delta, summed) == 7


def test_the_digest_of_no_rows_is_that_of_none_in_both_forms() -> None:
    assert (
        log_of(MemoryStore()).digest_rows(ids()) == log_of(MemoryStore()).digest_rows(ids(), "1" * 32) == digest.EMPTY
    )
