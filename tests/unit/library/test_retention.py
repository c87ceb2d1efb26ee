"""Tidying up while drivers run: what nobody reads any more goes, and nothing that anybody reads (R9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.errors import ChainError, PipelineError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, Request, run
from effectively_once.operate.retention.leftovers import Sort, View
from effectively_once.operate.retention.retention import CHUNK, KEPT, UNSOUND, YOUNG, Leftovers, Retention
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.state.lateness import Windows
from effectively_once.store.listing import Listed
from tests.depth import examples
from tests.unit.library.ledger_driver import GLOBAL_SCHEMA, LedgerDriver, global_counts
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.names import GLOBAL_COUNTS
from tests.unit.library.test_reader import counts_of, file_of, rows_of

LAYOUT = Layout("clicks")
WIDE, FAN = Windows(1000, 9000), 3
"""Some twelve epochs live, and three deltas become a span, three spans another one."""
DAY_MS = 24 * 3600 * 1000


class AgedStore(ListedStore):
    """Objects of the age that a test gives them, a day old by default.

    Attributes:
        born_ms: by name.
        listing: is called before each object that is listed.

    """

    def __init__(self) -> None:
        super().__init__()
        self.born_ms: dict[str, int] = {}
        self.listing: Callable[[], object] = lambda: None

    def list_objects(self, prefix: str) -> Iterator[Listed]:
        for name in list(self.names(prefix)):
            self.listing()
            if name in self.objects:
                yield Listed(name, len(self.objects[name]), self.born_ms.get(name, 0))


def driver(store: AgedStore, owner: str = "first") -> LedgerDriver:
    return LedgerDriver.started(store, LAYOUT, owner, fan=FAN, windows=WIDE)


@cache
def _objects() -> Mapping[str, bytes]:
    """What 40 epochs leave, tidied: run once, looked at by many."""
    made = AgedStore()
    driver(made).run(40)
    tidied(made)
    return dict(made.objects)


@pytest.fixture
def store() -> AgedStore:
    """Hold a pipeline of 40 epochs that was stopped in order, and nothing else."""
    made = AgedStore()
    made.objects.update(_objects())
    return made


def retention(store: AgedStore, **how: object) -> Retention:
    return Retention(store, LAYOUT, now_ms=lambda: DAY_MS, **{"letters": frozenset, **how})  # type: ignore[arg-type]


def tidied(store: AgedStore, **how: object) -> Leftovers:
    work = retention(store, **how)
    leftovers = work.find()
    work.delete(leftovers)
    return leftovers


def names(leftovers: Leftovers) -> dict[Sort, list[str]]:
    return {sort: [one.name for one in objects] for sort, objects in leftovers.objects.items() if objects}


def put(store: AgedStore, *keys: str) -> list[str]:
    for key in keys:
        store.objects[key] = b"left over"
    return list(keys)


def needed(store: AgedStore) -> set[str]:
    """Every object that the chain, or a manifest of it, names."""
    view = View.of(LAYOUT, store)
    manifests = ManifestSink(store, LAYOUT, GLOBAL_COUNTS)
    files = {
        file["name"]
        for epoch in range(view.head.last_recorded + 1)
        for file in (manifests.manifest(epoch) or {"files": []})["files"]
    }
    other = {key for key in store.objects if "/segments/" in key or "/manifests/" in key}
    return {LAYOUT.head, *view.named, *files, *other}


def left_over(store: AgedStore) -> dict[Sort, list[str]]:
    """Put one of each sort there, or several; they are what a crash, or a driver that was replaced, leaves."""
    floor = run(chain.read(LAYOUT), store).floor
    with_rows = next(epoch for epoch, _ in rows_of(store))
    return {
        Sort.DELTAS: put(
            store, LAYOUT.delta("ids", 5, 0), LAYOUT.span("counts", 0, floor - 1, 1), LAYOUT.delta("old", 38, 0)
        ),
        Sort.FILES: put(
            store, LAYOUT.staged_file(GLOBAL_COUNTS, with_rows, "aa"), LAYOUT.staged_file(GLOBAL_COUNTS, 0, "bb")
        ),
        Sort.RECORDED: put(store, LAYOUT.step_record("rate", 39, 0)),
        Sort.SHOWN: put(store, LAYOUT.shown_rows(0, 1, 1)),
        Sort.LETTERS: put(store, LAYOUT.letter(39, "a" * 64), LAYOUT.letter(2, "b" * 64)),
        Sort.CHECKPOINTS: put(store, f"{LAYOUT.checkpoint('000000-cdef')}/offsets/0"),
    }


def test_a_pipeline_that_was_stopped_in_order_keeps_everything_it_needs(store: AgedStore) -> None:
    assert needed(store) == set(store.objects)
    assert any("-" in key for key in View.of(LAYOUT, store).named), "spans among it"
    assert len(retention(store).find()) == 0


def test_one_of_each_sort_is_found_and_nothing_else_is_deleted(store: AgedStore) -> None:
    before, expected = dict(store.objects), left_over(store)
    for sort, keys in expected.items():
        expected[sort] = sorted(keys)
    leftovers = retention(store).find()
    assert {sort: sorted(keys) for sort, keys in names(leftovers).items()} == expected
    assert not [request for request in store.requests if isinstance(request, Delete) and request.key in before]
    assert set(store.objects) > set(before), "finding deletes nothing"
    tidied(store)
    assert store.objects == before


def test_what_was_found_is_told_by_sort(store: AgedStore) -> None:
    left_over(store)
    put(store, "clicks/deltas/README")
    leftovers = retention(store).find()
    floor = leftovers.floor
    assert list(leftovers.lines()) == [
        f"chain: epoch 39 is the last recorded, floor {floor}",
        "deltas               3 objects                27 bytes",
        "files                2 objects                18 bytes",
        "recorded             1 objects                 9 bytes",
        "shown                1 objects                 9 bytes",
        "letters              2 objects                18 bytes",
        "checkpoints          1 objects                 9 bytes",
        "left: 1 of unknown names",
    ]


def test_what_is_young_or_of_a_sort_to_keep_stays(store: AgedStore) -> None:
    expected = left_over(store)
    store.born_ms[expected[Sort.FILES][0]] = DAY_MS - 3_600_000 + 1
    store.born_ms[expected[Sort.FILES][1]] = DAY_MS - 3_600_000
    leftovers = tidied(store, keep={Sort.RECORDED})
    assert names(leftovers)[Sort.FILES] == [expected[Sort.FILES][1]]
    assert leftovers.left == {YOUNG: 1, KEPT: 1}
    assert set(store.objects) - needed(store) == {expected[Sort.FILES][0], *expected[Sort.RECORDED]}
    assert len(tidied(store, age_s=0)) == 2


def test_files_of_an_epoch_whose_manifest_is_lost_or_damaged_stay(store: AgedStore) -> None:
    """They may be all that is left of the rows."""
    lost, damaged = [epoch for epoch, _ in rows_of(store)][:2]
    files = {file_of(store, lost), file_of(store, damaged)}
    del store.objects[LAYOUT.manifest(GLOBAL_COUNTS, lost)]
    store.objects[LAYOUT.manifest(GLOBAL_COUNTS, damaged)] = b"{}"
    leftovers = tidied(store)
    assert (len(leftovers), leftovers.left) == (0, {UNSOUND: 2})
    assert files <= set(store.objects)


def test_without_a_head_nothing_is_looked_for(store: AgedStore) -> None:
    del store.objects[LAYOUT.head]
    before = dict(store.objects)
    with pytest.raises(ChainError, match="head is gone"):
        tidied(store)
    assert store.objects == before


def test_a_chain_that_is_replaced_while_it_is_listed_is_left_alone(store: AgedStore) -> None:
    other = AgedStore()
    driver(other, "other").run(45)
    older = store.objects[LAYOUT.head]
    left_over(store)
    for head in (other.objects[LAYOUT.head], older):
        driver(store, "second").run(2)
        before = {**store.objects, LAYOUT.head: head}
        for key in other.objects:
            before.setdefault(key, other.objects[key])

        def replace(before: dict[str, bytes] = before) -> None:
            store.objects = dict(before)

        store.listing = replace
        with pytest.raises(ChainError, match="not what it was when its bucket was listed"):
            tidied(store)
        assert store.objects == before
        store.listing = lambda: None


def test_a_driver_that_begins_a_lineage_meanwhile_keeps_its_checkpoint(store: AgedStore) -> None:
    """Its head comes between the two that are read, and no epoch of the lineage is declared yet."""
    lineages = [f"{LAYOUT.checkpoint(f'{number:06d}-{owner}')}/metadata" for number, owner in ((1, "aa"), (2, "bb"))]

    def begin() -> None:
        store.listing = lambda: None
        run(chain.take_over(LAYOUT, "bbbb", {}), store)
        put(store, *lineages)

    put(store, f"{LAYOUT.checkpoint('000000-0000')}/metadata")
    store.listing = begin
    tidied(store)
    assert set(lineages) <= set(store.objects)
    assert names(tidied(store)) == {Sort.CHECKPOINTS: lineages[:1]}, "the new driver's is younger than any head"


def test_an_interrupted_deletion_is_finished_by_another_one(store: AgedStore) -> None:
    before = dict(store.objects)
    put(store, *(LAYOUT.step_record("rate", epoch, shard) for epoch in range(40) for shard in range(100)))
    work, deletes = retention(store), count()
    leftovers = work.find()

    def interrupt(request: Request) -> None:
        if isinstance(request, Delete) and next(deletes) == 1500:
            raise KeyboardInterrupt

    store.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        work.delete(leftovers)
    left = len(store.objects) - len(before)
    assert CHUNK < left < 4000 - CHUNK
    store.mend()
    said: list[str] = []
    assert len(tidied(store, say=said.append)) == left
    assert store.objects == before
    assert said[-1] == f"{left:,} of {left:,} objects are deleted"


class Drivers:
    """A driver, and those that it replaced and that do not know it yet, at the pace of given turns.

    A turn is a number of steps, or 8: a driver takes over, or 9: a driver that was replaced does a step.
    """

    def __init__(self, store: AgedStore, turns: list[int]) -> None:
        self._store, self._turns, self._numbers = store, iter(turns), count(1)
        self._stale: list[Iterator[str]] = []
        self._now = self._taken_over()
        self._inside = False

    def _taken_over(self) -> Iterator[str]:
        return driver(self._store, f"driver {next(self._numbers)}").steps()

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            next(self._now)

    def turn(self, *_: object) -> None:
        # Drivers ask the store too, and that is no turn.
        if self._inside:
            return
        self._inside = True
        try:
            self._turn(next(self._turns, 0))
        finally:
            self._inside = False

    def _turn(self, turn: int) -> None:
        if turn < 8:
            self.advance(turn)
        elif turn == 8:
            self._stale.append(self._now)
            self._now = self._taken_over()
        elif self._stale:
            stale = self._stale.pop(0)
            try:
                next(stale)
            except PipelineError:
                return
            self._stale.append(stale)


@pytest.mark.deep
@settings(max_examples=examples(20))
@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 150))
def test_whatever_drivers_do_meanwhile_nothing_that_is_read_goes_and_no_leftover_stays(
    turns: list[int], first_steps: int
) -> None:
    """Drivers do something before each request and each listed object. The one that runs goes on, then another."""
    store = AgedStore()
    drivers = Drivers(store, turns)
    drivers.advance(first_steps)
    store.before = store.listing = drivers.turn
    tidied(store, age_s=0)
    tidied(store, age_s=0)
    store.mend()
    store.listing = lambda: None
    drivers.advance(20)
    after = driver(store, "after")
    after.run(20)
    assert counts_of(rows_of(store)) == global_counts(after.held.head.last_recorded + 1, WIDE)
    tidied(store, age_s=0)
    assert set(store.objects) == needed(store)


def test_an_attempt_that_comes_after_its_files_were_deleted_changes_nothing(store: AgedStore) -> None:
    """A driver that was replaced publishes a recorded epoch: it finds the manifest, and its file goes again."""
    epoch, table = next((epoch, table) for epoch, table in rows_of(store))
    before = dict(store.objects)
    ManifestSink(store, LAYOUT, GLOBAL_COUNTS).publish(epoch, 1, pa.table(table, GLOBAL_SCHEMA))
    assert len(store.objects) == len(before) + 1
    assert len(tidied(store)) == 1
    assert store.objects == before
