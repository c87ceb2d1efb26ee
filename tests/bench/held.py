"""What a held watermark costs: memory and epoch time by how long it is held, and latency of windows by either rule.

`make bench CASE=held ARGS="--holds 0 5 10 15"`: the packaged job `user_counts`, with `idle_ms`, on events of which one
partition's clock stands still for so many minutes of the others' time. All of it is in the topic before, so minutes are
records: what is kept, and how epochs take longer, depends on those. Then the same input at a pace, with that partition
behind by more than the lateness: by the partition that is furthest behind, by the largest time, and on Flink by split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from uuid import uuid4

from confluent_kafka.admin import NewTopic

from infra.embedded.process import wait_for
from tests.bench import counts, held_table, rates
from tests.bench.errors import BenchError
from tests.bench.facts import Kept
from tests.bench.flink import Flink
from tests.bench.held_epochs import Published, closing_epochs, latencies_s, require_held
from tests.bench.held_events import HeldEvents, Sent, paced
from tests.bench.held_options import Asked
from tests.bench.held_table import BY_FRONT, BY_SLOWEST, BY_SPLIT, name_of
from tests.bench.memory import ALL, watch_memory
from tests.bench.place import HEAP_MIB, LASTING_JVM, MASTERS, Place, Started, open_place
from tests.bench.s1_events import PARTITIONS, START_MS, WINDOW_MS, fill
from tests.bench.visible import Visible, watch_results

MODULE, SHARDS, LATENESS_MS = "effectively_once_jobs.user_counts", 2, 120_000
IDLE_MS = 600_000
"""A partition that sends is never idle; this says that time goes by partition."""
NO_BOUND = 1 << 40
SLOWEST_PER_S, LEAST_S = 2_000, 300.0
PACED_WINDOW_MS, PACED_LATENESS_MS, PACED_LAG_MS = 5_000, 10_000, 20_000
RULES: dict[str, dict[str, Any]] = {BY_SLOWEST: {"idle_ms": IDLE_MS}, BY_FRONT: {}}


def measure(asked: Asked) -> str:
    """Run it and return the tables."""
    if asked.holds[0] != 0 or sorted(set(asked.holds)) != asked.holds:
        raise BenchError(f"--holds {asked.holds}: name 0 first, which is what others are compared with, then rising")
    kept = Kept.begin(
        "held",
        asked.resume,
        **asked.model_dump(exclude={"resume"}),
        shards=SHARDS,
        window_ms=WINDOW_MS,
        lateness_ms=LATENESS_MS,
        paced_ms=[PACED_WINDOW_MS, PACED_LATENESS_MS, PACED_LAG_MS],
        jvm=LASTING_JVM,
        heap_mib=HEAP_MIB,
        master=MASTERS["cluster"],
    )
    arms = {name_of(hold): (hold, NO_BOUND) for hold in asked.holds}
    arms[name_of(asked.holds[-1], asked.bound)] = asked.holds[-1], asked.bound
    costs: dict[str, list[dict[str, Any]]] = {name: [] for name in arms}
    waits: dict[str, list[dict[str, Any]]] = {rule: [] for rule in (*RULES, BY_SPLIT)}
    with open_place() as place:
        for number in range(asked.rounds):
            # Each is the first one of a round as often as another.
            for name in [*arms][:: -1 if number % 2 else 1]:
                costs[name].append(_sample(kept, place, name, number, partial(_cost, place, *arms[name], asked)))
            for rule in [*waits][:: -1 if number % 2 else 1]:
                waits[rule].append(_sample(kept, place, rule, number, partial(_wait, place, rule, asked)))
    text = held_table.write(costs, waits, asked)
    memory = {name: [one["mib"][ALL] for one in samples] for name, samples in costs.items()}
    return kept.finish(text, "Memory of driver, executors and workers under a held watermark", "MiB", memory)


def _sample(kept: Kept, place: Place, arm: str, number: int, take: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """One arm in one round, unless it was measured before."""
    with place.console.step(f"round {number + 1}: {arm}"):
        return kept.take(take, arm=arm, round=number)


def _cost(place: Place, hold: int, bound: int, asked: Asked) -> dict[str, Any]:
    """Memory and epoch times of one run on a topic that is full."""
    events = HeldEvents(asked.records, asked.users, hold_ms=hold * 60_000)
    changes = {"idle_ms": IDLE_MS, "held_rows_max": bound, "epoch_rows_max": asked.epoch_rows}
    name, settings = _pipeline(place, window_ms=WINDOW_MS, lateness_ms=LATENESS_MS, **changes)
    fill(place.endpoints.kafka_bootstrap, name, events.values())
    started = place.driver(name, MODULE, settings, master=MASTERS["cluster"])
    with place.ending(started.process, name, _topics(name)):
        with watch_memory(started.process.pid) as peaks:
            _until_read(started, events)
        published, output = _published(place, name, started)
    if unseen := [role for role, mib in peaks.mib.items() if not mib]:
        raise BenchError(f"no memory of {', '.join(unseen)} was seen: their command lines are not what memory.py knows")
    if bound == NO_BOUND:
        require_held(events, published, closing_epochs(output), asked.epoch_rows)
        _require_none_late(name_of(hold), published.late)
        # The last windows are published an epoch or two behind the records that close them.
        closed_by_ms = events.reached_ms(events.records - 4 * asked.epoch_rows) - LATENESS_MS
        truth = events.per_window(copies=False)
        counts.compare(name_of(hold), counts.per_window(output), truth, closed_by_ms, WINDOW_MS)
    elif not published.late:
        raise BenchError(f"held_rows_max {bound:,} was never reached: name a smaller --bound, or more --records")
    return {"mib": peaks.mib, "epoch_ms": list(published.took_ms), "late": published.late}


def _wait(place: Place, rule: str, asked: Asked) -> dict[str, Any]:
    """When each window was visible in one run at a pace, by one rule."""
    records = asked.seconds * asked.per_s
    events = HeldEvents(records, asked.users, span_ms=asked.seconds * 1000, lag_ms=PACED_LAG_MS)
    sent: list[Sent] = []
    take = _wait_of_flink if rule == BY_SPLIT else _wait_of_ours
    # What a start takes is no latency: the first records wait for it, and are not compared.
    visible, late = take(place, rule, events, paced(events.values(), asked.per_s, sent))
    if rule != BY_FRONT:
        _require_none_late(rule, late)
    found = latencies_s(events, sent, visible.at_ms, PACED_WINDOW_MS)
    kept = {str(start): round(took, 3) for start, took in found.items() if start >= _measured_from(asked)}
    return {"latency_s": kept, "late": late}


def _wait_of_ours(place: Place, rule: str, events: HeldEvents, values: Iterable[bytes]) -> tuple[Visible, int]:
    name, settings = _pipeline(place, window_ms=PACED_WINDOW_MS, lateness_ms=PACED_LATENESS_MS, **RULES[rule])
    bootstrap = place.endpoints.kafka_bootstrap
    started = place.driver(name, MODULE, settings, master=MASTERS["cluster"])
    with place.ending(started.process, name, _topics(name)), watch_results(bootstrap, f"{name}.user_counts") as visible:
        fill(bootstrap, name, values)
        _until_read(started, events)
        return visible, Published.of(rates.read_announced(started.events)).late


def _wait_of_flink(place: Place, _: str, events: HeldEvents, values: Iterable[bytes]) -> tuple[Visible, int]:
    name, bootstrap = _topic(place), place.endpoints.kafka_bootstrap
    flink = Flink(name, name, f"{name}.user_counts", PACED_WINDOW_MS, PACED_LATENESS_MS)
    place.create([NewTopic(flink.output, SHARDS, 1)])
    process = flink.start(place)
    with place.ending(process, name, [name, flink.output]), watch_results(bootstrap, flink.output) as visible:
        fill(bootstrap, name, values)
        due = _due(events)
        last = max(due)
        wait_for(
            "the last window of Flink",
            LEAST_S,
            lambda: last in visible.at_ms and visible.counted()[last] == due[last],
            process,
        )
        counted = visible.counted()
        return visible, sum(due[start] - counted.get(start, 0) for start in due)


def _due(events: HeldEvents) -> dict[int, int]:
    """Return the events of each window, by its start, that is over once the slow partition has sent all it has."""
    until_ms = events.reached_ms(events.records - PARTITIONS) - PACED_LAG_MS - PACED_LATENESS_MS
    windows = events.per_window(copies=False, window_ms=PACED_WINDOW_MS)
    return {start: count for start, count in windows.items() if start + PACED_WINDOW_MS <= until_ms}


def _measured_from(asked: Asked) -> int:
    """Return from which time on windows are compared: a quarter of the run is for the start of JVMs."""
    return START_MS + 250 * int(asked.seconds)


def _require_none_late(arm: str, late: int) -> None:
    if late:
        raise BenchError(f"{arm}: {late:,} records were refused as late, though windows wait for all")


def _published(place: Place, name: str, started: Started) -> tuple[Published, list[bytes]]:
    """What was announced and published, of a driver that has read everything."""
    output = counts.values(place.endpoints.kafka_bootstrap, f"{name}.user_counts")
    # After the output: each epoch in it was announced, or is about to be.
    return Published.of(rates.read_announced(started.events)), output


def _until_read(started: Started, events: HeldEvents) -> None:
    within_s = LEAST_S + events.records / SLOWEST_PER_S
    rates.until_all(lambda: rates.epochs(started.events), events.records, within_s, started.process)


def _pipeline(place: Place, **changes: Any) -> tuple[str, str]:
    """Make a pipeline and a topic of its own; its name and settings."""
    name = _topic(place)
    return name, place.pipeline(name, name, MODULE, shards=SHARDS, **changes).model_dump_json()


def _topic(place: Place) -> str:
    """Make a topic of a run, and return its name, which is the run's."""
    name = f"h{uuid4().hex[:8]}"
    place.create([NewTopic(name, PARTITIONS, 1)])
    return name


def _topics(name: str) -> list[str]:
    return [name, f"{name}.user_counts", f"{name}.accepted"]
