"""Whether the catalog's cost stays the same as live ids grow: the case `catalog` at several sizes, beside each other.

`make bench CASE=flat ARGS="--ids 1000000 10000000 50000000"`: every size in a process of its own, in turn. It takes
long: `--resume FOLDER` goes on where an interrupted measurement ended.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from pydantic import Field

from infra.cluster.access import CHECKOUT
from infra.toolchain.prepare import default_console
from tests.bench import table
from tests.bench.errors import BenchError
from tests.bench.facts import Kept, spread
from tests.bench.options import Rounds, pick

WITHIN = 1.2
COSTS: dict[str, dict[str, Any]] = {
    "whole epoch, 5 % copies": {"case": "steady"},
    "decision alone, 5 % copies, cold": {"case": "decide", "duplicates": 0.05, "cold": True},
}
"""What is compared, and which line of the case `catalog` tells it."""

Found = Mapping[str, Mapping[int, Sequence[float]]]


class Asked(Rounds):
    """The catalog's cost as live ids grow."""

    ids: Annotated[list[int], typer.Option(help="Live ids, the smallest first.")] = Field(
        default=[1_000_000, 10_000_000, 50_000_000]
    )
    batch: Annotated[int, typer.Option(min=1, help="Ids of one epoch and shard.")] = 20_000


def measure(asked: Asked) -> str:
    """Run it and return the table."""
    kept = Kept.begin("flat", asked.resume, **pick(asked, "ids", "batch", "rounds"))
    console = default_console()
    found: dict[str, dict[int, list[float]]] = {cost: {ids: [] for ids in asked.ids} for cost in COSTS}
    memory: dict[int, float] = {}
    for number in range(asked.rounds):
        for ids in asked.ids:
            with console.step(f"round {number + 1}: {ids:,} ids"):
                sample = kept.take(partial(_once, ids, asked.batch), ids=ids, round=number)
            for cost, fields in COSTS.items():
                found[cost][ids].append(1e9 / float(_line(sample["lines"], fields)["ids_per_s"]))
            memory[ids] = _line(sample["lines"], {"case": "memory"})["bytes_per_id"]
    text = _table(found, memory, asked)
    whole = {f"{ids:,} live ids": samples for ids, samples in found[next(iter(COSTS))].items()}
    return kept.finish(text, "Cost of an id, whole epoch of the catalog", "ns", whole)


def _once(ids: int, batch: int) -> dict[str, Any]:
    words = [sys.executable, "-m", "tests.bench", "catalog", "--ids", str(ids), "--batch", str(batch)]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{ids:,} ids: the catalog's process ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return {"lines": [json.loads(line) for line in done.stdout.splitlines()]}


def _line(lines: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(one for one in lines if all(one.get(name) == value for name, value in fields.items()))


def _table(found: Found, memory: Mapping[int, float], asked: Asked) -> str:
    rows = [[f"{ids:,}", *(spread(found[cost][ids]) for cost in COSTS), f"{memory[ids]:.1f}"] for ids in asked.ids]
    heading = ["live ids", *(f"{cost}: ns an id, median (from, to)" for cost in COSTS), "bytes an id"]
    lines = [
        f"one process, batches of {asked.batch:,} ids of 24 bytes, {asked.rounds} rounds",
        "",
        table.table(heading, rows),
        "",
    ]
    smallest, *larger = asked.ids
    for cost in COSTS:
        for ids in larger:
            ratio = statistics.median(found[cost][ids]) / statistics.median(found[cost][smallest])
            judged = table.Target(at_most=WITHIN).judge(ratio)
            lines.append(f"{cost}: cost at {ids:,} / at {smallest:,}: {ratio:.2f} ({judged})")
    return "\n".join(lines)
