"""What the shards of an epoch told becomes its record, and an epoch that a shard is missing from has none."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from effectively_once import Count, Pipeline, ToFiles, ToIceberg, ToKafka, ToTable, Windowed
from effectively_once.epoch import between
from effectively_once.epoch.summary import Summary
from effectively_once.errors import InputError, SinkError
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Answer, Get, Put, Request
from effectively_once.ledger.rows import Rows
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.staged import StagedFile, StagedSink
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration
from tests.unit.library.lake import Lake

SHARDS, EPOCH = 2, 4
PIPELINE = Pipeline(
    lambda frame: frame,
    pa.schema([("user", pa.string())]),
    rows=(ToKafka("accepted"), ToTable("orders"), ToFiles("raw")),
    windows=(Windowed("user", {"n": Count()}, ToKafka("per_user"), totals=ToFiles("totals")),),
)
FIRST, SECOND = ("accepted", "orders", DEAD_LETTER), ("per_user",)
TOTAL = {"kind": "total", "of": "per_user", "key": "", "window_start_ms": 0}
FOUND = pa.Table.from_pylist([{**TOTAL, "v0": 3}, {**TOTAL, "v0": 4}], between.columns(PIPELINE))


class Files:
    """The object-store sinks of one pipeline."""

    def __init__(self) -> None:
        self.store, self.layout = MemoryStore(), Layout("orders")
        for name in PIPELINE.file_sinks:
            self(name).publish_staged(EPOCH - 1, 1, [], begins=True)

    def __call__(self, name: str) -> ManifestSink:
        return ManifestSink(self.store, self.layout, name)

    def staged(self, shard: int) -> StagedFile:
        return self("raw").stage(EPOCH, pa.table({"shard": [shard], "user": [f"u{shard}"]}))

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [row for _, _, row in self(name).rows(EPOCH, EPOCH)]


def rows(sink: str, shard: int) -> dict[str, Any]:
    return Rows(rows=10 * shard + len(sink), digest=f"{shard}" * 32, bytes=shard + 1).model_dump()


def note(shard: int, sinks: tuple[str, ...], **counts: Any) -> dict[str, Any]:
    """What a step of a shard tells, on its way through JSON."""
    told = {
        "sinks": {sink: rows(sink, shard) for sink in sinks},
        "deltas": {},
        "merged": {},
        "files": {},
        "repeated": False,
        "ms": {"step": 1},
        **counts,
    }
    return json.loads(json.dumps(told))  # type: ignore[no-any-return]


def first(files: Files, shard: int, **changes: Any) -> dict[str, Any]:
    counts = {
        "read": 10,
        "accepted": 5,
        "late": 2,
        "malformed": 1,
        "duplicate": 2,
        "catalog": {"live": 5, "bytes": 80},
        "max_event_time_ms": 100 + shard,
        "files": {"raw": files.staged(shard).model_dump()},
    }
    return note(shard, FIRST, **{**counts, **changes})


def publish(files: Files, **changes: Any) -> tuple[list[int], list[dict[str, Any]]]:
    return [0, 1, 0, 1], [first(files, 0, **changes), first(files, 1), note(0, SECOND), note(1, SECOND)]


def whole(files: Files, shards: list[int], notes: list[dict[str, Any]]) -> EpochRecord:
    """Do what a driver does once all shards have reported."""
    summary = Summary(shards, notes)
    summary.publish_files(PIPELINE, FOUND, declaration(EPOCH), 9, files)
    return summary.record(declaration(EPOCH), 9, PIPELINE, SHARDS)


@pytest.fixture
def files() -> Files:
    return Files()


def test_a_record_holds_the_declaration_and_the_sum_of_what_the_shards_told(files: Files) -> None:
    record = whole(files, *publish(files))
    pinned = declaration(EPOCH).model_dump()
    assert {name: value for name, value in record.model_dump().items() if name in pinned} == pinned
    assert record.generation == 9
    assert record.counts.model_dump(by_alias=True) == {
        "in": 20,
        "accepted": 10,
        "duplicate": 4,
        "late": 4,
        "malformed": 2,
    }
    assert record.catalog == {"live": 10, "bytes": 160}
    assert record.max_event_time_ms == 101
    for sink in (*FIRST, *SECOND):
        assert record.sinks[sink] == {str(shard): Rows(**rows(sink, shard)) for shard in range(SHARDS)}
    assert record.sinks.keys() == {"totals", "raw", *FIRST, *SECOND}


def test_records_of_all_shards_are_those_of_the_epoch(files: Files) -> None:
    """Where a record has several rows; else it has none to tell."""
    shards, notes = publish(files, records=4)
    notes[1]["records"] = 3
    assert whole(files, shards, notes).records == 7
    assert whole(files, *publish(files)).records is None


def test_files_of_all_shards_and_totals_become_visible(files: Files) -> None:
    record = whole(files, *publish(files))
    assert sorted(row["user"] for row in files.rows("raw")) == ["u0", "u1"]
    assert files.rows("totals") == [{"window_start_ms": 0, "n": 7}]
    assert {sink: {shard: rows.rows for shard, rows in record.sinks[sink].items()} for sink in ("raw", "totals")} == {
        "raw": {"0": 2},
        "totals": {"0": 1},
    }


def test_totals_become_visible_in_a_lake_table_too(files: Files) -> None:
    (windows,) = PIPELINE.windows
    pipeline = replace(PIPELINE, windows=(replace(windows, totals=ToIceberg("totals")),))
    lake = Lake(shape=pipeline.lake_tables["totals"])
    lake.sink().publish_staged(EPOCH - 1, 1, [], begins=True)
    summary = Summary(*publish(files))

    def opened(name: str) -> StagedSink:
        return lake.sink() if name == "totals" else files(name)

    summary.publish_files(pipeline, FOUND, declaration(EPOCH), 9, opened)
    assert lake.table.scan().to_arrow().to_pylist() == [{"window_start_ms": 0, "n": 7}]


def test_the_order_in_which_shards_report_does_not_matter(files: Files) -> None:
    shards, notes = publish(files)
    record = whole(files, shards, notes)
    again = whole(files, shards[::-1], notes[::-1])
    assert again.model_copy(update={"ms": {}}) == record.model_copy(update={"ms": {}})


def test_deltas_and_spans_are_kept_by_kind_and_shard(files: Files) -> None:
    delta = Delta(rows=3, digest="1" * 32, bytes=4, inline='{"id":["a"]}')
    span = Span(first=0, last=63, rows=5, digest="2" * 32)
    shards, notes = publish(files, deltas={"ids": delta.model_dump()}, merged={"ids": span.model_dump()})
    notes[3]["deltas"] = {"per_user": delta.model_dump()}
    record = whole(files, shards, notes)
    assert record.deltas == {"ids": {"0": delta}, "per_user": {"1": delta}}
    assert record.merged == {"ids": {"0": span}}


@pytest.mark.parametrize(("times", "latest"), [((None, None), None), ((None, 5), 5), ((0, None), 0), ((-7, -9), -7)])
def test_the_latest_time_is_that_of_the_shards_that_accepted_something(
    files: Files, times: tuple[int | None, int | None], latest: int | None
) -> None:
    """Time 0 is a time, and so are those before 1970."""
    shards, notes = publish(files)
    for shard, time in enumerate(times):
        notes[shard]["max_event_time_ms"] = time
    assert whole(files, shards, notes).max_event_time_ms == latest


@pytest.mark.parametrize(
    ("told", "excess_ms"), [((-9, None), -9), ((None, -5), -5), ((-9, -5), -5), ((None, None), None)]
)
def test_time_has_to_go_where_the_shard_needs_it_that_holds_the_most(
    files: Files, told: tuple[int | None, int | None], excess_ms: int | None
) -> None:
    """Of either step; one of an older version says nothing of it."""
    notes = [first(files, 0, excess_ms=told[0]), first(files, 1), note(0, SECOND, excess_ms=told[1]), note(1, SECOND)]
    assert whole(files, [0, 1, 0, 1], notes).excess_ms == excess_ms


def test_milliseconds_are_those_of_the_slowest_shard_by_step(files: Files) -> None:
    shards, notes = publish(files, ms={"step": 5, "ids": 2})
    notes[1]["ms"] = {"step": 3, "ids": 4}
    notes[2]["ms"] = {"per_user": 6}
    ms = whole(files, shards, notes).ms
    assert {name: ms[name] for name in ("step", "ids", "per_user")} == {"step": 5, "ids": 4, "per_user": 6}
    assert ms.keys() == {"step", "ids", "per_user", "raw", "totals"}


@pytest.mark.parametrize("at", range(4))
def test_an_epoch_is_a_repeat_as_soon_as_one_step_of_one_shard_was_one(files: Files, at: int) -> None:
    shards, notes = publish(files)
    assert not Summary(shards, notes).repeated
    notes[at]["repeated"] = True
    assert Summary(shards, notes).repeated


def test_an_epoch_whose_files_were_visible_before_is_a_repeat(files: Files) -> None:
    whole(files, *publish(files))
    shards, notes = publish(files)
    summary = Summary(shards, notes)
    summary.publish_files(PIPELINE, FOUND, declaration(EPOCH), 9, files)
    assert summary.repeated
    assert len(files.rows("raw")) == 2


def test_a_repeat_with_other_totals_is_refused(files: Files) -> None:
    whole(files, *publish(files))
    with pytest.raises(SinkError, match=r"^epoch 4 is published with digest \S+, its repeat has"):
        Summary(*publish(files)).publish_files(PIPELINE, FOUND.slice(1), declaration(EPOCH), 9, files)


@pytest.mark.parametrize(("at", "sinks"), [(0, FIRST), (1, FIRST), (2, SECOND), (3, SECOND)])
def test_an_epoch_without_the_report_of_a_shard_is_not_recorded(files: Files, at: int, sinks: tuple[str, ...]) -> None:
    shards, notes = publish(files)
    del shards[at], notes[at]
    with pytest.raises(RuntimeError, match=r"^epoch 4: some shards of .* did not report") as missing:
        whole(files, shards, notes)
    assert any(sink in str(missing.value) for sink in (*sinks, "raw"))


@pytest.mark.parametrize("sink", [*FIRST, *SECOND])
def test_an_epoch_that_a_sink_of_one_shard_is_missing_from_is_not_recorded(files: Files, sink: str) -> None:
    shards, notes = publish(files)
    for told_by in notes[::2]:
        told_by["sinks"].pop(sink, None)
    with pytest.raises(RuntimeError, match=rf"some shards of \['{sink}'\] did not report"):
        whole(files, shards, notes)


@pytest.mark.parametrize("without", [(0,), (0, 1)])
def test_files_of_an_epoch_that_a_shard_is_missing_from_stay_invisible(files: Files, without: tuple[int, ...]) -> None:
    """A manifest is created once: with some of the rows it could never be completed."""
    shards, notes = publish(files)
    for shard in without:
        notes[shard]["files"] = {}
    with pytest.raises(RuntimeError, match=r"some shards of \['raw'\] did not report"):
        whole(files, shards, notes)
    assert not files("raw").has(EPOCH)


class WatchedStore(MemoryStore):
    """Has those who ask for an object wait for each other."""

    def __init__(self, objects: dict[str, bytes], awaited: list[str]) -> None:
        super().__init__()
        self.objects, self.awaited, self.all_ask = objects, awaited, threading.Barrier(len(awaited))

    def answer(self, request: Request) -> Answer:
        if isinstance(request, Get) and request.key in self.awaited:
            self.all_ask.wait(20.0)
        return super().answer(request)


def manifests(files: Files, epoch: int) -> list[str]:
    return [files.layout.manifest(name, epoch) for name in PIPELINE.staged_sinks]


def test_staged_sinks_ask_side_by_side_and_show_in_the_order_of_declaration(files: Files) -> None:
    """Were one asked after the other, the first would wait for ever."""
    shards, notes = publish(files)
    store = files.store = WatchedStore(files.store.objects, manifests(files, EPOCH - 1))
    whole(files, shards, notes)
    ours = manifests(files, EPOCH)
    assert [put.key for put in store.requests if isinstance(put, Put) and put.key in ours] == ours


def test_the_manifest_before_is_asked_for_while_totals_are_staged(files: Files) -> None:
    """Were the file put first, it would wait for ever."""
    shards, notes = publish(files)
    both = threading.Barrier(2)

    class Store(MemoryStore):
        def answer(self, request: Request) -> Answer:
            before = files.layout.manifest("totals", EPOCH - 1)
            if (isinstance(request, Get) and request.key == before) or "/totals/data/" in request.key:
                both.wait(20.0)
            return super().answer(request)

    objects, files.store = files.store.objects, Store()
    files.store.objects = objects
    record = whole(files, shards, notes)
    assert record.sinks["totals"]["0"].rows == 1


@pytest.mark.parametrize("gone", [("raw",), ("totals",), ("raw", "totals")])
def test_nothing_is_shown_behind_a_sink_that_refuses(files: Files, gone: tuple[str, ...]) -> None:
    """The first one in order is told, and the others are logged."""
    shards, notes = publish(files)
    for name in gone:
        del files.store.objects[files.layout.manifest(name, EPOCH - 1)]
    with capture_logs() as logs, pytest.raises(SinkError, match="manifest of epoch 3 is gone") as refused:
        whole(files, shards, notes)
    wheres = [files.layout.manifest(name, EPOCH - 1) for name in gone]
    assert refused.value.where == wheres[0]
    assert [line["error"].split("(")[1].split(")")[0] for line in logs] == wheres[1:]
    order = PIPELINE.staged_sinks
    assert [name for name in order if files(name).has(EPOCH)] == [*order[: order.index(gone[0])]]


def test_an_epoch_without_its_totals_is_not_recorded(files: Files) -> None:
    with pytest.raises(RuntimeError, match=r"some shards of \['raw', 'totals'\]"):
        Summary(*publish(files)).record(declaration(EPOCH), 9, PIPELINE, SHARDS)


@pytest.mark.parametrize(
    ("read", "dense", "refused"),
    [(7, False, False), (6, False, False), (6, True, True), (7, True, False), (8, False, True)],
)
def test_rows_are_compared_with_the_offsets_of_the_epoch(read: int, dense: bool, refused: bool) -> None:
    """Offsets without a record are usual where somebody sends in transactions; rows without an offset never are."""
    pinned = declaration(EPOCH).model_copy(update={"ranges": {"t": {"0": (10, 14), "1": (0, 3)}}})
    summary = Summary([0, 1], [note(0, FIRST, read=4), note(1, FIRST, read=read - 4)])
    with pytest.raises(InputError, match=f"{read} rows of 7 offsets") if refused else nullcontext():
        summary.require_every_offset(pinned, dense=dense)


@pytest.mark.parametrize("rest", [False, True])
def test_rows_that_a_shard_leaves_have_come_all_the_same(rest: bool) -> None:
    """Of a divided epoch, and of one that takes its rest, whose own ranges cover nothing."""
    spans = {"t": {"0": (10, 14), "1": (0, 3)}}
    ended = {"t": {"0": (14, 14), "1": (3, 3)}}
    due = {"ranges": ended, "reads": spans, "repairs": EPOCH - 1, "after": {"0": ("t", 0, 11)}}
    pinned = declaration(EPOCH).model_copy(update=due if rest else {"ranges": spans})
    notes = [note(0, FIRST, read=2, came=4, left=("t", 0, 12)), note(1, FIRST, read=0, came=3)]
    Summary([0, 1], notes).require_every_offset(pinned, dense=True)
    notes[1]["came"] = 2
    with pytest.raises(InputError, match="6 rows of 7 offsets"):
        Summary([0, 1], notes).require_every_offset(pinned, dense=True)
