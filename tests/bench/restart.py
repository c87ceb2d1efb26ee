"""How long a pipeline is away when its driver is killed, by the number of ids that it has to know again.

`make bench CASE=restart ARGS="--live 1000000 10000000"`: a pipeline is filled, then its driver is killed and started
again, round by round. A sample is the time from the start of the process to the first epoch that is not a repeat;
half of the records of that epoch are copies of the oldest ids, and have to be found.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from infra.embedded.class_archive import class_archive
from infra.embedded.process import wait_for
from infra.embedded.spark import EXECUTORS, JVM_OPTIONS
from tests.bench import rates, table
from tests.bench.errors import BenchError
from tests.bench.facts import Kept, spread
from tests.bench.options import Rounds, pick
from tests.bench.place import Place, Started, open_place
from tests.bench.s1_events import WINDOW_MS, Events, fill, value

MODULE = "effectively_once_jobs.user_counts"
SHARDS, EPOCH_ROWS = 2, 200_000
LATENESS_MS = 24 * 3_600_000
NEW, COPIES = 500, 500
TARGET = table.Target(at_most=10)
STEPS = ("chain taken over", "first epoch declared", "first epoch published", "first new epoch published")
SLOWEST_PER_S, LEAST_S, RESTART_S = 4_000, 180.0, 300.0


@dataclass(frozen=True)
class Filled:
    """A pipeline with many live ids, whose driver has been killed."""

    place: Place
    name: str
    events: Events
    settings: str
    class_archive: Path

    def send(self, number: int) -> None:
        """Send the records of round `number`: some new ones, and copies of the oldest ids."""
        last_ms = self.events.reached_ms(self.events.records)
        first = self.events.records + number * NEW
        new = [value(first + n, n, last_ms) for n in range(NEW)]
        fill(self.place.endpoints.kafka_bootstrap, self.name, [*islice(self.events.values(), COPIES), *new])


class Asked(Rounds):
    """Driver killed to next published epoch, with many live ids."""

    live: Annotated[list[int], typer.Option(help="Live ids.")] = Field(default=[1_000_000, 10_000_000])
    ours: Annotated[str, typer.Option(help="Module of our job.")] = MODULE


def measure(asked: Asked) -> str:
    """Run it and return the table."""
    kept = Kept.begin(
        "restart",
        asked.resume,
        **pick(asked, "live", "rounds", "ours"),
        epoch_rows=EPOCH_ROWS,
        executors=EXECUTORS,
        jvm=JVM_OPTIONS,
        lateness_ms=LATENESS_MS,
    )
    found: dict[str, list[dict[str, float]]] = {}
    with open_place() as place:
        for live in asked.live:
            name = f"{live:,} live ids"
            found[name] = _rounds(kept, place, live, asked)
            median = statistics.median(one[STEPS[-1]] for one in found[name])
            place.console.say(f"  {name}: {median:.1f} s")
    totals = {name: [one[STEPS[-1]] for one in samples] for name, samples in found.items()}
    text = _table(found, totals)
    return kept.finish(text, "Driver started again to next published epoch", "s", totals, TARGET.at_most)


def _rounds(kept: Kept, place: Place, live: int, asked: Asked) -> list[dict[str, float]]:
    samples = [kept.find_sample(live=live, round=number) for number in range(asked.rounds)]
    known = [one["steps_s"] for one in samples if one is not None]
    if len(known) == asked.rounds:
        return known
    filled = _fill(place, live, asked.ours)
    for number in range(len(known), asked.rounds):
        once = partial(_once, filled, number + 1, asked.ours)
        known.append(kept.take(once, live=live, round=number)["steps_s"])
    return known


def _fill(place: Place, live: int, module: str) -> Filled:
    """Fill a pipeline with JVMs for throughput; its last epoch is a small one, for it is repeated after a kill."""
    name = f"r{live}"
    events = Events(live, duplicates=0.0)
    place.fill_topic(name, events.values(), f"{live:,} events")
    settings = place.pipeline(
        name, name, module, shards=SHARDS, epoch_rows_max=EPOCH_ROWS, lateness_ms=LATENESS_MS, window_ms=WINDOW_MS
    ).model_dump_json()
    filled = Filled(place, name, events, settings, class_archive(place.toolchain, place.console))
    started = place.driver(f"{name}-fill", module, settings)
    within_s = LEAST_S + live / SLOWEST_PER_S
    with place.ending(started.process, f"{name}-fill"), place.console.step(f"{live:,} live ids"):
        rates.until_all(lambda: rates.epochs(started.events), live, within_s, started.process)
        filled.send(0)
        rates.until_all(lambda: rates.epochs(started.events), live + NEW + COPIES, within_s, started.process)
    return filled


def _once(filled: Filled, number: int, module: str) -> dict[str, Any]:
    """Send a few records, start the driver, and return when it had come how far, in seconds after its start."""
    filled.send(number)
    name = f"{filled.name}-{number}"
    began_ms = time.time() * 1000
    started = filled.place.quick_driver(name, module, filled.settings, filled.class_archive)
    with filled.place.ending(started.process, name):
        wait_for("an epoch that is not a repeat", RESTART_S, lambda: _fresh(started) is not None, started.process)
        told = rates.read_announced(started.events)
    fresh = _fresh(started)
    assert fresh is not None
    # The oldest ids were sent again: whoever does not know them would be up sooner.
    if (fresh["in"], fresh["duplicate"]) != (NEW + COPIES, COPIES):
        raise BenchError(
            f"{name}: of {fresh['in']} records {fresh['duplicate']} were copies, {COPIES} of {NEW + COPIES} were sent"
        )
    epochs = [one for one in told if one["event"] == "epoch"]
    moments = (
        next(one for one in told if one["event"] == "driver"),
        next(one for one in epochs if one["state"] == "declared"),
        next(one for one in epochs if one["state"] == "published"),
        fresh,
    )
    steps_s = {step: round((one["t"] - began_ms) / 1000, 2) for step, one in zip(STEPS, moments, strict=True)}
    return {"steps_s": steps_s}


def _fresh(started: Started) -> dict[str, Any] | None:
    published = [
        one for one in rates.read_announced(started.events) if one["event"] == "epoch" and one["state"] == "published"
    ]
    return next((one for one in published if not one["repeat"]), None)


def _table(found: Mapping[str, list[dict[str, float]]], totals: Mapping[str, Sequence[float]]) -> str:
    rows = []
    for name, samples in found.items():
        medians = (statistics.median(one[step] for one in samples) for step in STEPS[:-1])
        rows.append([name, *(f"{each:.1f}" for each in medians), spread(totals[name], 1)])
    lines = [
        f"SIGKILL of the driver and its executors, then a start as `make demo` does it; "
        f"{len(next(iter(totals.values())))} rounds; seconds after the start of the process, medians",
        "",
        table.table(["state", *STEPS[:-1], f"{STEPS[-1]} (from, to)"], rows),
        "",
    ]
    lines += [table.median(totals, name, "s", TARGET) for name in totals]
    return "\n".join(lines)
