"""Fusion and combiner lifting, each on and off: stages, bytes shuffled and speed, of a query and of the real epoch.

`python -m tests.bench optimisations`: first S1 in Spark's own operators over a topic (`optimised`), variants in turn
in one session; then the pipeline `user_counts`, exactly once, as it is and with one of them off. Stages, bytes and
records are those of Spark's event log. Answers of all variants are compared with each other and with what was sent.
"""

from __future__ import annotations

import argparse

from tests.bench.facts import PLANS, Kept
from tests.bench.optimisations_runs import PARTS, done, epochs, queries
from tests.bench.optimisations_table import EPOCH, QUERY, plans, text
from tests.bench.options import add_common, pick
from tests.bench.place import HEAP_MIB, LASTING_JVM, MASTERS, open_place
from tests.bench.s1_arms import LATENESS_MS, TOPIC
from tests.bench.s1_events import Events


def arguments(given: argparse.ArgumentParser) -> None:
    """Add the options of this case."""
    given.add_argument("--records", type=int, default=1_000_000)
    given.add_argument("--users", type=int, nargs="+", default=[1_000, 100_000])
    given.add_argument("--pipeline-rounds", type=int, default=3, help="of the pipeline, with the first of --users")
    given.add_argument("--epoch-rows", type=int, default=100_000)
    given.add_argument("--finish", action="store_true", help="with --resume: the table of the rounds that are there")
    add_common(given, master="local")


def measure(asked: argparse.Namespace) -> str:
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


def _measure(kept: Kept, asked: argparse.Namespace) -> None:
    """Take the samples that are not there yet."""
    rounds = {QUERY: asked.rounds, EPOCH: asked.pipeline_rounds}
    with open_place() as place:
        first, *others = asked.users
        for part, users in [(QUERY, first), (EPOCH, first), *((QUERY, users) for users in others)]:
            if done(kept, part, users, range(rounds[part])):
                continue
            events = Events(asked.records, users)
            place.fill_topic(TOPIC, events.values(), f"{events.records:,} events of {users:,} users")
            if part == QUERY:
                queries(kept, place, events, asked)
            else:
                epochs(kept, place, events, asked)
            place.delete([TOPIC])
