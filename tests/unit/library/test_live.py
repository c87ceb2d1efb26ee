"""State folded from merged deltas is the one folded from the deltas, and nothing that a start reads is deleted (R9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.errors import ChainError, SinkError, StaleDriverError
from effectively_once.ledger import chain, segments
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, Request, delete_all, run
from effectively_once.ledger.rows import Rows
from effectively_once.operate.backup import contents
from effectively_once.sinks.kafka_shard import Row
from effectively_once.state import catalog, merge
from effectively_once.state import windows as state
from effectively_once.state.accumulators import accumulators
from effectively_once.state.aggregates import Count, Max
from effectively_once.state.catalog import Catalog
from effectively_once.state.deltas import Canonical, FoldCache, Named, S, ShardDeltas
from effectively_once.state.lateness import Windows
from effectively_once.state.live import PACE, RECENT, LiveDeltas
from effectively_once.state.windows import WindowState
from tests.depth import examples
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.ledger_driver import LedgerDriver, accepted_once
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.names import ACCEPTED, USER_COUNTS

LAYOUT, WINDOWS = Layout("clicks"), Windows(10, 20)
VALUES = accumulators({"count": Count(), "latest": Max("event_time_ms")}, pa.schema([("event_time_ms", pa.int64())]))
KINDS: dict[str, Canonical] = {catalog.KIND: catalog.canonical, "counts": state.canonical}
OPEN_END = 10**9
NAMES = "abcdefgh"


@dataclass
class Shard:
    """One shard whose epochs are recorded; it merges two at a time, or never."""

    merges: bool
    store: MemoryStore = field(default_factory=MemoryStore)
    records: list[EpochRecord] = field(default_factory=list)
    watermarks: list[int | None] = field(default_factory=lambda: [None, None])
    floor: int = 0
    live: LiveDeltas = field(init=False)

    def __post_init__(self) -> None:
        self.live = LiveDeltas(LAYOUT, (WINDOWS,), [], 0)

    def declare(self) -> None:
        """Raise the floor, and let go what is below it."""
        pinned = declaration(len(self.records)).model_copy(update={"previous_watermark_ms": self.watermarks[-2]})
        self.floor = max(self.floor, self.live.floor(pinned))
        run(delete_all(self.live.take_out(self.floor)), self.store)

    def publish(self, rows: list[tuple[str, int]]) -> list[bool]:
        """Run the epoch that is declared; tell which rows were new."""
        epoch, watermark = len(self.records), self.watermarks[-1]
        timely = [(name, time) for name, time in rows if not WINDOWS.closed(WINDOWS.start(time), watermark)]
        known = self.anew(catalog.KIND, lambda: Catalog(WINDOWS))
        known.expire(watermark)
        new = known.decide(pa.array([name for name, _ in timely], pa.string())).tolist()
        accepted = pa.Table.from_pylist(
            [{"id": name, "event_time_ms": time} for (name, time), is_new in zip(timely, new, strict=True) if is_new],
            catalog.SCHEMA,
        )
        tables = {catalog.KIND: accepted, "counts": state.partial(accepted, ("id",), VALUES, WINDOWS)}
        deltas = {kind: {"0": self.log(kind).write(epoch, table)} for kind, table in tables.items()}
        spans = {kind: merge.merge_oldest(self.log(kind), self.entries(kind), fan=2, readers=1) for kind in KINDS}
        merged = {kind: {"0": span} for kind, span in spans.items() if span is not None and self.merges}
        times = [time for time in accepted["event_time_ms"].to_pylist() if time is not None]
        record = record_of(declaration(epoch)).model_copy(
            update={"deltas": deltas, "merged": merged, "max_event_time_ms": max(times, default=None)}
        )
        self.records.append(record)
        self.live.add(record)
        self.watermarks.append(max((time for time in (watermark, *times) if time is not None), default=None))
        return list(new)

    def log(self, kind: str) -> ShardDeltas:
        return ShardDeltas(self.store, LAYOUT, kind, 0, KINDS[kind], inline_bytes=30)

    def entries(self, kind: str) -> list[Named]:
        return self.live.list_named().get(kind, {}).get(0, [])

    def anew(self, kind: str, fresh: Callable[[], S], cache: FoldCache | None = None) -> S:
        return (cache or FoldCache()).state(self.log(kind), fresh, self.entries(kind), len(self.records))

    def ids(self) -> tuple[int, list[bool]]:
        """How many ids are live before the epoch that comes, and which of all are new to it."""
        known = self.anew(catalog.KIND, lambda: Catalog(WINDOWS))
        known.expire(self.watermarks[-1])
        return len(known), known.decide(pa.array(NAMES)).tolist()

    def windows(self, cache: FoldCache | None = None) -> tuple[pa.Table, pa.Table]:
        """What the epoch that comes publishes of its windows, and all that are open before it."""
        counts = self.anew("counts", lambda: WindowState(WINDOWS, VALUES), cache)
        counts.expire(self.watermarks[-2])
        return counts.final(self.watermarks[-2], self.watermarks[-1]), counts.final(self.watermarks[-2], OPEN_END)


EPOCHS = st.lists(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 60)), max_size=4), min_size=1, max_size=14)


@pytest.mark.deep
@settings(max_examples=examples(150))
@given(EPOCHS, st.lists(st.booleans(), min_size=14, max_size=14), st.integers(3, 30))
def test_state_folded_from_spans_is_that_folded_from_their_deltas(
    epochs: list[list[tuple[str, int]]], there: list[bool], pace: int
) -> None:
    """Also for a worker that has kept state of any epoch before.

    The floor divides spans: what they bring of windows that closed long ago must have no effect.
    """
    plain, merged, cache = Shard(merges=False), Shard(merges=True), FoldCache()
    for number, rows in enumerate(epochs):
        moved = [(name, time + pace * number) for name, time in rows]
        for shard in (plain, merged):
            shard.declare()
        assert merged.floor == plain.floor
        assert merged.ids() == plain.ids()
        windows = plain.windows()
        assert merged.windows() == windows
        if there[number]:
            assert merged.windows(cache) == windows
        assert merged.publish(moved) == plain.publish(moved)


@settings(max_examples=examples(100))
@given(EPOCHS, st.integers(3, 30), st.integers(0, 6))
def test_a_driver_that_starts_names_what_the_one_before_named(
    epochs: list[list[tuple[str, int]]], pace: int, more: int
) -> None:
    """And so does everybody who looks at the chain: inspection, backup. They may read more records than they need."""
    shard = Shard(merges=True)
    for number, rows in enumerate(epochs):
        shard.declare()
        records = shard.records[max(0, shard.floor - more) :]
        anew = LiveDeltas(LAYOUT, (WINDOWS,), records, shard.floor)
        assert anew.list_named() == shard.live.list_named()
        pinned = declaration(number).model_copy(update={"previous_watermark_ms": shard.watermarks[-2]})
        assert anew.floor(pinned) == shard.live.floor(pinned)
        found = list(contents.live_deltas(records, shard.floor))
        assert [delta.named.epoch for delta in found] == sorted(delta.named.epoch for delta in found)
        for kind in KINDS:
            named = [delta.named for delta in found if delta.kind == kind]
            assert named == [entry for entry in shard.entries(kind) if entry.rows.rows]
        for delta in found:
            stored = delta.named_object(LAYOUT)
            assert stored is None or stored.check(shard.store.objects[stored.key]) is not None
        shard.publish([(name, time + pace * number) for name, time in rows])


def test_the_floor_divides_spans_in_these_tests() -> None:
    """Otherwise they show less than they say."""
    shard, divided, longest = Shard(merges=True), 0, 0
    for number in range(20):
        shard.declare()
        for entry in shard.entries("counts"):
            divided += entry.first < shard.floor <= entry.epoch
            longest = max(longest, entry.epoch - entry.first + 1)
        shard.publish([(f"id-{number}", 9 * number)])
    assert divided > 0
    assert longest == 4


def test_what_a_task_was_told_does_not_change_when_its_epoch_is_published() -> None:
    """A task that is sent again folds the same."""
    shard = Shard(merges=True)
    for number in range(3):
        told = shard.live.list_named()
        kept = json.dumps(told, default=str)
        shard.declare()
        shard.publish([(f"id-{number}", 0)])
        assert json.dumps(told, default=str) == kept != json.dumps(shard.live.list_named(), default=str)


LONG = Windows(1000, 8000)
Published = dict[tuple[str, int, int], list[Row]]


def publisher(to: Published) -> Callable[[str, int, int, int, list[Row]], Rows]:
    """A sink with marks: what is published of an epoch is published once, and a repeat has to bring the same."""

    def publish(sink: str, shard: int, epoch: int, generation: int, rows: list[Row]) -> Rows:
        if to.setdefault((sink, shard, epoch), rows) != rows:
            raise SinkError("other rows", f"{sink} {shard}", "epoch by epoch")
        return Rows(rows=len(rows))

    return publish


def started(store: MemoryStore, owner: str, to: Published, fan: int = 2) -> LedgerDriver:
    return LedgerDriver.started(store, LAYOUT, owner, publish=publisher(to), fan=fan, windows=LONG)


def ran(driver: LedgerDriver, until: int) -> None:
    """Publish epochs, the last of which is `until`, and record it."""
    for step in driver.steps():
        if step == "published" and chain.record_epoch(driver.held.head, driver._published).last_recorded >= until:
            break
    driver.stop()


EPOCHS_RUN = 24


@pytest.fixture(scope="module")
def unmerged() -> Published:
    """What a driver publishes that merges nothing."""
    rows: Published = {}
    ran(started(MemoryStore(), "plain", rows, fan=1000), EPOCHS_RUN - 1)
    assert sum(len(each) for (sink, _, _), each in rows.items() if sink == USER_COUNTS) > 0
    ids = [json.loads(line)["id"] for (sink, _, _), each in rows.items() if sink == ACCEPTED for _, line in each]
    assert sorted(ids) == accepted_once(EPOCHS_RUN)
    return rows


@pytest.mark.deep
@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 40)), max_size=12))
def test_two_drivers_that_merge_publish_what_one_publishes_that_does_not(
    unmerged: Published, turns: list[tuple[int, int]]
) -> None:
    """Each goes on for some steps, is left in the middle, and goes on after the other; one that is refused starts anew.

    A driver that was replaced may find that what it reads was deleted, or that it may not declare. Nobody else may.
    """
    store, rows = MemoryStore(), Published()
    drivers: dict[int, tuple[LedgerDriver, Iterator[str]]] = {}
    owner = -1
    for who, count in turns:
        if who not in drivers:
            driver, owner = started(store, f"{who}", rows), who
            drivers[who] = driver, driver.steps()
        driver, steps = drivers[who]
        try:
            for _ in range(count):
                if driver.held.head.last_recorded < EPOCHS_RUN - 3:
                    next(steps)
        except (StaleDriverError, ChainError):
            assert owner != who
            del drivers[who]
    ran(started(store, "last", rows), EPOCHS_RUN - 1)
    assert rows == unmerged
    assert wanted(store) <= stored(store)


def test_a_driver_that_was_replaced_cannot_merge_what_the_newer_one_has_deleted() -> None:
    store, rows = MemoryStore(), Published()
    stale = started(store, "stale", rows)
    steps = stale.steps()
    while (next(steps), stale.held.head.last_recorded) != ("decided 0", 1):
        pass
    newer = started(store, "newer", rows)
    ran(newer, 4)
    assert LAYOUT.delta("ids", 0, 0) not in store.objects
    before = dict(store.objects)
    with pytest.raises(ChainError, match=f"missing .{LAYOUT.delta('ids', 0, 0)}"):
        next(steps)
    assert store.objects == before


def live(store: MemoryStore) -> list[contents.LiveDelta]:
    head = run(chain.read(LAYOUT), store)
    return list(contents.live_deltas(run(segments.history(LAYOUT, head, head.floor), store), head.floor))


def stored(store: MemoryStore) -> set[str]:
    return {key for key in store.objects if "/deltas/" in key}


def wanted(store: MemoryStore) -> set[str]:
    return {named.key for delta in live(store) if (named := delta.named_object(LAYOUT)) is not None}


def test_what_head_names_is_never_deleted_and_all_else_is() -> None:
    """Looked at before each request: a reader of head may come at any moment."""
    store, rows, lengths = ListedStore(), Published(), set[int]()

    def look(request: Request) -> None:
        if isinstance(request, Delete):
            assert request.key not in wanted(store)

    store.before = look
    driver = started(store, "first", rows)
    left: list[int] = []
    for step in driver.steps():
        if step == "collected":
            assert wanted(store) <= stored(store)
            left.append(len(stored(store) - wanted(store)))
            lengths |= {delta.named.epoch - delta.named.first + 1 for delta in live(store)}
            if len(left) == 30:
                break
    assert lengths == {1, 2, 4}
    assert set(left) == {0}


def test_parts_that_a_driver_left_are_deleted_by_the_next_one() -> None:
    """A stop in order comes before the deletion, and so may a crash."""
    store, rows = MemoryStore(), Published()
    ran(started(store, "first", rows), 2)
    parts = {LAYOUT.delta("ids", epoch, 0) for epoch in (0, 1)}
    assert parts <= stored(store) - wanted(store)
    steps = started(store, "second", rows).steps()
    assert next(steps) == "declared"
    assert parts <= stored(store)
    assert next(steps) == "collected"
    assert not parts & stored(store)


def test_a_start_does_not_delete_again_what_was_merged_long_ago() -> None:
    shard = Shard(merges=True)
    for number in range(RECENT + 20):
        shard.declare()
        shard.publish([("a", 0), (f"b{number}", 0)])
    assert shard.floor == 0
    anew, deleted = LiveDeltas(LAYOUT, (WINDOWS,), shard.records, 0), list[str]()
    store = ListedStore()
    store.before = lambda request: deleted.append(request.key)
    while True:
        before = len(deleted)
        run(delete_all(anew.take_out(0)), store)
        assert len(deleted) - before <= PACE * len(KINDS)
        if len(deleted) == before:
            break
    merged_then = {key.removesuffix(".arrow").rsplit("/", 1)[1].split("-")[0] for key in deleted}
    assert min(int(first) for first in merged_then) >= 20 - 4
    assert not set(deleted) & {
        named.key
        for delta in contents.live_deltas(shard.records, 0)
        if (named := delta.named_object(LAYOUT)) is not None
    }


@pytest.mark.parametrize("floor", [0, 3, RECENT])
def test_a_start_knows_what_lives_of_epochs_long_ago(floor: int) -> None:
    """More of them than a former driver may have left undeleted."""
    records = [record_of(declaration(epoch)) for epoch in range(RECENT + 6)]
    live = LiveDeltas(LAYOUT, (Windows(60_000, 120_000),), records, floor)
    assert [entry.epoch for entry in live.list_named()["ids"][0]] == list(range(floor, RECENT + 6))
