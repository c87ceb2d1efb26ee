"""Deduplication alone, inside Spark: the catalog, and `dropDuplicatesWithinWatermark` on RocksDB.

`make bench CASE=dedup ARGS="--live 1000000"`: the same files of ids for both. They fill the state to so many live ids,
then come steady batches with one copy in twenty rows, by which as many ids go as come. A sample is rows per second of
the steady batches but the first ones; how many ids each batch let through is checked.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from tests.bench import rates, table
from tests.bench.dedup_data import SPAN_MS, Batches
from tests.bench.dedup_step import SHARDS
from tests.bench.errors import BenchError
from tests.bench.facts import Kept, spread
from tests.bench.options import Master, Rounds, among, in_turn, pick
from tests.bench.place import HEAP_MIB, LASTING_JVM, MASTERS, Place, Started, open_place
from tests.bench.spark_arm import ROCKSDB

OURS, SPARK = "catalog", "dropDuplicatesWithinWatermark"
ARMS = {OURS: "ours", SPARK: "spark"}
DOES = {
    OURS: f"a Python step in {SHARDS} workers: decides, writes the delta to the object store (create-once); checkpoint "
    "on the object store; new ids are counted, not published",
    SPARK: "RocksDB with changelog in a local folder, rows not counted by the store; new rows go to the noop sink",
}
AT_LEAST = 3.0
SKIPPED = 2
"""Steady batches before the measured ones: the first of them still has larger batches before it."""
SLOWEST_PER_S, LEAST_S = 10_000, 300.0


@dataclass(frozen=True)
class Run:
    """One run of one arm: on which batches, in which files, under which name."""

    place: Place
    batches: Batches
    data: Path
    name: str
    master: str


class Asked(Rounds):
    """The catalog against dropDuplicatesWithinWatermark."""

    live: Annotated[int, typer.Option(min=1, help="Live ids.")] = 1_000_000
    batch: Annotated[int, typer.Option(min=1, help="Rows of a steady batch.")] = 100_000
    fill_batch: Annotated[int, typer.Option(min=1, help="Rows of a batch that fills.")] = 500_000
    steady: Annotated[int, typer.Option(min=1, help=f"Steady batches; the first {SKIPPED} are not counted.")] = 12
    arms: Annotated[list[str], among(ARMS), typer.Option(metavar="ARM...")] = Field(default=[*ARMS])
    master: Master = "local"


def measure(asked: Asked) -> str:
    """Run it and return the table."""
    batches = Batches(asked.live, min(asked.fill_batch, asked.live), asked.batch, asked.steady)
    kept = Kept.begin(
        "dedup",
        asked.resume,
        **asdict(batches),
        **pick(asked, "rounds", "arms"),
        span_ms=SPAN_MS,
        master=MASTERS[asked.master],
        jvm=LASTING_JVM,
        heap_mib=HEAP_MIB,
        rocksdb=ROCKSDB,
    )
    found: dict[str, list[float]] = {arm: [] for arm in asked.arms}
    with open_place() as place:
        data = place.scratch / "ids"
        with place.console.step(f"{batches.total:,} rows of ids into files"):
            batches.write(data)
        for number in range(asked.rounds):
            for arm in in_turn(asked.arms, number):
                run = Run(place, batches, data, f"d{number}_{ARMS[arm]}", MASTERS[asked.master])
                sample = kept.take(partial(_once, run, arm), arm=arm, round=number)
                found[arm].append(sample["rows_per_s"])
                place.console.say(f"  round {number + 1}: {arm}: {sample['rows_per_s']:,.0f} rows/s")
    text = _table(found, batches)
    return kept.finish(text, f"Dedup at {batches.live:,} live ids", "rows/s", found)


def _once(run: Run, arm: str) -> dict[str, Any]:
    place, batches, name, at = run.place, run.batches, run.name, run.place.endpoints
    settings = {
        "arm": ARMS[arm],
        "name": name,
        "data": str(run.data),
        "batches": len(batches.fresh),
        "s3_endpoint": at.s3_endpoint,
        "s3_bucket": at.s3_bucket,
        "checkpoint": f"s3://{at.s3_bucket}/{name}/checkpoint" if arm == OURS else str(place.scratch / "work" / name),
    }
    started = place.driver(name, "tests.bench.dedup_job", json.dumps(settings), master=run.master)
    with place.ending(started.process, name):
        within_s = LEAST_S + batches.total / SLOWEST_PER_S
        seen = rates.until_all(lambda: rates.batches(started.events), batches.total, within_s, started.process)
        _check(arm, batches, started)
    steady = rates.rate(seen, batches.live + SKIPPED * batches.rows, batches.total)
    filled = [one for one in seen if one.rows <= batches.live]
    fill_s = (filled[-1].t_ms - filled[0].t_ms) / 1000
    return {
        **steady.rounded,
        "fill_s_but_first_batch": round(fill_s, 1),
        "seen": [[round(one.t_ms), one.rows] for one in seen],
    }


def _check(arm: str, batches: Batches, started: Started) -> None:
    """Refuse a run that let another number of ids through than are new."""
    told = rates.read_announced(started.events)
    if arm == OURS:
        accepted = {one["batch"]: one["accepted"] for one in told if one["event"] == "accepted"}
    else:
        states = {one["batch"]: one["states"][0] for one in told if one["event"] == "batch"}
        accepted = {number: state["new"] for number, state in states.items()}
        late = sum(state["late"] for state in states.values())
        if late:
            raise BenchError(f"{arm}: {late:,} rows were late: they were dropped, not deduplicated")
    for number, fresh in enumerate(batches.fresh):
        if accepted.get(number) != fresh:
            raise BenchError(
                f"{arm}: batch {number} let {accepted.get(number)} ids through, {fresh:,} of them are new: its speed "
                "means nothing"
            )


def _table(found: dict[str, list[float]], batches: Batches) -> str:
    rows = [[arm, spread(samples), DOES[arm]] for arm, samples in found.items()]
    lines = [
        f"{batches.live:,} live ids of 24 bytes, batches of {batches.rows:,} rows, one in twenty a copy; "
        f"{len(next(iter(found.values())))} rounds of {batches.steady - SKIPPED} measured batches",
        "",
        table.table(["arm", "rows/s, median (from, to)", "what it does"], rows),
        "",
    ]
    if found.keys() == ARMS.keys():
        lines.append(table.ratio(found, OURS, SPARK, table.Target(at_least=AT_LEAST)))
    return "\n".join(lines)
