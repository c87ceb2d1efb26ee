"""What a change costs: `user_counts` of this checkout against that of an earlier commit.

`make bench CASE=against ARGS="--before COMMIT"`: one topic, filled once; both take turns, each on a fresh pipeline,
with the wheel and the Java classes of its own commit. A sample is rows per second, as in `semantics`.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.cluster.access import CHECKOUT
from infra.toolchain.prepare import prepare
from tests.bench import rates, table
from tests.bench.errors import BenchError
from tests.bench.facts import Kept, spread
from tests.bench.options import Master, Rounds, in_turn, pick
from tests.bench.place import LASTING_JVM, MASTERS, Place, open_place
from tests.bench.s1_events import Events

NOW, BEFORE = "this checkout", "before"
MODULE, TOPIC, SHARDS, DONE_S = "effectively_once_jobs.user_counts", "against", 2, 300.0
WARM_UP = 0.4
"""Share of the records. A JVM compiles for its first 600,000 or so: they take twice as long as those after them."""


class Asked(Rounds):
    """user_counts of this checkout and of an earlier commit: what a change costs."""

    before: Annotated[str, typer.Option(help="Commit, tag or branch.")]
    records: Annotated[int, typer.Option(min=1)] = 2_000_000
    bytes: Annotated[int, typer.Option(min=1, help="Size of a record.")] = 100
    epoch_rows: Annotated[int, typer.Option(min=1)] = 100_000
    at_least: Annotated[float | None, typer.Option(help="Target of the ratio.")] = None
    master: Master = "cluster"


def measure(asked: Asked) -> str:
    """Run it and return the table."""
    commit = _commit(asked.before)
    kept = Kept.begin(
        "against",
        asked.resume,
        before=commit,
        **pick(asked, "records", "bytes", "rounds", "epoch_rows"),
        shards=SHARDS,
        warm_up=WARM_UP,
        master=MASTERS[asked.master],
        jvm=LASTING_JVM,
    )
    found: dict[str, list[float]] = {NOW: [], BEFORE: []}
    with tempfile.TemporaryDirectory(prefix="before-") as folder, open_place() as place:
        places = {NOW: place, BEFORE: replace(place, toolchain=prepare(place.console, checkout=_files(commit, folder)))}
        events = Events(asked.records, record_bytes=asked.bytes)
        place.fill_topic(TOPIC, events.values(), f"{asked.records:,} records of {asked.bytes:,} bytes")
        for number in range(asked.rounds):
            for arm in in_turn((BEFORE, NOW), number):
                once = partial(_once, places[arm], f"{arm.split()[0]}{number}", asked)
                sample = kept.take(once, arm=arm, round=number)
                found[arm].append(sample["rows_per_s"])
                place.console.say(f"  round {number + 1}: {arm}: {sample['rows_per_s']:,.0f} rows/s")
    rows = [[arm, spread(samples)] for arm, samples in found.items()]
    text = "\n".join(
        [
            table.table(["arm", "rows/s, median (from, to)"], rows),
            "",
            table.ratio(found, NOW, BEFORE, table.Target(at_least=asked.at_least)),
        ]
    )
    return kept.finish(text, f"This checkout beside {commit[:9]}", "rows/s", found)


def _once(place: Place, name: str, asked: Asked) -> dict[str, Any]:
    settings = place.pipeline(name, TOPIC, MODULE, shards=SHARDS, epoch_rows_max=asked.epoch_rows)
    # A setting that is new is unknown to the version before; both have its default.
    given = settings.model_dump_json(exclude_defaults=True, exclude_none=True)
    started = place.driver(name, MODULE, given, master=MASTERS[asked.master])
    with place.ending(started.process, name):
        seen = rates.until_all(lambda: rates.epochs(started.events), asked.records, DONE_S, started.process)
        return rates.rate(seen, int(asked.records * WARM_UP), asked.records).rounded


def _commit(name: str) -> str:
    asked = ["git", "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"]
    found = subprocess.run(asked, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if found.returncode:
        raise BenchError(f"--before {name}: no commit of this repository; `git log --oneline` lists them")
    return found.stdout.strip()


def _files(commit: str, folder: str) -> Path:
    """What a commit has below `pipelines/`, in a folder."""
    packed = subprocess.run(["git", "archive", commit, "pipelines"], cwd=CHECKOUT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Path(folder)
