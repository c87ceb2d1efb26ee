"""What the batch run counts: Spark's plan over the retained topic, beside what streams have published."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from effectively_once.epoch import rows
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.windows import WINDOW_START, Windowed
from effectively_once.sinks.dead_letters import LATE
from effectively_once.state.aggregates import Aggregate
from effectively_once.state.lateness import Windows

KINDS = ("timely", "late", "copies")


def count_records(pipeline: Pipeline, each: Windowed, windows: Windows, topic: DataFrame, late: DataFrame) -> DataFrame:
    """Count the records of the topic as `pipeline` declares it, in one pass and without state.

    Args:
        pipeline: whose transform says what a record is, and which are refused for what they are.
        each: what to count.
        windows: its windows.
        topic: Kafka's columns.
        late: partition and offset of what the stream refused as late.

    Returns:
        key, window_start_ms, and `<kind>_<value>` for each kind and each value that adds up.

    """
    names = names_of_sums(each)
    known = ["id"] if pipeline.ids == "attached" else []
    # Under names of our own, so that none of the job's is in the way.
    good = (
        rows.judge(pipeline, topic)
        .where("reason IS NULL")
        .select(
            "partition",
            "offset",
            *known,
            f.col(each.keys[0]).alias("key"),
            f.expr(f"event_time_ms - pmod(event_time_ms, {windows.length_ms})").alias(WINDOW_START),
            *(_of(each.values[name]).alias(f"v_{name}") for name in names),
        )
    )
    refused = late.distinct().withColumn("late", f.lit(True))
    good = good.join(refused, ["partition", "offset"], "left").fillna(False, ["late"])
    kind = f.when(f.col("late"), "late").otherwise("timely")
    if known:
        # Of the copies of an id one counts, whichever: all are the same record. One that was taken is before those
        # that came too late, so that an id is late only where the stream has refused all of it.
        nth = f.row_number().over(Window.partitionBy("id").orderBy("late", "partition", "offset"))
        kind = f.when(nth > 1, "copies").otherwise(kind)
    return (
        good.withColumn("kind", kind)
        .groupBy("key", WINDOW_START)
        .agg(
            *(
                f.coalesce(f.sum(f.when(f.col("kind") == one, f.col(f"v_{name}"))), f.lit(0)).alias(f"{one}_{name}")
                for one in KINDS
                for name in names
            )
        )
    )


def add_up_published(each: Windowed, messages: DataFrame, number: int) -> DataFrame:
    """Add up what a stream has published; a window that is there twice counts twice.

    Args:
        each: what it publishes.
        messages: of its topic, Kafka's columns.
        number: of the stream.

    Returns:
        key, window_start_ms, and `s<number>_<value>` for each value that adds up.

    """
    names = names_of_sums(each)
    fields = ", ".join([f"`{each.keys[0]}` string", f"{WINDOW_START} long", *(f"`{name}` long" for name in names)])
    given = messages.select(f.from_json(f.col("value").cast("string"), fields).alias("r"))
    key = f.col(f"r.{each.keys[0]}").alias("key")
    keyed = given.select(key, f.col(f"r.{WINDOW_START}"), *(f"r.{n}" for n in names))
    return keyed.groupBy("key", WINDOW_START).agg(*(f.sum(name).alias(f"s{number}_{name}") for name in names))


def find_late(messages: DataFrame, topic: str) -> DataFrame:
    """Partition and offset of the dead letters that came too late."""
    value = f.col("value").cast("string")
    told = [f.get_json_object(value, f"$.{name}") for name in ("reason", "source[0]", "source[1]", "source[2]")]
    reason, source, partition, offset = told
    return messages.where((reason == LATE) & (source == topic)).select(
        partition.cast("int").alias("partition"), offset.cast("long").alias("offset")
    )


def keep_closed(frame: DataFrame, windows: Windows, watermark_ms: int, since_ms: int | None) -> DataFrame:
    """Leave only windows that the stream has closed, from a time on: others it has not published."""
    kept = frame.where(f.col(WINDOW_START) + (windows.length_ms + windows.lateness_ms) <= f.lit(watermark_ms))
    return kept if since_ms is None else kept.where(f.col(WINDOW_START) >= f.lit(since_ms))


def cells(each: Windowed, batch: DataFrame, streams: Sequence[DataFrame]) -> DataFrame:
    """Put the batch run and all streams side by side, a row a key, window and value; what one side lacks is 0.

    Returns:
        key, window_start_ms, value, timely, late, copies, and `s<number>` for each stream.

    """
    whole = batch
    for stream in streams:
        whole = whole.join(stream, ["key", WINDOW_START], "full")
    whole = whole.fillna(0)
    numbers = [*KINDS, *(f"s{number}" for number in range(len(streams)))]
    values = [
        whole.select(
            "key",
            WINDOW_START,
            f.lit(name).alias("value"),
            *(f.col(f"{number}_{name}").cast("long").alias(number) for number in numbers),
        )
        for name in names_of_sums(each)
    ]
    found = values[0]
    for more in values[1:]:
        found = found.unionAll(more)
    return found


def names_of_sums(each: Windowed) -> list[str]:
    """Names of the values that partial results are added up to: of these a difference can be told."""
    return [name for name, value in each.values.items() if value.how == "sum"]


def _of(value: Aggregate) -> Column:
    return f.col(value.columns[0]) if value.columns else f.lit(1)
