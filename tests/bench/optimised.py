"""S1 in Spark's own operators, with fusion and combiner lifting each on or off: another plan, and the same answer.

The operators are the job's: `user_counts` parses and judges records, rows with a reason are filtered out, each is
placed in its window, counts by user and window, their sums by window.

*Fusion* is off where a boundary stands between two operators: rows go through a shuffle by a number of their own, as
with Beam's `Reshuffle`, and each operator is a stage. *Combiner lifting* is off where rows go to the place of their key
first, and are counted there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once.epoch import rows
from effectively_once_jobs.user_counts import pipeline
from tests.bench.s1_events import WINDOW_MS

WINDOW = "window_start_ms"
_EXCLUDED, _ADAPTIVE, _PARTS = (
    "spark.sql.optimizer.excludedRules",
    "spark.sql.adaptive.enabled",
    "spark.sql.shuffle.partitions",
)
_PUSHES_FILTERS = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in ("PushDownPredicates", "PushPredicateThroughNonJoin")
)
"""They would move the filter to the other side of a boundary."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What is on."""

    fused: bool = True
    combined: bool = True

    def __str__(self) -> str:
        """Say what is off."""
        off = [name for name, on in (("not fused", self.fused), ("not combined", self.combined)) if not on]
        return ", ".join(off) or "as it is"


VARIANTS = {
    str(each): each for each in (Variant(), Variant(fused=False), Variant(combined=False), Variant(False, False))
}


@contextmanager
def planning(spark: SparkSession, how: Variant, parts: int) -> Iterator[None]:
    """Plan and run within the block as the pipelines do, without adaptive execution, into so many partitions."""
    conf = {_ADAPTIVE: "false", _PARTS: str(parts), **({} if how.fused else {_EXCLUDED: _PUSHES_FILTERS})}
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def counts(kafka: DataFrame, how: Variant, parts: int) -> DataFrame:
    """Count records by user and window.

    Args:
        kafka: rows as Spark's Kafka source gives them.
        how: what is on.
        parts: partitions behind every exchange.

    Returns:
        user, window_start_ms, count.

    """
    cut = boundaries(parts) if not how.fused else lambda frame: frame
    judged = cut(rows.judge(pipeline, kafka))
    accepted = cut(judged.where("reason IS NULL"))
    start = f.col("event_time_ms") - f.pmod("event_time_ms", f.lit(WINDOW_MS))
    placed = cut(accepted.select("offset", "user", start.alias(WINDOW)))
    if not how.combined:
        placed = placed.repartition(parts, "user", WINDOW)
    return placed.groupBy("user", WINDOW).count()


def totals(kafka: DataFrame, how: Variant, parts: int) -> DataFrame:
    """Sum up by window: records, users, and a digest of the counts of all users, whatever order they come in."""
    found = counts(kafka, how, parts)
    if not how.combined:
        found = found.repartition(parts, WINDOW)
    return found.groupBy(WINDOW).agg(
        f.sum("count").alias("records"),
        f.count("*").alias("users"),
        f.bit_xor(f.xxhash64("user", WINDOW, "count")).alias("digest"),
    )


def boundaries(parts: int) -> Callable[[DataFrame], DataFrame]:
    """Make a function that sends rows (with their offset) through a shuffle, so that an operator ends where it stands.

    Each use is another shuffle: Spark leaves out one that would bring rows where they are.
    """
    used = 0

    def cut(frame: DataFrame) -> DataFrame:
        nonlocal used
        used += 1
        return frame.repartitionById(parts, f.expr(f"CAST(pmod(offset + {used}, {parts}) AS INT)"))

    return cut
