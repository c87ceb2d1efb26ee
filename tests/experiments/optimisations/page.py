"""A run as tables, plans and a page: pure functions of its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench import optimisations_table
from tests.bench.optimisations_table import EPOCH, QUERY
from tests.experiments.optimisations.plan import ARMS
from tests.experiments.page import in_html, in_markdown

if TYPE_CHECKING:
    from tests.experiments.optimisations.figures import Figures
    from tests.experiments.optimisations.results import Optimisations

TITLES = {QUERY: "S1 as a query", EPOCH: "S1 as the pipeline, exactly once, sum of its epochs"}
HEADING = [
    "variant",
    "stages",
    "bytes shuffled",
    "from pod to pod",
    "records shuffled",
    "bytes a record read",
    "tasks, by pod of an executor",
]


def tables(results: Optimisations) -> list[tuple[str, list[list[str]]]]:
    """Return what is said above each table, and its rows."""
    plan = results.plan
    return [
        (
            f"{TITLES[part]}: {plan.records:,} events of {plan.users:,} users",
            [_row(one, plan.records) for one in results.arms if one.part == part],
        )
        for part in ARMS
    ]


def markdown(results: Optimisations) -> str:
    """Return the tables and what was judged, in Markdown."""
    return in_markdown([(title, HEADING, rows) for title, rows in tables(results)], judged(results))


def judged(results: Optimisations) -> list[str]:
    """Return a line for each promise and for each guard that does not hold, and the verdict."""
    told = [(f"{one.part}, {one.arm}", one) for one in results.signs]
    lines = [f"{'✓' if one.holds else '✗'} {who} {one.says}: {one.found}" for who, one in told if one.promise]
    lines += [
        f"? {who}: not shown that it {one.says} ({one.found})" for who, one in told if not one.promise and not one.holds
    ]
    lines += [f"? {name}: {why}" for name, why in results.unread.items()]
    return [*lines, f"{results.verdict.name}, seed {results.plan.seed}"]


def plans(results: Optimisations) -> str:
    """Return the plan of each variant, in Markdown."""
    return optimisations_table.plans([{"part": one.part, "arm": one.arm, "plan": one.plan} for one in results.arms])


def html(results: Optimisations) -> str:
    """Return the page, which needs no other file."""
    says = "Stages, bytes and records by Spark's event log."
    sections = [(title, HEADING, rows) for title, rows in tables(results)]
    title = "Fusion and combiner lifting"
    return in_html(results, sections, judged(results), title=title, heading=title, says=says)


def _row(one: Figures, records: int) -> list[str]:
    tasks = ", ".join(str(number) for number in one.tasks.values())
    return [
        one.arm,
        str(one.stages),
        f"{one.shuffled_bytes:,}",
        f"{one.remote_bytes:,}",
        f"{one.shuffled_records:,}",
        f"{one.shuffled_bytes / records:,.2f}",
        tasks,
    ]
