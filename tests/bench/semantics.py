"""What exactly-once costs: S1 at least once on plain Spark, at least once with the catalog, and exactly once.

`make bench CASE=semantics`: a topic for each size of records, filled once; the three arms take turns, each on a
fresh pipeline. A sample is rows per second from the end of a warm-up (a quarter of the rows) to that of the last epoch.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer
from pydantic import Field

from tests.bench import rates, table
from tests.bench.facts import Kept, spread
from tests.bench.options import Master, Rounds, in_turn, pick
from tests.bench.place import LASTING_JVM, MASTERS, Place, open_place
from tests.bench.s1_events import Events

PLAIN, CATALOG, EXACTLY = "plain Spark, at least once", "at least once, with the catalog", "exactly once"
ARMS = {
    PLAIN: ("tests.bench.plain_job", "at_least_once"),
    CATALOG: ("effectively_once_jobs.user_counts", "at_least_once"),
    EXACTLY: ("effectively_once_jobs.user_counts", "exactly_once"),
}
SHARDS = 2
SIZES = (100, 1_000)
EPOCH_ROWS = 100_000
WARM_UP = 0.25
DONE_S = 300.0


class Asked(Rounds):
    """At least once on plain Spark, with the catalog, and exactly once."""

    records: Annotated[int, typer.Option(min=1)] = 800_000
    bytes: Annotated[list[int], typer.Option(help="Sizes of a record.")] = Field(default=[*SIZES])
    epoch_rows: Annotated[int, typer.Option(min=1)] = EPOCH_ROWS
    master: Master = "cluster"


def measure(asked: Asked) -> str:
    """Run it and return the table."""
    kept = Kept.begin(
        "semantics",
        asked.resume,
        **pick(asked, "records", "bytes", "rounds", "epoch_rows"),
        shards=SHARDS,
        warm_up=WARM_UP,
        master=MASTERS[asked.master],
        jvm=LASTING_JVM,
    )
    found = {size: {arm: list[float]() for arm in ARMS} for size in asked.bytes}
    with open_place() as place:
        for size in asked.bytes:
            events = Events(asked.records, record_bytes=size)
            place.fill_topic(f"bench{size}", events.values(), f"{asked.records:,} records of {size:,} bytes")
        for number in range(asked.rounds):
            for size in asked.bytes:
                for arm in in_turn([*ARMS], number):
                    once = partial(_once, place, arm, size, number, asked)
                    sample = kept.take(once, arm=arm, bytes=size, round=number)
                    found[size][arm].append(sample["rows_per_s"])
                    place.console.say(f"  round {number + 1}, {size} bytes: {arm}: {sample['rows_per_s']:,.0f} rows/s")
    text = "\n\n".join(f"Records of {size:,} bytes\n\n{_table(arms)}" for size, arms in found.items())
    named = {f"{arm}, {size:,} B": samples for size, arms in found.items() for arm, samples in arms.items()}
    return kept.finish(text, "What exactly-once costs", "rows/s", named)


def _once(place: Place, arm: str, size: int, number: int, asked: Asked) -> dict[str, Any]:
    module, semantics = ARMS[arm]
    name = f"b{number}_{size}_{[*ARMS].index(arm)}"
    settings = place.pipeline(
        name, f"bench{size}", module, shards=SHARDS, epoch_rows_max=asked.epoch_rows, semantics=semantics
    )
    started = place.driver(name, module, settings.model_dump_json(), master=MASTERS[asked.master])
    with place.ending(started.process, name):
        seen = rates.until_all(lambda: rates.epochs(started.events), asked.records, DONE_S, started.process)
        return rates.rate(seen, int(asked.records * WARM_UP), asked.records).rounded


def _table(found: dict[str, list[float]]) -> str:
    """Medians, and the ratios that matter; both of one run."""
    lines = [table.table(["arm", "rows/s, median (from, to)"], [[arm, spread(each)] for arm, each in found.items()])]
    lines += [
        "",
        table.ratio(found, EXACTLY, CATALOG, table.Target(at_least=0.95)),
        table.ratio(found, EXACTLY, PLAIN, table.Target(at_least=0.8)),
    ]
    return "\n".join(lines)
