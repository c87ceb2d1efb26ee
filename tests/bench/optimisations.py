"""Fusion and combiner lifting, each on and off: stages, bytes shuffled and speed, of a query and of the real epoch.

`python -m tests.bench optimisations`: first S1 in Spark's own operators over a topic (`optimised`), variants in turn
in one session; then the pipeline `user_counts`, exactly once, as it is and with one of them off. Stages, bytes and
records are those of Spark's event log. Answers of all variants are compared with each other and with what was sent.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewTopic

from infra.embedded.process import wait_for
from tests.bench import event_log, rates
from tests.bench.errors import BenchError
from tests.bench.event_log import Query
from tests.bench.facts import Kept, load
from tests.bench.optimisations_table import text
from tests.bench.optimised import VARIANTS
from tests.bench.optimised_job import group
from tests.bench.place import HEAP_MIB, LASTING_JVM, MASTERS, Place, opened
from tests.bench.s1_arms import LATENESS_MS, OURS, TOPIC, Run, sampled
from tests.bench.s1_events import PARTITIONS, Events, fill

AS_IS, NOT_FUSED, NOT_COMBINED, NEITHER = VARIANTS
EPOCHS = {
    AS_IS: "effectively_once_jobs.user_counts",
    NOT_FUSED: "tests.bench.unfused_job",
    NOT_COMBINED: "tests.bench.uncombined_job",
}
QUERY, EPOCH = "query", "epoch"
PARTS = 2
QUERY_S = 120.0
"""At most, of one query."""


def arguments(given: argparse.ArgumentParser) -> None:
    """Add the options of this case."""
    given.add_argument("--records", type=int, default=1_000_000)
    given.add_argument("--users", type=int, nargs="+", default=[1_000, 100_000])
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--epoch-rows", type=int, default=100_000)
    given.add_argument("--master", choices=sorted(MASTERS), default="local")
    given.add_argument("--resume", type=Path, default=None, help="folder of a measurement that was interrupted")


def measure(asked: argparse.Namespace) -> str:
    """Run it and return the table."""
    kept = Kept.begun(
        "optimisations", asked.resume, records=asked.records, users=asked.users, rounds=asked.rounds, parts=PARTS,
        epoch_rows=asked.epoch_rows, lateness_ms=LATENESS_MS, jvm=LASTING_JVM, heap_mib=HEAP_MIB,
        master=MASTERS[asked.master],
    )  # fmt: skip
    with opened() as place:
        for users in asked.users:
            events = Events(asked.records, users)
            if all(_done(kept, part, users, asked.rounds) for part in (QUERY, EPOCH)):
                continue
            place.created([NewTopic(TOPIC, PARTITIONS, 1)])
            with place.console.step(f"{events.records:,} events of {users:,} users into a topic"):
                fill(place.endpoints.kafka_bootstrap, TOPIC, events.values())
            if not _done(kept, QUERY, users, asked.rounds):
                _queries(kept, place, events, asked)
            _epochs(kept, place, events, asked)
            place.deleted([TOPIC])
    table, figures = text(kept.samples(), asked.records)
    return kept.finished(table, "Fusion and combiner lifting", "rows/s", figures)


def _done(kept: Kept, part: str, users: int, rounds: int) -> bool:
    arms = VARIANTS if part == QUERY else EPOCHS
    each = ({"part": part, "users": users, "arm": arm, "round": number} for arm in arms for number in range(rounds))
    return all(kept.done(**which) is not None for which in each)


def _queries(kept: Kept, place: Place, events: Events, asked: argparse.Namespace) -> None:
    """All rounds of the query, in one session: kept when all of them are there."""
    name = f"optimised{events.users}"
    log = place.scratch / f"{name}-log"
    log.mkdir()
    options = {
        "kafka.bootstrap.servers": place.endpoints.kafka_bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest",
        "endingOffsets": "latest",
    }  # fmt: skip
    settings = {"format": "kafka", "options": options, "parts": PARTS, "rounds": asked.rounds, "variants": [*VARIANTS]}
    started = place.driver(
        name, "tests.bench.optimised_job", json.dumps(settings), master=MASTERS[asked.master],
        conf=event_log.settings(log),
    )  # fmt: skip

    def ended() -> bool:
        return any(one["event"] == "ended" for one in rates.told(started.events))

    try:
        wait_for("all queries", QUERY_S * len(VARIANTS) * (asked.rounds + 1), ended, started.process)
    finally:
        started.process.kill()
    told = [one for one in rates.told(started.events) if one["event"] == "query"]
    compared(told, events.per_window(copies=True))
    by_group = {query.group: query for query in event_log.read(log)}
    for one in told:
        arm, number = one["arm"], one["round"]
        if number < 0:
            continue
        speed = {"rows_per_s": round(events.records / one["s"]), "load_before": one["load_before"]}
        account = _account([by_group[group(arm, number)]], number)
        kept.sample(part=QUERY, users=events.users, arm=arm, round=number, **speed, **account)
        place.console.say(f"  {events.users:,} users, round {number + 1}: {arm}: {speed['rows_per_s']:,} rows/s")


def compared(told: Sequence[dict[str, Any]], truth: dict[int, int]) -> None:
    """Demand that every query counted all records, and that all have the same count for every user.

    Raises:
        BenchError: one does not.

    """
    for one in told:
        found = {start: records for start, records, *_ in one["found"]}
        if found != truth or one["found"] != told[0]["found"]:
            raise BenchError(
                f"{one['arm']}, round {one['round']}: other counts than were sent: its speed means nothing"
            )


def _epochs(kept: Kept, place: Place, events: Events, asked: argparse.Namespace) -> None:
    """All rounds of the pipeline; a driver of its own each time."""
    for number in range(asked.rounds):
        turn = number % len(EPOCHS)
        for arm in [*EPOCHS][turn:] + [*EPOCHS][:turn]:
            if kept.done(part=EPOCH, users=events.users, arm=arm, round=number) is not None:
                continue
            before = load()
            name = f"o{events.users}_{number}_{[*EPOCHS].index(arm)}"
            log = place.scratch / f"{name}-log"
            log.mkdir()
            conf = event_log.settings(log)
            run = Run(place, events, name, asked.epoch_rows, MASTERS[asked.master], EPOCHS[arm], conf)
            found = sampled(run, OURS, compare=number == 0)
            queries = event_log.read(log)
            epochs = [each for each in queries if any("MapInArrow" in line for line in each.plan)]
            if not epochs:
                raise BenchError(f"{arm}: no epoch is in Spark's event log, among {len(queries)} queries")
            kept.sample(
                part=EPOCH, users=events.users, arm=arm, round=number, load_before=before, **found,
                **_account(epochs, number),
            )  # fmt: skip
            place.console.say(f"  {events.users:,} users, epochs, round {number + 1}: {arm}: {found['rows_per_s']:,}")


def _account(queries: Sequence[Query], number: int) -> dict[str, Any]:
    """What Spark's log says of them together; the plan once is enough."""
    last = queries[-1]
    shuffled = [each.shuffled for each in queries]
    return {
        "queries": len(queries), "stages": len(last.stages), "shuffled_bytes": sum(size for size, _ in shuffled),
        "shuffled_records": sum(records for _, records in shuffled),
        "by_stage": [[each.written_records, each.written_bytes] for each in last.stages.values()],
        "cpu_s": round(sum(each.cpu_s for each in queries), 3), **({} if number else {"plan": last.plan}),
    }  # fmt: skip
