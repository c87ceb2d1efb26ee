"""The two steps that executors run on an epoch: dedup and publish, then aggregate and publish.

Both are functions of pinned input and of state before the epoch, so any attempt of any driver does the same:

    rows by id     -> dedup -> delta `ids` -> recorded step -> sinks of rows, `dead_letter` -> partial aggregates
                      (where tables have constraints: recorded step -> dry run -> delta `ids`)
    partials by key -> delta of the windows -> closed windows -> their sinks -> partial totals

Where state is Spark's own, its operators stand between the two (`stateful_step`); the second publishes all: the rows
that the first has kept (`kept_rows`), and the operators' results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once import long_texts
from effectively_once.epoch import (
    between,
    division,
    filtered,
    kept_records,
    kept_rows,
    letter_reasons,
    refusals,
    rows,
    too_large,
    unfit_results,
    whole_input,
)
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.epoch.messages import dead_letters, messages
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.ledger.clock import Times
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.sinks import ToKafka
from effectively_once.pipeline.windows import Windowed
from effectively_once.sinks.kafka_shard import Row
from effectively_once.state import catalog, windows
from effectively_once.state.held import HeldRows

Batches = Iterable[pa.RecordBatch]
_SHOWN = ("topic", "partition", "event_time_ms_max")


def dedup(task: EpochTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows of one shard by id -> accepted and dead-letter rows published, partial aggregates returned.

    Columns in: those of `rows.judge`, and shard.
    """
    step, digested = ShardStep.of_task(task, "dedup"), task.pipeline.digested
    yield from deduplicate(step, step.proven_input(batches, digested, nothing=task.declaration.reads_nothing))


def deduplicate(step: ShardStep, batches: Batches) -> Iterator[pa.RecordBatch]:
    """See `dedup`."""
    pipeline = step.task.pipeline
    part = division.input_of(step, batches)
    accepted, counts = publish(step, part.rows)
    for each in pipeline.windows:
        partial = windows.partial(accepted, each.keys, pipeline.accumulators(each), each.windows(step.task.windows))
        yield from between.carry(pipeline, "partial", each, partial)
    step.lap("partial")
    if pipeline.ids == "attached":
        step.merge(catalog.KIND, catalog.canonical)
    yield from between.report(pipeline, step.summary(**counts, **part.report))


def whole(step: ShardStep, batches: Batches) -> pa.Table:
    """All rows of the shard, in source order."""
    held = list(batches)
    rows_ = step.in_source_order(pa.Table.from_batches(held) if held else rows.empty(step.task.pipeline))
    step.lap("read")
    return rows_


def publish(step: ShardStep, whole: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
    """Decide on the rows of a shard and publish them; return the accepted ones, and what is counted of all."""
    accepted, dead, refused, counts = decide(step, whole)
    whence = step.task.pipeline.coordinates.names
    records = dead_letters(dead, step.task.declaration.epoch, kept_records.keeper(step), whence)
    results = [*too_large.letters(step), *refusals.letters(step, refused)]
    # A store that takes a large record no more stops an epoch of which nothing is visible.
    _show(step, accepted, [*records, *results])
    reasons = Counter(counts["letters"]) + Counter(letter_reasons.count_messages(results))
    return accepted, counts | {"letters": dict(reasons)}


def decide(step: ShardStep, whole: pa.Table) -> tuple[pa.Table, pa.Table, refusals.Refusals, dict[str, Any]]:
    """Decide on the rows of a shard, and show nothing of them.

    Returns:
        The accepted ones as sinks see them, those with a reason, what tables refuse, and what is counted of all.

    """
    task, pipeline = step.task, step.task.pipeline
    known = step.state.catalog() if pipeline.ids == "attached" else None
    tried, refused = None, refusals.Refusals({}, {})
    if task.declaration.tried:
        # Before ids are decided: that of a refused row stays unknown, so it may come again, mended.
        tried = _add_recorded(step, _new(whole, known))
        refused = refusals.settle(step, tried)
        whole = refusals.mark(whole, refused, pipeline.coordinates.names)
    dead, left_out = filtered.split(whole)
    timely, counters = whole.num_rows - dead.num_rows - sum(left_out.values()), {}
    accepted = _new(whole, known)
    if known is not None:
        counters = known.summary()
        step.decide(
            catalog.KIND, catalog.canonical, accepted.select(catalog.SCHEMA.names).cast(catalog.SCHEMA), "ids_decided"
        )
    accepted = (
        _add_recorded(step, accepted) if tried is None else refusals.without(tried, refused, pipeline.coordinates.names)
    )
    late = pc.sum(pc.equal(dead["reason"], "late")).as_py() or 0
    counts = {
        "read": whole.num_rows,
        "accepted": accepted.num_rows,
        "late": late,
        "malformed": dead.num_rows - late,
        "duplicate": timely - accepted.num_rows,
        "filtered": left_out,
        "letters": letter_reasons.count_records(dead["reason"]),
        "catalog": counters,
        "max_event_time_ms": pc.max(accepted["event_time_ms"]).as_py() if pipeline.timed else None,
        "shown_ms": {} if task.declaration.clock is None else shown_times(whole),
        "excess_ms": None if known is None else _excess_ms(step, known),
    }
    if pipeline.explode is not None:
        counts["records"] = whole_input.count_records(pipeline, whole)
    return accepted, dead, refused, counts


def _show(step: ShardStep, accepted: pa.Table, letters: list[Row]) -> None:
    """Publish rows of the input, and dead letters."""
    for to in step.task.pipeline.rows:
        step.publish(to.name, _for(step.task.pipeline, to.name, accepted, step.task.declaration.epoch))
    step.publish(DEAD_LETTER, letters)


def _excess_ms(step: ShardStep, known: catalog.Catalog) -> int | None:
    """Return up to which time a catalog holds too much. Most are too small for that to be counted."""
    small = len(known) <= step.task.settings.held_rows_max
    return None if small else step.state.excess_ms([(step.task.windows, known.count_held(step.task.front_ms))])


def _new(whole: pa.Table, known: catalog.Catalog | None) -> pa.Table:
    """Rows without a reason, but for copies."""
    fine = whole.filter(pc.is_null(whole["reason"]))
    return fine if known is None else fine.filter(pa.array(known.decide(fine["id"])))


def _add_recorded(step: ShardStep, accepted: pa.Table) -> pa.Table:
    """Rows as sinks see them."""
    rows_, recorded = accepted.select(step.task.pipeline.input.names), step.task.pipeline.recorded
    return rows_ if recorded is None else step.record(recorded, rows_)


def shown_times(rows_: pa.Table) -> Times:
    """Return the largest event time (ms since 1970) of each partition, of rows that can be judged.

    Late rows and copies count: they tell how far their partition has come, and move no other one's time.
    """
    judged = rows_.filter(pc.or_kleene(pc.is_null(rows_["reason"]), pc.equal(rows_["reason"], "late")))
    found: Times = {}
    latest = judged.group_by(["topic", "partition"]).aggregate([("event_time_ms", "max")])
    for topic, partition, time in zip(*(latest[name].to_pylist() for name in _SHOWN), strict=True):
        found.setdefault(topic, {})[str(partition)] = time
    return found


def results(task: EpochTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """What Spark's stateful operators gave for one shard by key -> published, with the rows that are kept."""
    step = ShardStep.of_task(task, "windows")
    yield from publish_results(step, step.whole_input(batches))


def publish_results(step: ShardStep, batches: Batches) -> Iterator[pa.RecordBatch]:
    """See `results`.

    By now all operators of all shards have run. What they gave is judged before anything of the epoch is visible.
    """
    pipeline, pinned = step.task.pipeline, step.task.declaration
    stateful = pipeline.stateful
    assert stateful is not None  # noqa: S101 - the driver asked for it
    # Arrow refuses a null where none is declared; here it is one result's fault.
    given = pa.schema([column.with_nullable(True) for column in stateful.schema])
    table = pa.Table.from_batches([batch.select(given.names).cast(given) for batch in batches], given)
    found, unfit = unfit_results.split(pipeline, stateful, table)
    accepted, dead = kept_rows.read(step)
    records = dead_letters(dead, pinned.epoch, kept_records.keeper(step))
    results = [*unfit_results.letters(step, stateful, unfit)]
    _show(step, accepted, [*records, *results])
    step.publish(stateful.name, _for(pipeline, stateful.name, found.cast(stateful.schema), pinned.epoch))
    # The first step has counted those of records.
    yield from between.report(pipeline, step.summary(letters=letter_reasons.count_messages(results)))


def aggregate(task: EpochTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Partial aggregates of one shard by key -> state, closed windows published; partial totals returned."""
    step = ShardStep.of_task(task, "windows")
    yield from merge_partials(step, step.whole_input(batches))


def merge_partials(step: ShardStep, batches: Batches) -> Iterator[pa.RecordBatch]:
    """See `aggregate`."""
    pipeline, pinned = step.task.pipeline, step.task.declaration
    columns = between.columns(pipeline)
    table = pa.Table.from_batches([batch.select(columns.names) for batch in batches], columns)
    yield from table.filter(pc.equal(table["kind"], "shard")).to_batches()
    partial = table.filter(pc.equal(table["kind"], "partial"))
    held: list[HeldRows] = []
    for each in pipeline.windows:
        values = pipeline.accumulators(each)
        mine = between.take(pipeline, each, partial.filter(pc.equal(partial["of"], each.name)))
        delta = long_texts.sort(windows.group_rows(mine, windows.merges(values)), windows.GROUP)
        before = step.state.window_state(each)
        step.decide(each.name, windows.canonical, delta, "windows_decided", windows.largest(delta, values))
        own = each.windows(step.task.windows)
        held.append((own, before.count_held(pinned.watermark_ms, step.task.front_ms)))
        final = before.final(pinned.previous_watermark_ms, pinned.watermark_ms)
        # The others are dead letters of the first step.
        results = refusals.results_without(step, each, windows.final_of(final, values)[0])
        step.publish(each.to.name, _for(pipeline, each.to.name, each.rows(results, pipeline.row_schema), pinned.epoch))
        if each.totals is not None:
            yield from between.carry(pipeline, "total", each, totals(pipeline, each, final))
        step.merge(each.name, windows.canonical)
    yield from between.report(pipeline, step.summary(excess_ms=step.state.excess_ms(held)))


def totals(pipeline: Pipeline, each: Windowed, final: pa.Table) -> pa.Table:
    """Aggregates over all keys, a row a window, in order of the window; columns of a delta with an empty key."""
    keyless = final.set_column(0, windows.KEY, pa.array([""] * final.num_rows, pa.string()))
    return windows.group_rows(keyless, windows.merges(pipeline.accumulators(each))).sort_by(windows.START)


def totals_of(pipeline: Pipeline, each: Windowed, table: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    """What the shards' partial totals come to.

    Returns:
        The rows of the sink `each.totals`: null is what no sink takes, as a sum that 64 bits do not hold. Those with
        one, exact.

    """
    mine = table.filter(pc.and_(pc.equal(table["kind"], "total"), pc.equal(table["of"], each.name)))
    schema = each.totals_schema(pipeline.row_schema)
    total = totals(pipeline, each, between.take(pipeline, each, mine))
    found, others = windows.final_of(total, pipeline.accumulators(each))
    whole = [found.drop_columns([windows.KEY]).cast(schema), pa.Table.from_pylist([o.shown for o in others], schema)]
    exact = [{name: value for name, value in one.exact.items() if name != windows.KEY} for one in others]
    return pa.concat_tables(whole).sort_by(windows.START), exact


def _for(pipeline: Pipeline, name: str, table: pa.Table, epoch: int) -> object:
    """Rows as a sink takes them."""
    to, _ = pipeline.sinks[name]
    return messages(to, table, epoch) if isinstance(to, ToKafka) else table.select(pipeline.schema_of(name).names)
