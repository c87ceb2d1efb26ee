"""The dedup catalog: exact, in order of source coordinates, until a window closes (S3)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once import long_texts
from effectively_once.errors import SourceError
from effectively_once.ledger import digest
from effectively_once.state import catalog
from effectively_once.state.catalog import Catalog, bucket, keys, runs
from effectively_once.state.catalog.ids import as_bytes
from effectively_once.state.lateness import Windows

WINDOWS = Windows(100, 50)
ROWS = st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 1000)), max_size=20)


def _delta(rows: list[tuple[str, int]]) -> pa.Table:
    return pa.table({"id": [i for i, _ in rows], "event_time_ms": [t for _, t in rows]}, schema=catalog.SCHEMA)


def _folded(*deltas: list[tuple[str, int]]) -> Catalog:
    known = Catalog(WINDOWS)
    for delta in deltas:
        known.fold(_delta(delta))
    return known


def _new(known: Catalog, *ids: str) -> list[bool]:
    new: list[bool] = known.decide(pa.array(ids, pa.string())).tolist()
    return new


@pytest.mark.parametrize("closed", range(11))
@pytest.mark.parametrize("bucket_ms", [1, 300, 1000, 600_000])
def test_of_a_bucket_that_is_partly_closed_the_open_windows_are_known(closed: int, bucket_ms: int) -> None:
    """To the millisecond; by every bucket there is, not only that of the row's time; and when runs were merged."""
    known, ids = Catalog(WINDOWS, bucket_ms), [f"{window}" for window in range(10)]
    for window in range(10):
        known.fold(_delta([(ids[window], 100 * window + 99)]))
        known.settle()
    bound_ms = 100 * closed + 50
    for watermark_ms, gone in ((bound_ms - 1, max(closed - 1, 0)), (bound_ms, closed)):
        known.expire(watermark_ms)
        assert _new(known, *ids) == [window < gone for window in range(10)]


def test_a_delta_of_more_ids_than_a_run_is_known_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bucket, runs):
        monkeypatch.setattr(module, "RUN_IDS", 3)
    ids = [f"{number}" for number in range(10)]
    assert _new(_folded([(each, 0) for each in ids]), *ids) == [False] * 10


def test_a_delta_of_more_bytes_than_an_array_is_known_whole_and_each_id_by_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_texts, "ARRAY_BYTES", 10)
    ids = [f"{number}{number}{number}{number}" for number in range(10)]
    known = _folded([(each, 100 * number) for number, each in enumerate(ids)], [("a later one", 950)])
    for closed in range(11):
        known.expire(100 * closed + 50)
        assert _new(known, *ids, "a later one") == [number < closed for number in [*range(10), 9]]


def test_memory_goes_with_the_last_window_of_a_bucket_and_ids_before_it() -> None:
    known = Catalog(WINDOWS, bucket_ms=300)
    known.fold(_delta([(f"{time}", time) for time in range(600)]))
    known.settle()
    held = known.summary()["bytes"]
    gone = []
    for watermark_ms in (150, 250, 349, 350, 650):
        known.expire(watermark_ms)
        gone.append((known.counters.expired, len(known), known.summary()["bytes"] / held))
    half = pytest.approx(0.5, abs=0.1)
    assert gone == [(100, 500, 1.0), (100, 400, 1.0), (0, 400, 1.0), (100, 300, half), (300, 0, 0)]


@pytest.mark.parametrize("bucket_ms", [100, 600_000])
def test_a_fold_after_expiry_adds_only_what_the_watermark_leaves_open(bucket_ms: int) -> None:
    known = Catalog(WINDOWS, bucket_ms)
    known.fold(_delta([("a", 0)]))
    known.expire(250)
    known.expire(None)  # what is closed stays closed
    known.fold(_delta([("a", 0), ("b", 199), ("c", 200)]))
    assert _new(known, "a", "b", "c") == [True, True, False]
    assert len(known) == 1


@pytest.mark.parametrize("bucket_ms", [100, 600_000])
def test_what_is_closed_when_it_is_folded_takes_no_memory(bucket_ms: int) -> None:
    """Where other windows are longer than those of ids, deltas live on whose ids are all forgotten."""
    known, alone = Catalog(WINDOWS, bucket_ms), Catalog(WINDOWS, bucket_ms)
    for each in (known, alone):
        each.expire(99_850)
        each.fold(_delta([(f"{n}", 99_800 + n) for n in range(100)]))
    known.fold(_delta([(f"{n} of before", n) for n in range(90_000)]))
    assert known.summary() == alone.summary()
    assert len(known) == 100


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(2)])
def test_an_id_is_its_bytes_whatever_the_type_of_its_column(kind: pa.DataType) -> None:
    known = _folded([("aa", 1)])
    known.fold(pa.table({"id": pa.array([b"bb"]).cast(kind), "event_time_ms": [1]}))
    column = pa.chunked_array([pa.array([b"xx", b"aa"]).cast(kind)[1:], pa.array([b"bb", b"cc"]).cast(kind)])
    assert known.decide(column).tolist() == [False, False, True]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1)])
def test_ids_that_may_be_longer_than_an_array_stay_so(kind: pa.DataType) -> None:
    large = kind in (pa.large_string(), pa.large_binary())
    assert as_bytes(pa.array([b"a"]).cast(kind)).type == (pa.large_binary() if large else pa.binary())


@pytest.mark.parametrize("nothing", [pa.array([], pa.string()), pa.array([]), pa.chunked_array([], pa.string())])
def test_of_no_rows_none_is_new(nothing: pa.Array) -> None:
    for known in (Catalog(WINDOWS), _folded([("a", 1)]), _folded([])):
        assert known.decide(nothing).tolist() == []
        assert known.counters.looked_up == 0


def test_a_row_without_an_id_is_refused_by_name() -> None:
    with pytest.raises(SourceError, match=r"1 of 2 rows have no id .column id.*dead-letter"):
        Catalog(WINDOWS).decide(pa.array(["a", None]))
    with pytest.raises(SourceError, match="1 of 2 rows have no id"):
        Catalog(WINDOWS).fold(pa.table({"id": ["a", None], "event_time_ms": [1, 1]}))


def test_a_row_without_a_time_is_refused_by_name() -> None:
    with pytest.raises(SourceError, match=r"1 of 2 rows have no time .column event_time_ms"):
        Catalog(WINDOWS).fold(pa.table({"id": ["a", "b"], "event_time_ms": [1, None]}))


@pytest.mark.parametrize("ids", [pa.array([1]), pa.array([["a"]]), pa.array([None])])
def test_ids_that_are_neither_text_nor_bytes_are_refused_by_name(ids: pa.Array) -> None:
    with pytest.raises(SourceError, match=f"ids are of type {ids.type}"):
        Catalog(WINDOWS).decide(ids)


def test_hashes_that_are_known_are_taken_and_their_number_is_checked() -> None:
    known = Catalog(WINDOWS)
    known.fold(_delta([("a", 1), ("b", 1)]), np.array([1, 2], np.uint64))
    # Taken indeed: the same id with another hash is not found.
    assert known.decide(pa.array(["a", "b"]), np.array([1, 1 << 63], np.uint64)).tolist() == [False, True]
    with pytest.raises(ValueError, match="1 hashes of 2 ids"):
        known.decide(pa.array(["a", "b"]), np.array([1], np.uint64))


def test_more_rows_than_keys_can_tell_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "PLACES", 2)
    assert _new(Catalog(WINDOWS), "a", "b") == [True, True]
    with pytest.raises(ValueError, match="3 rows at once, at most 2"):
        _new(Catalog(WINDOWS), "a", "b", "c")


def test_digested_are_the_ids_and_their_times() -> None:
    rows = [("a", 1), ("é", 2), ("é", 1), ("a", 2)]
    columns = catalog.canonical(_delta(rows))
    assert len({digest.of_rows_in(columns.slice(row, 1)) for row in range(len(rows))}) == len(rows)


@given(st.lists(ROWS, max_size=8))
def test_every_id_in_time_is_accepted_exactly_once_over_all_epochs(epochs: list[list[tuple[str, int]]]) -> None:
    known = Catalog(WINDOWS)
    accepted: list[str] = []
    fixed: dict[str, int] = {}  # an id's time is fixed at its first send
    watermark: int | None = None
    expected: set[str] = set()
    for rows in epochs:
        known.expire(watermark)
        sends = [(identity, fixed.setdefault(identity, time)) for identity, time in rows]
        timely = [row for row in sends if not WINDOWS.closed(WINDOWS.start(row[1]), watermark)]
        new = [row for row, is_new in zip(timely, _new(known, *(i for i, _ in timely)), strict=True) if is_new]
        known.fold(_delta(new))
        accepted += [identity for identity, _ in new]
        expected |= {identity for identity, _ in timely}
        times = [time for time in (watermark, *(t for _, t in new)) if time is not None]
        watermark = max(times, default=None)
    assert sorted(accepted) == sorted(expected)


def test_a_decision_is_of_truths_and_keeps_how_many_ids_went() -> None:
    """A mask of numbers would pick rows by their place; the counters are of an epoch, which expires before it asks."""
    known = Catalog(Windows(60_000, 0))
    known.fold(pa.table({"id": ["a", "b"], "event_time_ms": [0, 60_000]}))
    known.expire(60_000)
    decided = known.decide(pa.array(["a", "b"]))
    assert (decided.dtype, decided.tolist()) == (np.dtype(bool), [True, False])
    assert known.summary()["expired"] == 1
