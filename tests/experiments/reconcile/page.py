"""A reconciliation as tables and plots: pure functions of its results."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.experiments.page import Page, Table
from tests.experiments.plot import Plot
from tests.experiments.reconcile.figures import BATCH, Figures, Stream, Window
from tests.experiments.reconcile.plan import AT_LEAST_ONCE, EXACTLY_ONCE, Plan
from tests.experiments.results import Results

NAMES = {EXACTLY_ONCE: "exactly once", AT_LEAST_ONCE: "at least once", BATCH: "the batch run"}
HEADING = {
    EXACTLY_ONCE: ["window", "stream", "batch", "difference", "of it late", "the rest", "keys off"],
    AT_LEAST_ONCE: ["window", "stream", "batch", "difference", "of it copies", "of it repeats", "too few", "keys off"],
}
TITLES = {
    EXACTLY_ONCE: "Exactly once: it lacks what came too late, and says so; the rest has to be 0",
    AT_LEAST_ONCE: "At least once, plain Spark: it has counted copies and repeats; nothing in the output tells",
}
Reconciliation = Results[Plan, Figures]


def tables(results: Reconciliation) -> list[Table]:
    """Return the tables: a row a window."""
    return [
        (TITLES[name], HEADING[name], [*(_row(stream, each) for each in stream.windows), _sum(stream)])
        for found in results.arms
        for name, stream in found.streams.items()
    ]


def says(results: Reconciliation) -> str:
    """Return what was played."""
    plan = results.plan
    strikes = ", ".join(f"{one.target} from epoch {one.call} on" for one in plan.strikes)
    return (
        f"{plan.subject.says}. Both streams read the same topic and are killed at the same steps: {strikes}, each once "
        "rows are committed and the epoch is not."
    )


def plots(results: Reconciliation) -> list[Plot]:
    """Return what each stream is off by, and why; and how long a kill kept it."""
    return [plot for found in results.arms for plot in _plots(found)]


def _plots(found: Figures) -> list[Plot]:
    exactly, plain = found.streams[EXACTLY_ONCE], found.streams[AT_LEAST_ONCE]
    off = {
        "exactly once, late": exactly.whole.late,
        "exactly once, the rest": exactly.whole.over + exactly.whole.under,
        "at least once, copies": plain.whole.copies,
        "at least once, repeats": max(plain.added_again, 0),
        "at least once, too few": plain.whole.under,
    }
    return [
        Plot("Off from the batch run, over all windows", "records", {name: [float(by)] for name, by in off.items()}),
        Plot(
            "At least once: off from the batch run, window by window",
            "records",
            {_at(each): [float(each.over + each.under)] for each in plain.windows},
        ),
        Plot(
            "From a kill to the next epoch that was published; the bar: the median",
            "s",
            {NAMES[one.name]: one.recovered_s for one in (exactly, plain)},
        ),
    ]


PAGE = Page("Two streams and a batch run over one topic", says, tables, plots, name=lambda of: NAMES.get(of, of))


def _at(window: Window) -> str:
    return datetime.fromtimestamp(window.window_start_ms / 1000, UTC).strftime("%H:%M")


def _row(stream: Stream, each: Window) -> list[str]:
    return [_at(each), *_numbers(stream, each)]


def _sum(stream: Stream) -> list[str]:
    return ["all", *_numbers(stream, stream.whole)]


def _numbers(stream: Stream, each: Window) -> list[str]:
    if stream.name == EXACTLY_ONCE:
        why = [each.late, each.over + each.under]
    else:
        why = [each.copies, each.over - each.copies, each.under]
    return [
        f"{each.stream:,}",
        f"{each.batch:,}",
        f"{each.difference:+,}" if each.difference else "0",
        *(f"{number:,}" for number in (*why, each.wrong)),
    ]
