"""A run as tables, plots and plans: pure functions of its results."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench import optimisations_table
from tests.bench.facts import PLANS
from tests.bench.optimisations_table import EPOCH, QUERY
from tests.experiments.optimisations.figures import Figures
from tests.experiments.optimisations.plan import ARMS, Plan
from tests.experiments.page import Page, Table
from tests.experiments.plot import Plot
from tests.experiments.results import Results

Optimisations = Results[Plan, Figures]
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


def tables(results: Optimisations) -> list[Table]:
    """Return the tables: a row a variant."""
    plan = results.plan
    return [
        (
            f"{TITLES[part]}: {plan.records:,} events of {plan.users:,} users",
            HEADING,
            [_row(one, plan.records) for one in results.arms if one.part == part],
        )
        for part in ARMS
    ]


def plots(results: Optimisations) -> list[Plot]:
    """Return what each variant moves."""

    def each(part: str, of: Callable[[Figures], int]) -> dict[str, list[float]]:
        return {one.arm: [float(of(one))] for one in results.arms if one.part == part}

    return [
        Plot(f"{TITLES[part]}: {what} shuffled", unit, each(part, of))
        for part in ARMS
        for what, unit, of in (
            ("bytes", "bytes", lambda one: one.shuffled_bytes),
            ("records", "records", lambda one: one.shuffled_records),
        )
    ]


def says(results: Optimisations) -> str:
    """Return what was played."""
    plan = results.plan
    return (
        f"{plan.records:,} events of {plan.users:,} users are counted in windows, each variant by a driver and two "
        "executors in pods of their own, with fusion and the combiner switched on and off. Stages, bytes and records "
        "are those of Spark's event log."
    )


def plans(results: Optimisations) -> str:
    """Return the plan of each variant, in Markdown."""
    return optimisations_table.plans([{"part": one.part, "arm": one.arm, "plan": one.plan} for one in results.arms])


PAGE = Page("Fusion and combiner lifting", says, tables, plots, files=lambda results: {PLANS: plans(results)}, name=str)


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
