"""Speed and size of the dedup catalog: `make bench CASE=catalog ARGS='--ids 1000000'`.

One JSON object a line. Rates are ids per second of wall time, medians over the batches; `cpu` is the same of processor
time, for a machine that is not idle. "Cold" means that 64 MiB were written between two batches, as the rest of an epoch
does: without it a small catalog stays in the processor's cache, as it never would in a pipeline.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from effectively_once.state.catalog import BUCKET_MS, Catalog
from effectively_once.state.lateness import Windows
from tests.bench import options

WINDOW_MS = 60_000
WARM_UP = 3
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


@dataclass(frozen=True)
class Workload:
    """Random ids of `id_bytes` hexadecimal digits, `batch` of them a delta, spread over `buckets` buckets.

    What is number n is the same whenever it is asked for, so that nothing has to be kept beside the catalog.
    """

    ids: int
    batch: int
    buckets: int
    id_bytes: int

    @property
    def deltas(self) -> int:
        """Deltas that fill the catalog."""
        return self.ids // self.batch

    @property
    def windows(self) -> Windows:
        """Windows whose lateness keeps the buckets open."""
        return Windows(WINDOW_MS, self.buckets * BUCKET_MS - WINDOW_MS)

    def fresh(self, number: int) -> pa.Array:
        """Ids of batch `number`."""
        rng = np.random.default_rng((7, number))
        digits = _DIGITS[rng.integers(0, 16, (self.batch, self.id_bytes), dtype=np.uint8)]
        bounds = (np.arange(self.batch + 1) * self.id_bytes).astype(np.int32)
        return pa.StringArray.from_buffers(self.batch, pa.py_buffer(bounds), pa.py_buffer(digits.tobytes()))

    def delta(self, number: int) -> pa.Table:
        """The delta of batch `number`; batches follow each other in time, and go on beyond what fills the catalog."""
        return pa.table({"id": self.fresh(number), "event_time_ms": self.times(number, self.batch)})

    def times(self, number: int, rows: int) -> np.ndarray:
        """Event times of batch `number`, ascending, in ms."""
        span_ms = self.buckets * BUCKET_MS / self.deltas
        return (number * span_ms + np.arange(rows) * span_ms / rows).astype(np.int64)

    def mix(self, number: int, duplicates: float, among: range) -> pa.Array:
        """Ids of batch `number`, a share of them replaced by as many different ids of batches out of `among`."""
        rng = np.random.default_rng((8, number))
        sources = rng.choice(among, min(20, len(among)), replace=False)
        each = int(self.batch * duplicates) // len(sources)
        parts = [self.fresh(int(source)).take(pa.array(rng.permutation(self.batch)[:each])) for source in sources]
        new = self.batch - sum(map(len, parts))
        return pa.concat_arrays([*parts, self.fresh(number)[:new]]).take(pa.array(rng.permutation(self.batch)))


@dataclass
class Timed:
    """Seconds of one kind of step."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @contextmanager
    def once(self) -> Iterator[None]:
        """Take the time of one step."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall_s.append(time.perf_counter() - wall)
        self.cpu_s.append(time.process_time() - cpu)

    def median(self, batch: int) -> dict[str, float]:
        """Rates of the median step."""
        wall, cpu = statistics.median(self.wall_s), statistics.median(self.cpu_s)
        return {"ids_per_s": round(batch / wall), "cpu": round(batch / cpu), "median_ms": round(wall * 1000, 3)}

    def whole(self, ids: int) -> dict[str, float]:
        """Rates of all steps together, and the slowest of them."""
        wall, cpu, slowest = sum(self.wall_s), sum(self.cpu_s), max(self.wall_s)
        return {
            "ids_per_s": round(ids / wall),
            "cpu": round(ids / cpu),
            "s": round(wall, 3),
            "slowest_ms": round(slowest * 1000, 1),
        }


def fill(load: Workload) -> Catalog:
    """Fill a catalog epoch by epoch, as a running pipeline does, and tell what it takes."""
    before, known, timed = _resident(), Catalog(load.windows), Timed()
    for number in range(load.deltas):
        delta = load.delta(number)
        with timed.once():
            known.fold(delta)
            known.settle()
    _say("fold", **timed.whole(load.ids))
    counted = known.summary()
    _say(
        "memory",
        live=counted["live"],
        bytes_per_id=round(counted["bytes"] / counted["live"], 1),
        resident_per_id=round((_resident() - before) / counted["live"], 1),
        id_bytes=load.id_bytes,
    )
    return known


def decide(known: Catalog, load: Workload, duplicates: float, rounds: int, cold: bool) -> None:
    """Decide batches that are not folded: the catalog stays as it is."""
    timed, wrong = Timed(), 0
    for number in range(load.deltas, load.deltas + WARM_UP + rounds):
        ids = load.mix(number, duplicates, among=range(load.deltas))
        if cold:
            np.zeros(1 << 23)[:] = 1.0
        with timed.once():
            known.decide(ids)
        wrong += known.counters.false_positives
    rate = wrong / (len(timed.wall_s) * load.batch)
    timed = Timed(timed.wall_s[WARM_UP:], timed.cpu_s[WARM_UP:])
    _say("decide", duplicates=duplicates, cold=cold, **timed.median(load.batch), false_positives=rate)


def steady(known: Catalog, load: Workload) -> None:
    """Whole epochs at a constant number of live ids, until a bucket has gone: expire, decide, fold, 5 % duplicates."""
    timed = Timed()
    for number in range(load.deltas, load.deltas + max(10, load.deltas // load.buckets)):
        ids, times = load.mix(number, 0.05, among=range(number - 5, number)), load.times(number, load.batch)
        with timed.once():
            known.expire(int(times[0]))
            new = known.decide(ids)
            known.fold(pa.table({"id": ids.filter(pa.array(new)), "event_time_ms": times[new]}))
            known.settle()
    _say("steady", live=len(known), **timed.whole(load.batch * len(timed.wall_s)))


def rebuilt(load: Workload) -> None:
    """Fold all deltas as a worker does that has just started; reading them is not in it."""
    known, timed = Catalog(load.windows), Timed()
    for number in range(load.deltas):
        delta = load.delta(number)
        with timed.once():
            known.fold(delta)
    with timed.once():
        known.settle()
    _say("rebuild", live=len(known), **timed.whole(load.ids))


def _say(case: str, **numbers: float) -> None:
    sys.stdout.write(json.dumps({"case": case, **numbers}) + "\n")
    sys.stdout.flush()


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


class Asked(options.Asked):
    """Speed and size of the dedup catalog in one process."""

    ids: Annotated[int, typer.Option(min=1, help="Live ids.")] = 1_000_000
    batch: Annotated[int, typer.Option(min=1, help="Ids of one epoch and shard.")] = 20_000
    buckets: Annotated[int, typer.Option(min=1, help="Live buckets.")] = 4
    id_bytes: Annotated[int, typer.Option(min=1, help="Bytes of an id.")] = 24
    rounds: Annotated[int, typer.Option(min=1, help="Batches to decide, for each kind of batch.")] = 100


def measure(asked: Asked) -> str:
    """Measure everything at one number of live ids; every number was said when it was known, nothing is left."""
    load = Workload(asked.ids, asked.batch, asked.buckets, asked.id_bytes)
    _say("workload", ids=load.ids, batch=load.batch, buckets=load.buckets, id_bytes=load.id_bytes)
    known = fill(load)
    for cold in (False, True):
        for duplicates in (0.0, 0.05):
            decide(known, load, duplicates, asked.rounds, cold)
    steady(known, load)
    del known
    rebuilt(load)
    return ""
