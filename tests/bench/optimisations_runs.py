"""Runs of the case `optimisations`: the query, all rounds in one session; the pipeline, a driver each time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any

from infra.embedded.process import wait_for
from tests.bench import event_log, rates
from tests.bench.errors import BenchError
from tests.bench.event_log import Query
from tests.bench.facts import Kept, load
from tests.bench.optimisations_table import EPOCH, QUERY
from tests.bench.optimised import VARIANTS
from tests.bench.optimised_job import group
from tests.bench.options import in_turn
from tests.bench.place import MASTERS, Place
from tests.bench.s1_arms import TOPIC, Run, run_arm, start_ours
from tests.bench.s1_events import Events

AS_IS, NOT_FUSED, NOT_COMBINED, NEITHER = VARIANTS
EPOCHS = {
    AS_IS: "effectively_once_jobs.user_counts",
    NOT_FUSED: "tests.bench.unfused_job",
    NOT_COMBINED: "tests.bench.uncombined_job",
}
PARTS = 2
QUERY_S = 120.0
"""At most, of one query."""


def done(kept: Kept, part: str, users: int, rounds: Iterable[int]) -> bool:
    """Whether samples of all variants of these rounds are there."""
    arms = VARIANTS if part == QUERY else EPOCHS
    each = ({"part": part, "users": users, "arm": arm, "round": number} for arm in arms for number in rounds)
    return all(kept.find_sample(**which) is not None for which in each)


def queries(kept: Kept, place: Place, events: Events, asked: argparse.Namespace) -> None:
    """Rounds of the query that are not there yet, in one session; what was done is kept when it is interrupted."""
    name = f"optimised{events.users}"
    log = place.scratch / f"{name}-log"
    log.mkdir()
    options = {
        "kafka.bootstrap.servers": place.endpoints.kafka_bootstrap,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
    }
    left = [number for number in range(asked.rounds) if not done(kept, QUERY, events.users, [number])]
    settings = {"format": "kafka", "options": options, "parts": PARTS, "rounds": left, "variants": [*VARIANTS]}
    started = place.driver(
        name,
        "tests.bench.optimised_job",
        json.dumps(settings),
        master=MASTERS[asked.master],
        conf=event_log.settings(log),
    )

    def ended() -> bool:
        return any(one["event"] == "ended" for one in rates.read_announced(started.events))

    try:
        wait_for("all queries", QUERY_S * len(VARIANTS) * (len(left) + 1), ended, started.process)
    finally:
        started.process.kill()
        told = [one for one in rates.read_announced(started.events) if one["event"] == "query"]
        compare(told, events.per_window(copies=True))
        by_group = {query.group: query for query in event_log.read(log)}
        whole = [number for number in left if sum(one["round"] == number for one in told) == len(VARIANTS)]
        for one in told:
            # Pairs are of one round: what was taken of one that was interrupted is taken again.
            if one["round"] in whole:
                _keep(kept, place, events, one, by_group[group(one["arm"], one["round"])])


def _keep(kept: Kept, place: Place, events: Events, one: dict[str, Any], query: Query) -> None:
    which = {"users": events.users, "arm": one["arm"], "round": one["round"]}
    rows_per_s = round(events.records / one["s"])
    kept.sample(
        part=QUERY, **which, rows_per_s=rows_per_s, load_before=one["load_before"], **_account([query], one["round"])
    )
    place.console.say(f"  {events.users:,} users, round {one['round'] + 1}: {one['arm']}: {rows_per_s:,} rows/s")


def compare(told: Sequence[dict[str, Any]], truth: dict[int, int]) -> None:
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


def epochs(kept: Kept, place: Place, events: Events, asked: argparse.Namespace) -> None:
    """All rounds of the pipeline; a driver of its own each time."""
    for number in range(asked.pipeline_rounds):
        for arm in in_turn([*EPOCHS], number):
            if kept.find_sample(part=EPOCH, users=events.users, arm=arm, round=number) is not None:
                continue
            before = load()
            name = f"o{events.users}_{number}_{[*EPOCHS].index(arm)}"
            log = place.scratch / f"{name}-log"
            log.mkdir()
            conf = event_log.settings(log)
            run = Run(place, events, name, asked.epoch_rows, MASTERS[asked.master], EPOCHS[arm], conf)
            found = run_arm(arm, run, start_ours)
            logged = event_log.read(log)
            ours = [each for each in logged if any("MapInArrow" in line for line in each.plan)]
            if not ours:
                raise BenchError(f"{arm}: no epoch is in Spark's event log, among {len(logged)} queries")
            kept.sample(
                part=EPOCH,
                users=events.users,
                arm=arm,
                round=number,
                load_before=before,
                **found,
                **_account(ours, number),
            )
            place.console.say(f"  {events.users:,} users, epochs, round {number + 1}: {arm}: {found['rows_per_s']:,}")


def _account(queries: Sequence[Query], number: int) -> dict[str, Any]:
    """What Spark's log says of them together; the plan once is enough."""
    last = queries[-1]
    shuffled = [each.shuffled for each in queries]
    return {
        "queries": len(queries),
        "stages": len(last.stages),
        "shuffled_bytes": sum(size for size, _ in shuffled),
        "shuffled_records": sum(records for _, records in shuffled),
        "by_stage": [[each.written_records, each.written_bytes] for each in last.stages.values()],
        "cpu_s": round(sum(each.cpu_s for each in queries), 3),
        **({} if number else {"plan": last.plan}),
    }
