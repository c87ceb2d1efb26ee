"""Fusion and combiner lifting, each on and off: stages, bytes shuffled and speed, of a query and of the real epoch.

`make bench CASE=optimisations`: first S1 in Spark's own operators over a topic (`optimised`), variants in turn
in one session; then the pipeline `user_counts`, exactly once, as it is and with one of them off. Stages, bytes and
records are those of Spark's event log. Answers of all variants are compared with each other and with what was sent.
"""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import Field

from tests.bench.facts import PLANS, Kept
from tests.bench.optimisations_runs import PARTS, done, epochs, queries
from tests.bench.optimisations_table import EPOCH, QUERY, plans, text
from tests.bench.options import Master, Rounds, pick
from tests.bench.place import HEAP_MIB, LASTING_JVM, MASTERS, open_place
from tests.bench.s1_arms import LATENESS_MS, TOPIC
from tests.bench.s1_events import Events


class Asked(Rounds):
    """Fusion and combiner lifting, on and off: plan, bytes shuffled, speed."""

    records: Annotated[int, typer.Option(min=1)] = 1_000_000
    users: Annotated[list[int], typer.Option()] = Field(default=[1_000, 100_000])
    pipeline_rounds: Annotated[int, typer.Option(min=1, help="Of the pipeline, with the first of --users.")] = 3
    epoch_rows: Annotated[int, typer.Option(min=1)] = 100_000
    finish: Annotated[bool, typer.Option("--finish", help="With --resume: the table of the rounds that are there.")] = (
        False
    )
    master: Master = "local"


def measure(asked: Asked) -> str:
    """Run it and return the table."""
    kept = Kept.begin(
        "optimisations",
        asked.resume,
        **pick(asked, "records", "users", "rounds", "pipeline_rounds", "epoch_rows"),
        parts=PARTS,
        lateness_ms=LATENESS_MS,
        jvm=LASTING_JVM,
        heap_mib=HEAP_MIB,
        master=MASTERS[asked.master],
    )
    if not asked.finish:
        _measure(kept, asked)
    (kept.folder / PLANS).write_text(plans(kept.samples()) + "\n")
    table, figures = text(kept.samples(), asked.records)
    return kept.finish(table, "Fusion and combiner lifting", "rows/s", figures)


def _measure(kept: Kept, asked: Asked) -> None:
    """Take the samples that are not there yet."""
    rounds, master = {QUERY: asked.rounds, EPOCH: asked.pipeline_rounds}, MASTERS[asked.master]
    with open_place() as place:
        first, *others = asked.users
        for part, users in [(QUERY, first), (EPOCH, first), *((QUERY, users) for users in others)]:
            if done(kept, part, users, range(rounds[part])):
                continue
            events = Events(asked.records, users)
            place.fill_topic(TOPIC, events.values(), f"{events.records:,} events of {users:,} users")
            if part == QUERY:
                queries(kept, place, events, asked.rounds, master=master)
            else:
                epochs(kept, place, events, asked.pipeline_rounds, master=master, rows=asked.epoch_rows)
            place.delete([TOPIC])
