"""Where the state of windows lives: in the chain's deltas, or in Spark's state store, at several numbers of keys.

`python -m tests.bench state --keys 1000 100000 1000000`: S1 twice, exactly once both times and with one catalog; what
differs is who counts. A sample is rows per second after a warm-up, as in the case `streams`.
"""

from __future__ import annotations

import argparse
from functools import partial

from tests.bench import table
from tests.bench.facts import Kept, spread
from tests.bench.options import add_common, in_turn, pick
from tests.bench.place import HEAP_MIB, LASTING_JVM, MASTERS, Place, open_place
from tests.bench.s1_arms import LATENESS_MS, SHARDS, TOPIC, WARM_UP, Run, run_arm, start_ours
from tests.bench.s1_events import Events

LEDGER, SPARK = "ledger state", "Spark state"
JOBS = {LEDGER: "tests.bench.s1_job", SPARK: "tests.bench.s1_state_job"}
DOES = {
    LEDGER: "counts are deltas of the chain on the object store; totals of windows too",
    SPARK: "counts are in RocksDB with changelog, checkpointed to the object store through our file manager",
}


def arguments(given: argparse.ArgumentParser) -> None:
    """Add the options of this case."""
    given.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000, 1_000_000], help="users")
    given.add_argument("--records", type=int, default=2_000_000)
    given.add_argument("--batch-rows", type=int, default=250_000, help="rows of an epoch")
    add_common(given, master="local")


def measure(asked: argparse.Namespace) -> str:
    """Run it and return the table."""
    kept = Kept.begin(
        "state",
        asked.resume,
        **pick(asked, "keys", "records", "rounds", "batch_rows"),
        warm_up=WARM_UP,
        shards=SHARDS,
        lateness_ms=LATENESS_MS,
        jvm=LASTING_JVM,
        heap_mib=HEAP_MIB,
        master=MASTERS[asked.master],
        jobs=[*JOBS.values()],
    )
    found: dict[str, list[float]] = {_name(arm, keys): [] for keys in asked.keys for arm in JOBS}
    with open_place() as place:
        for keys in asked.keys:
            _at(kept, place, keys, asked, found)
    return kept.finish(_table(found, asked), "S1 by where its state is", "rows/s", found)


def _at(kept: Kept, place: Place, keys: int, asked: argparse.Namespace, found: dict[str, list[float]]) -> None:
    """All rounds at one number of keys."""
    events = Events(asked.records, keys)
    taken = [kept.find_sample(keys=keys, arm=arm, round=number) for arm in JOBS for number in range(asked.rounds)]
    if None in taken:
        place.fill_topic(TOPIC, events.values(), f"{events.records:,} events of {keys:,} users")
    for number in range(asked.rounds):
        for arm in in_turn([*JOBS], number):
            name = f"k{keys}_{number}_{[*JOBS].index(arm)}"
            run = Run(place, events, name, asked.batch_rows, MASTERS[asked.master], JOBS[arm])
            once = partial(run_arm, arm, run, start_ours)
            sample = kept.take(once, keys=keys, arm=arm, round=number)
            found[_name(arm, keys)].append(sample["rows_per_s"])
            place.console.say(f"  {keys:,} keys, round {number + 1}: {arm}: {sample['rows_per_s']:,.0f} rows/s")
    if None in taken:
        place.delete([TOPIC])


def _name(arm: str, keys: int) -> str:
    return f"{arm}, {keys:,} keys"


def _table(found: dict[str, list[float]], asked: argparse.Namespace) -> str:
    rows = [[f"{keys:,}", *(spread(found[_name(arm, keys)]) for arm in JOBS)] for keys in asked.keys]
    lines = [
        f"{asked.records:,} events, epochs of {asked.batch_rows:,}, {asked.rounds} rounds; both exactly once to Kafka",
        "",
        table.table(["keys", *(f"{arm}: rows/s, median (from, to)" for arm in JOBS)], rows),
        "",
        *(f"{arm}: {DOES[arm]}" for arm in JOBS),
        "",
        *(table.ratio(found, _name(LEDGER, keys), _name(SPARK, keys)) for keys in asked.keys),
    ]
    return "\n".join(lines)
