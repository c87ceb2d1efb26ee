"""What a lake table costs: accepted rows into an Iceberg table, beside the same rows into a topic.

`make bench CASE=lake`: the two arms take turns, each on a fresh pipeline, with the same records. A sample is rows
per second after a warm-up; what an arm has published is compared with what was sent. Then commits alone: the driver's
part of an epoch (table read, snapshot committed), of epochs of as many rows, in a table that has all the snapshots it
keeps.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import orjson
import pyarrow as pa
import typer

from effectively_once.sinks import lake_tables
from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.iceberg import IcebergSink
from effectively_once.sinks.lake_catalog import LakeAddress
from effectively_once.store.object_store import BucketAddress, shared_store
from infra.embedded.postgres import PostgresServer
from infra.toolchain.postgres import HOW, find_postgres
from tests.bench import accepted, counts, lake_job, rates, table
from tests.bench.errors import BenchError
from tests.bench.facts import Kept, spread
from tests.bench.options import Master, Rounds, in_turn, pick
from tests.bench.place import LASTING_JVM, MASTERS, Place, open_place
from tests.bench.s1_events import Events
from tests.harness.adapters.lake import LakeTables
from tests.harness.adapters.tables import Tables
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.servers import result_store

TOPIC, LAKE = "topic", "lake table"
ARMS = {TOPIC: "kafka", LAKE: "lake"}
MODULE, SHARDS, WARM_UP, DONE_S = "tests.bench.lake_job", 2, 0.25, 300.0
RATE, COMMIT = table.Target(at_least=0.5), table.Target(at_most=500)
COMMITS = "commit"
SHAPE = lake_job.lake.lake_tables[lake_job.SINK]


class Asked(Rounds):
    """An Iceberg table beside a topic: rows/s, and how long the commit of an epoch takes."""

    records: Annotated[int, typer.Option(min=1)] = 800_000
    epoch_rows: Annotated[int, typer.Option(min=1)] = 100_000
    commits: Annotated[int, typer.Option(min=1, help="Epochs whose commit is measured, past a warm-up.")] = 150
    rounds: Annotated[int, typer.Option(min=1, help="How often each arm is measured.")] = 3
    master: Master = "cluster"


def measure(asked: Asked) -> str:
    """Run it and return the table. Raises BenchError: there is no PostgreSQL, or an arm published something else."""
    settings = pick(asked, "records", "rounds", "epoch_rows", "commits")
    kept = Kept.begin(
        "lake", asked.resume, **settings, shards=SHARDS, warm_up=WARM_UP, master=MASTERS[asked.master], jvm=LASTING_JVM
    )
    found: dict[str, list[float]] = {arm: [] for arm in ARMS}
    events = Events(asked.records)
    with _open_stack() as stack:
        stack.place.fill_topic(TOPIC, events.values(), f"{asked.records:,} records")
        for number in range(asked.rounds):
            for arm in in_turn([*ARMS], number):
                once = partial(stack.run, arm, events, f"l{number}_{ARMS[arm]}", asked)
                sample = kept.take(once, arm=arm, round=number)
                found[arm].append(sample["rows_per_s"])
                stack.place.console.say(f"  round {number + 1}: {arm}: {sample['rows_per_s']:,.0f} rows/s")
        commits = kept.take(partial(stack.commit, asked.epoch_rows, asked.commits), arm=COMMITS)
    text = _table(found, commits["ms"])
    return kept.finish(text, "A lake table beside a topic", "rows/s", found)


@dataclass(frozen=True)
class Stack:
    """What both arms share: broker and stores."""

    place: Place
    server: PostgresServer

    @property
    def bucket(self) -> BucketAddress:
        """Where files of lake tables are."""
        return BucketAddress(self.place.endpoints.s3_endpoint, self.place.endpoints.s3_bucket)

    def make(self, pipeline: str) -> LakeAddress:
        """Make the lake table of a pipeline."""
        address = LakeAddress(DatabaseAddress(self.server.url), self.bucket, pipeline, lake_job.SINK)
        lake_tables.create(address, SHAPE)
        return address

    def run(self, arm: str, events: Events, name: str, asked: Asked) -> dict[str, Any]:
        """Run one arm, and return its rows per second. Raises BenchError: it published something else."""
        place, job = self.place, f"{MODULE}:{ARMS[arm]}"
        settings = place.pipeline(
            name, TOPIC, job, shards=SHARDS, epoch_rows_max=asked.epoch_rows, database=self.server.url
        )
        if arm == LAKE:
            self.make(name)
        started = place.driver(name, MODULE, settings.model_dump_json(), master=MASTERS[asked.master])
        with place.ending(started.process, name):
            seen = rates.until_all(lambda: rates.epochs(started.events), events.records, DONE_S, started.process)
            measured = rates.rate(seen, int(events.records * WARM_UP), events.records)
            accepted.compare(arm, self._published(arm, name), events, copies=False)
        return measured.rounded

    def _published(self, arm: str, name: str) -> Iterator[bytes]:
        if arm == TOPIC:
            return counts.stream(self.place.endpoints.kafka_bootstrap, f"{name}.{lake_job.SINK}")
        return map(orjson.dumps, LakeTables(Tables(self.server, name), self.bucket).rows(lake_job.SINK))

    def commit(self, epoch_rows: int, number: int) -> dict[str, Any]:
        """Commit epochs of so many rows, and return how long each took once the table drops snapshots, in ms."""
        address, kept = self.make("commits"), int(lake_tables.KEPT)
        sink, rows = IcebergSink(shared_store(address.bucket), address, SHAPE), _rows(epoch_rows // SHARDS)
        took = []
        for epoch in range(kept + number):
            staged = [sink.stage(epoch, rows) for _ in range(SHARDS)]
            began = time.perf_counter()
            sink.publish_staged(epoch, 1, staged)
            took.append(round((time.perf_counter() - began) * 1000, 1))
        return {"ms": took[kept:]}


@contextmanager
def _open_stack() -> Iterator[Stack]:
    if (programs := find_postgres()) is None:
        raise BenchError(f"the catalog of lake tables needs PostgreSQL. {HOW}")
    with open_place() as place, result_store(RunDirectory(place.scratch), programs) as server:
        assert server is not None, "its programs are there"
        os.environ.update(place.endpoints.credentials)
        yield Stack(place, server)


def _rows(number: int) -> pa.Table:
    """Return rows of the sink's columns, in each of which is the row's number."""
    numbers = pa.array(range(number))
    return pa.table([numbers.cast(column.type) for column in SHAPE.schema], schema=SHAPE.schema)


def _table(found: dict[str, list[float]], commits: list[float]) -> str:
    """Medians, and the two numbers that matter."""
    highest = statistics.quantiles(commits, n=100)[-1] if len(commits) > 1 else commits[0]
    lines = [
        table.table(["arm", "rows/s, median (from, to)"], [[arm, spread(each)] for arm, each in found.items()]),
        "",
        table.ratio(found, LAKE, TOPIC, RATE),
        f"{table.median({COMMITS: commits}, COMMITS, 'ms', COMMIT)}; p99 {highest:,.1f} ms",
    ]
    return "\n".join(lines)
