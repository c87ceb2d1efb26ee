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


def called(name: str) -> str:
    """Return the name of an arm, in words."""
    way, _, operators = name.rpartition("_")
    return f"{'dedup without its catalog' if way == NO_CATALOG else way}, {operators} operators"


def tables(results: TwoWays) -> list[Table]:
    """Return the tables: what is said above each, its heading and its rows."""
    pairs = list(_pairs(results))
    heading = ["operators, kills", *BOTH, RATIO]
    return [
        (
            "Output",
            ["arm", "due", "lost", "wrong", "written more than once", "otherwise then", "kills that hit"],
            [
                [
                    called(one.name),
                    *(f"{number:,}" for number in (one.due, one.lost, one.wrong, one.rewritten, one.differing)),
                    f"{sum(level.hit for level in one.levels)} of {sum(level.planned for level in one.levels)}",
                ]
                for one in results.arms
            ],
        ),
        ("Throughput of a burst, records/s", heading, _rows(pairs, lambda one: one.throughput_per_s, ",.0f")),
        (
            "Latency at a pace, ms: p50 / p99",
            heading,
            [
                [
                    name,
                    *(set_latency(took, most=False) for took in calm),
                    _ratio(*(took.p50_ms if took else None for took in calm)),
                ]
                for name, levels in pairs
                for calm in [[level.paced if level else None for level in levels]]
            ],
        ),
        (
            RECOVERY,
            heading[:3],
            [[name, *(_recoveries(level) for level in levels)] for name, levels in pairs if any(_struck(levels))],
        ),
        (
            "Work: records that operators took, over records times operators; copies dropped",
            heading[:3],
            [
                [name, *("" if level is None else f"{level.taken:.2f}; {level.copies:.2f}" for level in levels)]
                for name, levels in pairs
            ],
        ),
        (
            "Cost of an arm",
            [
                "arm",
                "object store, KiB (objects)",
                "topics between operators, KiB",
                "CPU, s per 1,000 records",
                "load before and at the end",
            ],
            [
                [
                    called(one.name),
                    set_stored(one),
                    NOT_MEASURED if one.topics_bytes is None else f"{one.topics_bytes / 1024:,.0f}",
                    NOT_MEASURED if one.cpu_s_per_1000 is None else f"{one.cpu_s_per_1000:.1f}",
                    "{:.1f}, {:.1f}".format(*one.load),
                ]
                for one in results.arms
            ],
        ),
    ]


def more(results: TwoWays) -> list[str]:
    """Return a line for each control that went wrong as it has to."""
    controls = [one for one in results.arms if not one.catalog and one.wrong]
    return [f"✓ {called(one.name)}: the same kills make {one.wrong:,} of {one.due:,} records wrong" for one in controls]


def plots(results: TwoWays) -> list[Plot]:
    """Return the figures that one looks at."""
    pairs = [
        (f"{name} kills: {way}".replace(",", " operators,"), level)
        for name, levels in _pairs(results)
        for way, level in zip(BOTH, levels, strict=True)
        if level
    ]
    stored = {
        called(one.name): [(one.object_store_bytes + one.topics_bytes) / 1024]
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


PAGE = Page("Two ways to effectively-once", says, tables, plots, name=called, more=more)


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


def _rows(pairs: list[tuple[str, list[Level | None]]], of: Number, form: str) -> list[list[str]]:
    found = []
    for name, levels in pairs:
        values = [of(level) if level else None for level in levels]
        found.append([name, *("" if value is None else format(value, form) for value in values), _ratio(*values)])
    return found


def _ratio(snapshots: float | None, dedup: float | None) -> str:
    if not snapshots or not dedup:
        return ""
    found = dedup / snapshots
    return f"{found:.2f}" if found >= 0.1 else f"{found:.3f}"


def _struck(levels: list[Level | None]) -> list[bool]:
    return [bool(level and level.recoveries) for level in levels]


def _through(recoveries: list[Recovery]) -> list[float]:
    return [one.through_s for one in recoveries if one.through_s is not None]


def _middle(times: list[float]) -> str:
    return f"{median(times):.1f}" if times else "–"


def _recoveries(level: Level | None) -> str:
    """By what was killed; of several the median, and all of them."""
    found: dict[str, list[Recovery]] = {}
    for one in level.recoveries if level else ():
        found.setdefault(one.target, []).append(one)
    told = []
    for target, of in found.items():
        through, soonest = _through(of), [one.next_s for one in of if one.next_s is not None]
        told.append(f"{target} {_middle(through)} ({_middle(soonest)})")
    return ", ".join(told)
