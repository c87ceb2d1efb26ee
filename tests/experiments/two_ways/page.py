"""A run of both ways as tables and plots: pure functions of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from effectively_once_jobs.two_ways.settings import DEDUP, SNAPSHOTS, Way
from tests.experiments.page import Page, Table, set_latency, set_stored
from tests.experiments.plot import Plot
from tests.experiments.results import Results
from tests.experiments.two_ways.figures import Figures, Level, Recovery
from tests.experiments.two_ways.plan import NO_CATALOG, Plan

TwoWays = Results[Plan, Figures]
BOTH: tuple[Way, Way] = (SNAPSHOTS, DEDUP)
RATIO = "dedup / snapshots"
NOT_MEASURED = "not measured"
RECOVERY = "Recovery, s: from the kill until all that was sent before it is in the output (to the next new record)"
Number = Callable[[Level], float | None]


def name_arm(name: str) -> str:
    """Return the name of an arm, in words."""
    way, _, operators = name.rpartition("_")
    return f"{'dedup without its catalog' if way == NO_CATALOG else way}, {operators} operators"


def tables(results: TwoWays) -> list[Table]:
    """Return the tables: a row an arm, or a row for each number of operators and of kills, with both ways."""

    def arms(title: str, figures: dict[str, Callable[[Figures], str]]) -> Table:
        rows = [[name_arm(one.name), *(told(one) for told in figures.values())] for one in results.arms]
        return title, ["arm", *figures], rows

    def levels(title: str, told: Callable[[Level], str], compared: Number | None = None) -> Table:
        rows = []
        for name, both in _pairs(results):
            cells = [told(level) if level else "" for level in both]
            ratio = [_ratio(*(compared(level) if level else None for level in both))] if compared else []
            rows += [[name, *cells, *ratio]] if any(cells) else []
        return title, ["operators, kills", *BOTH, *([RATIO] if compared else [])], rows

    return [
        arms(
            "Output",
            {
                "due": lambda one: f"{one.due:,}",
                "lost": lambda one: f"{one.lost:,}",
                "wrong": lambda one: f"{one.wrong:,}",
                "written more than once": lambda one: f"{one.rewritten:,}",
                "otherwise then": lambda one: f"{one.differing:,}",
                "kills that hit": lambda one: _hit(one.levels),
            },
        ),
        levels(
            "Throughput of a burst, records/s",
            lambda level: _set_number(level.throughput_per_s, ",.0f"),
            lambda level: level.throughput_per_s,
        ),
        levels(
            "Latency at a pace, ms: p50 / p99",
            lambda level: set_latency(level.paced, most=False),
            lambda level: level.paced.p50_ms if level.paced else None,
        ),
        levels(RECOVERY, _recoveries),
        levels(
            "Work: records that operators took, over records times operators; copies dropped",
            lambda level: f"{level.taken:.2f}; {level.copies:.2f}",
        ),
        arms(
            "Cost of an arm",
            {
                "object store, KiB (objects)": set_stored,
                "topics between operators, KiB": lambda one: (
                    NOT_MEASURED if one.topics_bytes is None else f"{one.topics_bytes / 1024:,.0f}"
                ),
                "CPU, s per 1,000 records": lambda one: _set_number(one.cpu_s_per_1000, ".1f") or NOT_MEASURED,
                "load before and at the end": lambda one: "{:.1f}, {:.1f}".format(*one.load),
            },
        ),
    ]


def more(results: TwoWays) -> list[str]:
    """Return a line for each control that went wrong as it has to."""
    controls = [one for one in results.arms if not one.catalog and one.wrong]
    return [
        f"✓ {name_arm(one.name)}: the same kills make {one.wrong:,} of {one.due:,} records wrong" for one in controls
    ]


def plots(results: TwoWays) -> list[Plot]:
    """Return the figures that one looks at."""
    pairs = [
        (f"{name} kills: {way}".replace(",", " operators,"), level)
        for name, levels in _pairs(results)
        for way, level in zip(BOTH, levels, strict=True)
        if level
    ]
    stored = {
        name_arm(one.name): [(one.object_store_bytes + one.topics_bytes) / 1024]
        for one in results.arms
        if one.catalog and one.topics_bytes is not None
    }
    return [
        Plot(
            "Throughput of a burst",
            "records/s",
            {name: [level.throughput_per_s] for name, level in pairs if level.throughput_per_s is not None},
        ),
        Plot(
            "Latency at a pace: 50, 90 (the bar) and 99 % of records",
            "s",
            {
                name: [ms / 1000 for ms in (level.paced.p50_ms, level.paced.p90_ms, level.paced.p99_ms)]
                for name, level in pairs
                if level.paced
            },
        ),
        Plot(
            "From a kill until all that was sent before it is in the output; the bar: the median",
            "s",
            {name: _through(level.recoveries) for name, level in pairs},
        ),
        Plot(
            "Records that operators took, over records times operators",
            "times",
            {name: [level.taken] for name, level in pairs},
        ),
        Plot("Stored at the end: object store and topics between operators", "KiB", stored),
    ]


def says(results: TwoWays) -> str:
    """Return what was played."""
    plan = results.plan
    return (
        f"For each number of kills a burst of {plan.burst:,} records, and {plan.paced:,} at {plan.pace} a second; "
        f"{plan.users} users. Records, and the operators that are struck, are the same for both ways."
    )


PAGE = Page("Two ways to effectively-once", says, tables, plots, name=name_arm, more=more)


def _pairs(results: TwoWays) -> Iterator[tuple[str, list[Level | None]]]:
    """Each number of operators and of kills, and what both ways had of it."""
    found = {(one.way, one.operators): one for one in results.arms if one.catalog}
    for operators in results.plan.operators:
        arms = [found.get((way, operators)) for way in BOTH]
        for kills in results.plan.kills:
            yield (
                f"{operators}, {kills}",
                [next((level for level in one.levels if level.kills == kills), None) if one else None for one in arms],
            )


def _set_number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _hit(levels: list[Level]) -> str:
    return f"{sum(level.hit for level in levels)} of {sum(level.planned for level in levels)}"


def _ratio(snapshots: float | None, dedup: float | None) -> str:
    if not snapshots or not dedup:
        return ""
    found = dedup / snapshots
    return f"{found:.2f}" if found >= 0.1 else f"{found:.3f}"


def _through(recoveries: list[Recovery]) -> list[float]:
    return [one.through_s for one in recoveries if one.through_s is not None]


def _middle(times: list[float]) -> str:
    return f"{median(times):.1f}" if times else "–"


def _recoveries(level: Level) -> str:
    """By what was killed; of several the median, and all of them."""
    found: dict[str, list[Recovery]] = {}
    for one in level.recoveries:
        found.setdefault(one.target, []).append(one)
    told = []
    for target, of in found.items():
        through, soonest = _through(of), [one.next_s for one in of if one.next_s is not None]
        told.append(f"{target} {_middle(through)} ({_middle(soonest)})")
    return ", ".join(told)
