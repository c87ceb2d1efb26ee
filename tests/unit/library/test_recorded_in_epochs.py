"""What a recorded step adds to the rows of an epoch, and which of its steps demand that their input is whole."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Pipeline, RecordedStep, ToTable
from effectively_once.epoch import epoch, kept_rows, whole_input
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.errors import InputError, SinkError, StepError
from effectively_once.pipeline.columns import DEAD_LETTER
from tests.unit.library.one_epoch import COLUMNS, PIPELINE, STATEFUL, Place, closed, input_of, table


def recorded(function: Any, adds: pa.Schema | None = None, **more: Any) -> Pipeline:
    step = RecordedStep("priced", function, adds or pa.schema([("price", pa.int64())]))
    return Pipeline(lambda frame: frame, COLUMNS, recorded=step, rows=(ToTable("orders"),), **more)


def test_a_recorded_step_sees_accepted_rows_in_source_order_and_its_columns_are_published() -> None:
    seen: list[pa.Table] = []

    def price(rows: pa.Table) -> pa.Table:
        seen.append(rows)
        return pa.table({"price": pa.array(random.sample(range(10**9), rows.num_rows), pa.int64())})

    pipeline = recorded(price)
    rows = table([{"id": "b"}, {"id": "a"}, {"id": "b"}, {"id": "c", "reason": "bad"}], pipeline)
    place = Place()
    _, told = place.dedup(rows.take([3, 2, 1, 0]), pipeline)
    assert not told["repeated"]
    assert [table_.column_names for table_ in seen] == [pipeline.input.names]
    assert seen[0]["id"].to_pylist() == ["b", "a"]
    first = place.published["orders", 0]
    assert first.column_names == pipeline.row_schema.names
    _, told = place.dedup(rows, pipeline)
    assert told["repeated"]
    assert place.published["orders", 0] == first
    assert len(seen) == 1, "a repeat uses the record"


UNFIT = [
    (pa.array(["a\0b"]), "answer has a zero byte, which no table takes,"),
    (pa.array([10**7], pa.int32()).cast(pa.date32()), "answer is beyond the years 1 to 9999"),
    (pa.array([2**62], pa.timestamp("us", "UTC")), "answer is beyond the years 1 to 9999"),
    (pa.array([float("nan")]), "answer is not a finite number"),
]


@pytest.mark.parametrize(("answer", "says"), UNFIT)
def test_what_no_sink_could_hold_is_refused_before_it_is_recorded_or_anything_is_shown(
    answer: pa.Array, says: str
) -> None:
    adds = pa.schema([("answer", answer.type)])
    answers = iter([answer, pa.nulls(1, answer.type)])
    pipeline = recorded(lambda _: pa.table([next(answers)], adds), adds)
    place = Place()
    with pytest.raises(StepError, match=f"gave what no sink could hold: {says} in 1 rows"):
        place.dedup(table([{}], pipeline), pipeline)
    assert not [key for key in place.store.objects if "/recorded/" in key]
    assert not place.published
    place.dedup(table([{}], pipeline), pipeline)
    assert place.published["orders", 0]["answer"].to_pylist() == [None]


def test_a_step_that_decides_otherwise_when_repeated_is_refused_and_publishes_nothing() -> None:
    """More ids than travel inline: there is an object that holds the first decision."""
    rows = [{"id": f"{'x' * 100}{n}"} for n in range(40)]
    place = Place()
    place.dedup(table(rows))
    assert [key for key in place.store.objects if "/deltas/ids/" in key], "it is not inline"
    place.published.clear()
    with pytest.raises(SinkError, match=r"^a repeat of epoch 0 decided otherwise in step 'ids', shard 0"):
        place.dedup(table([*rows, {"id": "other"}]))
    assert place.published == {}


def test_ids_by_coordinate_store_nothing_and_accept_every_row() -> None:
    pipeline = Pipeline(lambda frame: frame, COLUMNS, ids="coordinates", rows=(ToTable("orders"),))
    assert pipeline.input.names == ["topic", "partition", "offset", "user", "amount"]
    place = Place()
    _, told = place.dedup(table([{}, {}, {"reason": "bad"}], pipeline), pipeline)
    assert (told["accepted"], told["malformed"], told["duplicate"]) == (2, 1, 0)
    assert (told["deltas"], told["catalog"], told["max_event_time_ms"]) == ({}, {}, None)
    assert place.store.objects == {}
    letter = json.loads(place.published[DEAD_LETTER, 0][0][1])
    assert (letter["id"], letter["reason"]) == (None, "bad")


def test_only_an_epoch_that_reads_nothing_needs_no_proof_of_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it was abandoned or nothing came; one that repairs another reads that one's ranges (R13)."""
    place = Place()

    def dedup(**pinned: Any) -> list[pa.RecordBatch]:
        task = place.task(PIPELINE, **pinned)
        monkeypatch.setattr(ShardStep, "of_task", lambda *_: place.step(task))
        return list(epoch.dedup(task, []))

    nothing = {"events": {"0": (4, 4), "1": (8, 8)}}
    for abandoned in (True, False):
        assert dedup(ranges=nothing, abandoned=abandoned)
    needs_proof: list[dict[str, Any]] = [{}, {"ranges": nothing, "repairs": 0}]
    for wrong in needs_proof:
        with pytest.raises(InputError, match="no closing row came"):
            dedup(**wrong)


STEPS = [(epoch.dedup, PIPELINE, "dedup"), (epoch.aggregate, PIPELINE, "windows"), (epoch.results, STATEFUL, "windows")]


@pytest.mark.parametrize(("step", "pipeline", "name"), STEPS, ids=["dedup", "aggregate", "results"])
def test_each_step_that_spark_calls_demands_its_whole_input(
    monkeypatch: pytest.MonkeyPatch, step: Any, pipeline: Pipeline, name: str
) -> None:
    """An end that nobody has closed, in order as it looks, decides and publishes nothing (R13)."""
    rows = input_of(name, pipeline)
    digested = pipeline.digested if name == "dedup" else ()

    def run_on(batches: list[pa.RecordBatch]) -> Place:
        place = Place()
        task = place.task(pipeline)
        if step is epoch.results:
            kept = table([], pipeline)
            kept_rows.keep(place.step(task), kept.select(pipeline.input.names), kept)
        before = {**place.store.objects}
        monkeypatch.setattr(ShardStep, "of_task", lambda *_: place.step(task, name))
        try:
            list(step(task, batches))
        except InputError:
            assert (place.store.objects, place.published) == (before, {}), "a part was decided"
            raise
        return place

    assert run_on(closed(rows, digested)).published
    unclosed = rows.append_column(whole_input.CLOSING, pa.nulls(rows.num_rows, pa.string()))
    for cut in ([], unclosed.to_batches(), closed(rows, digested, tasks=2), closed(rows, digested)[1:]):
        with pytest.raises(InputError, match="not whole"):
            run_on(cut)
