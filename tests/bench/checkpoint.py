"""What a checkpoint costs a batch: our checkpoint file manager, and the one that Spark takes by itself.

`make bench CASE=checkpoint`: batches of ten rows into the noop sink, as quickly as they come. A sample is the
median of `triggerExecution` of one run's batches, without the first ones, which warm the JVM up.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from effectively_once.driver.session import MANAGER
from infra.embedded.stack import Endpoints
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from tests.bench import rates, table
from tests.bench.checkpoint_job import ROWS, SETTING
from tests.bench.facts import Kept, spread
from tests.bench.options import Rounds, among, in_turn, pick
from tests.bench.place import LASTING_JVM, LOCAL, Place, open_place

OURS_S3, SPARK_S3, SPARK_LOCAL = "MinIO, ours", "MinIO, Spark's default over S3A", "local folder, Spark's default"
OURS_LOCAL = "local folder, ours"
TARGETS = {OURS_S3: table.Target(at_most=100), OURS_LOCAL: table.Target(at_most=70)}
WARM_UP = 20
SLOWEST_S, LEAST_S = 2.0, 120.0
STEPS = ("triggerExecution", "walCommit", "commitOffsets", "addBatch")
"""Of a batch: all of it, its offsets written, its commit written, its job run."""


@dataclass(frozen=True)
class Arm:
    """A checkpoint folder and the manager of its files.

    Attributes:
        folder: URL of a run's checkpoint: given the endpoints, the scratch folder and the run's name.
        conf: what Spark is told besides.
        s3a: whether its jars are on the class path.

    """

    folder: Callable[[Endpoints, Path, str], str]
    conf: Callable[[Endpoints], Mapping[str, str]]
    s3a: bool = False


def _own(_: Endpoints) -> Mapping[str, str]:
    return {SETTING: MANAGER}


def _s3a(at: Endpoints) -> Mapping[str, str]:
    # S3A takes credentials from the environment.
    prefix = "spark.hadoop.fs.s3a"
    return {
        f"{prefix}.endpoint": at.s3_endpoint,
        f"{prefix}.endpoint.region": "us-east-1",
        f"{prefix}.path.style.access": "true",
        f"{prefix}.connection.ssl.enabled": "false",
    }


def _local(_: Endpoints, scratch: Path, name: str) -> str:
    return str(scratch / "work" / f"{name}-checkpoint")


ARMS = {
    OURS_S3: Arm(lambda at, _, name: f"s3://{at.s3_bucket}/{name}/checkpoint", _own),
    SPARK_S3: Arm(lambda at, _, name: f"s3a://{at.s3_bucket}/{name}/checkpoint", _s3a, s3a=True),
    SPARK_LOCAL: Arm(_local, lambda _: {}),
}


class Asked(Rounds):
    """Our checkpoint file manager against Spark's default one."""

    batches: Annotated[int, typer.Option(min=1, help=f"Of each run, beside {WARM_UP} to warm up.")] = 120
    arms: Annotated[list[str], among(ARMS), typer.Option(metavar="ARM...")] = Field(default=[*ARMS])


def measure(asked: Asked) -> str:
    """Run it and return the table."""
    kept = Kept.begin(
        "checkpoint",
        asked.resume,
        **pick(asked, "batches", "rounds", "arms"),
        warm_up=WARM_UP,
        rows=ROWS,
        master=LOCAL,
        jvm=LASTING_JVM,
    )
    found: dict[str, list[float]] = {arm: [] for arm in asked.arms}
    steps: dict[str, list[Mapping[str, float]]] = {arm: [] for arm in asked.arms}
    with open_place() as place:
        for number in range(asked.rounds):
            for arm in in_turn(asked.arms, number):
                once = partial(_once, place, ARMS[arm], f"c{number}_{[*ARMS].index(arm)}", asked.batches)
                sample = kept.take(once, arm=arm, round=number)
                found[arm].append(sample["median_ms"]["triggerExecution"])
                steps[arm].append(sample["median_ms"])
                place.console.say(f"  round {number + 1}: {arm}: {found[arm][-1]:,.0f} ms")
    text = _table(found, steps, asked.batches)
    return kept.finish(text, "A batch of ten rows, and its checkpoint", "ms", found)


def _once(place: Place, arm: Arm, name: str, batches: int) -> dict[str, Any]:
    folder = arm.folder(place.endpoints, place.scratch, name)
    wanted = WARM_UP + batches
    conf, endpoint = dict(arm.conf(place.endpoints)), place.endpoints.s3_endpoint
    settings = {"conf": conf, "s3_endpoint": endpoint, "checkpoint": folder, "batches": wanted}
    class_path = [resolve_jars(Cache(cache_root()), "s3a")] if arm.s3a else []
    started = place.driver(name, "tests.bench.checkpoint_job", json.dumps(settings), class_path=class_path)
    with place.ending(started.process, name):
        rates.until_all(
            lambda: rates.batches(started.events), wanted * ROWS, LEAST_S + wanted * SLOWEST_S, started.process
        )
    shutil.rmtree(_local(place.endpoints, place.scratch, name), ignore_errors=True)
    told = [one["ms"] for one in rates.read_announced(started.events) if one["event"] == "batch"][WARM_UP:wanted]
    each = [ms["triggerExecution"] for ms in told]
    medians = {step: statistics.median(ms.get(step, 0) for ms in told) for step in STEPS}
    return {"median_ms": medians, "p95_ms": statistics.quantiles(each, n=20)[-1], "each_ms": each}


def _table(found: Mapping[str, Sequence[float]], steps: Mapping[str, list[Mapping[str, float]]], batches: int) -> str:
    rows = [
        [arm, spread(samples), *(f"{statistics.median(one[step] for one in steps[arm]):,.0f}" for step in STEPS[1:])]
        for arm, samples in found.items()
    ]
    lines = [
        f"batches of {ROWS} rows into the noop sink; {batches} batches a run, {len(next(iter(found.values())))} runs",
        "",
        table.table(["checkpoint", "batch, median of ms (from, to)", *STEPS[1:]], rows),
        "",
    ]
    lines += [table.median(found, arm, "ms", target) for arm, target in TARGETS.items() if arm in found]
    lines += [
        table.ratio(found, theirs, OURS_S3) for theirs in (SPARK_S3, SPARK_LOCAL) if {theirs, OURS_S3} <= found.keys()
    ]
    if OURS_LOCAL not in found:
        lines.append("Our manager writes to an object store only: there is no arm of it in a local folder.")
    return "\n".join(lines)
