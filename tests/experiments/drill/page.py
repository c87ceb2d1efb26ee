"""A drill as tables and plots: pure functions of its results."""

from __future__ import annotations

from collections.abc import Callable

from tests.experiments.drill.figures import Figures
from tests.experiments.drill.plan import Plan
from tests.experiments.page import Page, Table
from tests.experiments.plot import Plot
from tests.experiments.results import Results

Drill = Results[Plan, Figures]
HEADING = [
    "destroyed",
    "records lost",
    "seconds of data",
    "minutes of time",
    "of it restoring, s",
    "age of backup, s",
]
DETAIL: dict[str, Callable[[Figures], str]] = {
    "records of the backup (missing)": lambda one: f"{one.in_backup:,} ({len(one.missing):,})",
    "records after it, before the destruction (lost)": lambda one: f"{one.came_after:,} ({one.lost:,})",
    "records after the destruction (not published)": lambda one: f"{one.sent_later:,} ({len(one.unpublished):,})",
    "records shown twice": lambda one: f"{len(one.doubled):,}",
    "windows (wrong)": lambda one: f"{one.windows:,} ({len(one.wrong):,})",
    "records whose copies another name took again": lambda one: f"{one.forgotten:,}",
    "records of the backup in windows that were never counted": lambda one: f"{one.in_open_windows:,}",
    "epochs by which sinks were ahead": lambda one: f"{one.ahead:,}",
    "until the driver had stopped, s": lambda one: f"{one.stop_s:.1f}",
    "until all was restored, s": lambda one: f"{one.restore_s:.1f}",
    "until the first epoch, s": lambda one: f"{one.start_s:.1f}",
    "went on": lambda one: "under another name" if one.renamed else "as it was",
}


def tables(results: Drill) -> list[Table]:
    """Return what was lost, a row a part, and the rest."""
    lost = [
        [
            one.part,
            f"{one.lost:,}",
            f"{one.lost_s:.1f}",
            f"{one.away_s / 60:.2f}",
            f"{one.restore_s:.1f}",
            f"{one.age_s:.1f}",
        ]
        for one in results.arms
    ]
    rest = [[name, *(told(one) for one in results.arms)] for name, told in DETAIL.items()]
    return [
        ("What was lost: accepted records that no output has, and the time to the first epoch after", HEADING, lost),
        ("How it went: ids count once", ["", *(one.part for one in results.arms)], rest),
    ]


def plots(results: Drill) -> list[Plot]:
    """Return what one looks at first."""

    def each(of: Callable[[Figures], float]) -> dict[str, list[float]]:
        return {one.part: [of(one)] for one in results.arms}

    return [
        Plot("Seconds of data that were lost", "s", each(lambda one: one.lost_s)),
        Plot("Seconds from the destruction to the first epoch after", "s", each(lambda one: one.away_s)),
    ]


def says(results: Drill) -> str:
    """Return what was played."""
    plan = results.plan
    return (
        f"A pipeline counts {plan.pace} records a second and is backed up twice, into a folder outside. "
        f"{plan.between_s} seconds after the second backup something is destroyed under it: {', '.join(plan.parts)}. "
        "The driver is stopped, everything is restored from the folder by the commands of the how-to, and a driver "
        "goes on. Records that were sent are compared with those that the sinks show in the end."
    )


PAGE = Page("What a disaster costs", says, tables, plots, name=str)
