"""State that is kept between tasks equals state folded anew, whatever happened in between (R5)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.errors import ChainError
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Answer, Delete, Get, Request, body_of, create_once, run
from effectively_once.state import catalog, merge, windows
from effectively_once.state.accumulators import accumulators
from effectively_once.state.aggregates import Count
from effectively_once.state.catalog import Catalog
from effectively_once.state.deltas import READERS, FoldCache, Named, ShardDeltas
from effectively_once.state.lateness import Windows
from effectively_once.state.windows import WindowState
from tests.unit.ledger.memory_store import MemoryStore

WINDOWS = Windows(10, 10)
LAYOUT = Layout("counts")


@dataclass
class Past:
    """Recorded epochs of one shard, as the chain names them."""

    store: MemoryStore = field(default_factory=MemoryStore)
    named: list[Named] = field(default_factory=list)
    shard: int = 0

    @property
    def log(self) -> ShardDeltas:
        """The deltas of this shard."""
        return ShardDeltas(self.store, LAYOUT, catalog.KIND, self.shard, catalog.canonical)

    def record(self, epoch: int, ids: dict[str, int]) -> None:
        """Write and name what an epoch accepted; nothing is named when it accepted nothing."""
        table = pa.table({"id": list(ids), "event_time_ms": list(ids.values())}, schema=catalog.SCHEMA)
        rows = self.log.write(epoch, table)
        if rows.rows:
            self.named.append(Named(epoch, rows))

    def before(self, epoch: int, cache: FoldCache, floor: int = 0) -> Catalog:
        """Return the state that a task of `epoch` gets from a worker."""
        live = [delta for delta in self.named if floor <= delta.epoch < epoch]
        return cache.state(self.log, lambda: Catalog(WINDOWS), live, epoch)


def _new(known: Catalog, *ids: str) -> list[bool]:
    new: list[bool] = known.decide(pa.array(ids)).tolist()
    return new


def _live(known: Catalog) -> tuple[int, list[bool]]:
    return len(known), _new(known, *"abcdefgh")


def _ten_epochs() -> Past:
    past = Past()
    for epoch in range(10):
        past.record(epoch, {f"id-{epoch}": epoch})
    return past


EPOCHS = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 120), max_size=3), min_size=1, max_size=12
)
TASKS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=30)


@given(EPOCHS, TASKS)
def test_kept_state_equals_state_folded_anew(epochs: list[dict[str, int]], tasks: list[tuple[int, int]]) -> None:
    """Three workers get tasks in any order: of the running epoch, or repeats of the last few; the floor rises."""
    past = Past()
    workers = [FoldCache() for _ in range(3)]
    watermarks: list[int | None] = [None]
    for epoch, ids in enumerate(epochs):
        times = [time for time in (watermarks[-1], *ids.values()) if time is not None]
        past.record(epoch, ids)
        watermarks.append(max(times, default=None))
    # Every worker sees the epochs in its own order, with gaps: another worker had the shard meanwhile.
    now = 0
    for worker, step in tasks:
        now = max(0, min(len(epochs), now + step - 1))
        watermark = watermarks[now]
        closed = [all(WINDOWS.closed(WINDOWS.start(time), watermark) for time in ids.values()) for ids in epochs[:now]]
        floor = closed.index(False) if False in closed else now
        kept, anew = past.before(now, workers[worker], floor), past.before(now, FoldCache())
        kept.expire(watermark)
        anew.expire(watermark)
        assert _live(kept) == _live(anew)


def test_a_worker_reads_only_the_deltas_it_does_not_have() -> None:
    past, cache = _ten_epochs(), FoldCache()
    asked = len(past.store.requests)
    for epoch, reads in ((4, 4), (4, 0), (5, 1), (9, 4)):
        past.before(epoch, cache)
        assert len(past.store.requests) - asked == reads, epoch
        asked = len(past.store.requests)


VALUES = accumulators({"count": Count()}, pa.schema([]))


@dataclass
class Counts:
    """Counts of one shard, folded by one worker: an id folded twice is one id, a count folded twice is a wrong one."""

    log: ShardDeltas = field(default_factory=lambda: ShardDeltas(MemoryStore(), LAYOUT, "counts", 0, windows.canonical))
    cache: FoldCache = field(default_factory=FoldCache)

    def write(self, epochs: int) -> list[Named]:
        """Write a delta of one record for each epoch."""
        delta = pa.table({"key": ["ann"], "window_start_ms": [0], "count": [1]}, schema=windows.schema(VALUES))
        return [Named(epoch, self.log.write(epoch, delta)) for epoch in range(epochs)]

    def before(self, epoch: int, named: list[Named]) -> int:
        """Count what is named, as a task of `epoch` gets it."""
        counts = self.cache.state(self.log, lambda: WindowState(WINDOWS, VALUES), named, epoch)
        found: list[int] = counts.final(None, 1000)["count"].to_pylist()
        return sum(found)


class Awaiting(MemoryStore):
    """Has so many who read wait for each other."""

    def __init__(self, readers: int) -> None:
        super().__init__()
        self._all_read = threading.Barrier(readers)

    def answer(self, request: Request) -> Answer:
        if isinstance(request, Get):
            self._all_read.wait(20.0)
        return super().answer(request)


class Order:
    """State that tells in which order it was folded."""

    def __init__(self) -> None:
        self.folded: list[str] = []

    def fold(self, delta: pa.Table) -> None:
        self.folded += delta["key"].to_pylist()

    def expire(self, watermark_ms: int | None) -> None:
        raise NotImplementedError


def test_a_new_worker_reads_several_deltas_at_once_and_folds_them_in_order() -> None:
    """Were one read after the other, the first reader would wait for ever."""
    log = ShardDeltas(Awaiting(READERS), LAYOUT, "counts", 0, windows.canonical)
    named = []
    for epoch in range(2 * READERS):
        delta = pa.table({"key": [f"{epoch}"], "window_start_ms": [0], "count": [1]}, schema=windows.schema(VALUES))
        named.append(Named(epoch, log.write(epoch, delta)))
    state = FoldCache().state(log, Order, named, 2 * READERS)
    assert state.folded == [f"{epoch}" for epoch in range(2 * READERS)]


def test_a_fold_that_fails_half_way_is_not_found_again() -> None:
    counts = Counts()
    named, store = counts.write(8), counts.log.store
    assert counts.before(2, named[:2]) == 2
    gone = LAYOUT.delta("counts", 5, 0)
    body = run(body_of(gone), store)
    assert body is not None
    store.answer(Delete(gone))
    for _ in range(2):  # the second try must not take what the first one left for complete
        with pytest.raises(ChainError, match="missing"):
            counts.before(8, named)
    run(create_once(gone, body), store)
    assert counts.before(8, named) == 8


def test_a_span_is_folded_by_those_only_who_have_nothing_of_it() -> None:
    """A worker that had the shard in the middle of a span's epochs, and gets it again after them, folds all anew."""
    counts = Counts()
    named = counts.write(10)
    span = merge.merge_oldest(counts.log, named, fan=4, readers=1)
    assert span is not None
    merged = [Named(span.last, span), *named[4:]]
    for kept in range(9):
        counts.cache = FoldCache()
        assert counts.before(kept, named[:kept]) == kept
        asked = len(requests(counts))
        assert counts.before(10, merged) == 10
        # All of the span: it is not read again. None or some of it: it and the six deltas after it are read.
        assert len(requests(counts)) - asked == (10 - kept if kept >= 4 else 7)


def requests(counts: Counts) -> list[Request]:
    assert isinstance(counts.log.store, MemoryStore)
    return counts.log.store.requests


def test_what_has_no_rows_is_not_read() -> None:
    counts = Counts()
    named = [*counts.write(2), Named(2, Delta()), Named(6, Span(first=3, last=6))]
    asked = len(requests(counts))
    assert counts.before(7, named) == 2
    assert len(requests(counts)) - asked == 2


def test_shards_and_kinds_are_kept_apart() -> None:
    cache = FoldCache()
    left, right = Past(), Past(shard=1)
    left.record(0, {"left": 1})
    right.record(0, {"right": 1})
    assert _new(left.before(1, cache), "left", "right") == [False, True]
    assert _new(right.before(1, cache), "left", "right") == [True, False]


def test_a_delta_that_this_worker_decided_is_not_read_back_and_another_one_is() -> None:
    past, cache = Past(), FoldCache()
    for epoch in range(2):
        past.record(epoch, {f"id-{epoch}": 0})
    own = past.log.read(past.named[1])
    past.before(1, cache)
    cache.wrote(past.log, 1, past.named[1].rows.digest, own)
    del past.store.objects[LAYOUT.delta(catalog.KIND, 1, 0)]
    assert _new(past.before(2, cache), "id-0", "id-1", "id-2") == [False, False, True]
    # Decided here, but the chain names another driver's: what counts is what the chain names.
    cache = FoldCache()
    cache.wrote(past.log, 1, "0" * 32, own)
    with pytest.raises(ChainError, match="a delta that the chain names is missing"):
        past.before(2, cache)
