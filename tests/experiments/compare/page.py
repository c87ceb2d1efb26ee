"""A comparison as tables and plots: pure functions of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from effectively_once_jobs.system_usage.settings import (
    ACKNOWLEDGED,
    AT_MOST_ONCE,
    CHECKPOINTED,
    EXACTLY_ONCE,
)
from tests.experiments.compare.figures import Figures
from tests.experiments.compare.plan import Plan
from tests.experiments.page import Page, Table, set_latency, set_stored
from tests.experiments.plot import Plot
from tests.experiments.results import Results

NAMES: dict[str, str] = {
    AT_MOST_ONCE: "at most once",
    ACKNOWLEDGED: "at least once, acknowledger",
    CHECKPOINTED: "at least once, checkpoint",
    EXACTLY_ONCE: "exactly once",
}
TIMES = "Processed and delivered: events by the times they were looked up, failing look-ups among them, and counted"
MORE = 3
Comparison = Results[Plan, Figures]
Told = Callable[[Figures], str]


def tables(results: Comparison) -> list[Table]:
    """Return the tables: a row a figure, a column a semantics."""
    due = results.arms[0].due if results.arms else None
    told = f"{due.transactions:,} transactions are due, {due.frauds:,} of them frauds" if due else "nothing measured"
    accuracy: dict[str, Told] = {
        "transactions counted": lambda one: f"{one.usage.transactions:,} ({one.error('transactions'):+,})",
        "frauds counted": lambda one: f"{one.usage.frauds:,} ({one.error('frauds'):+,})",
        "both, by the state of the operator": _state,
        "events never counted": lambda one: f"{one.lost:,}",
        "events counted more than once": lambda one: f"{one.doubled:,}",
        "counted after a later one of their user": lambda one: f"{one.out_of_order:,}",
        "of these in a later batch than it": lambda one: f"{one.replayed_late:,}",
    }
    times = {f"{what} {_times(n)}": _of(what, n) for what in ("processed", "delivered") for n in range(MORE + 1)}
    cost: dict[str, Told] = {
        "latency without failures, ms: p50 / p99 / max": lambda one: set_latency(one.calm),
        "latency with failures, ms: p50 / p99 / max": lambda one: set_latency(one.struck),
        "burst, events/s": lambda one: "" if one.throughput_per_s is None else f"{one.throughput_per_s:,.0f}",
        "CPU of driver and executors, s per 1,000 events": _cpu,
        "object store at the end, KiB (objects)": set_stored,
        "tables at the end, KiB": lambda one: f"{one.tables_bytes / 1024:,.0f}",
        "look-ups (failed)": lambda one: f"{one.look_ups:,} ({one.failed_look_ups:,})",
        "next batch after a kill, s": lambda one: " ".join(f"{each:.1f}" for each in one.recovered_s),
        "load of the machine before and at the end": lambda one: "{:.1f}, {:.1f}".format(*one.load),
        "kills that hit": lambda one: f"{one.kills_hit}",
    }
    heading = ["", *(NAMES[one.semantics] for one in results.arms)]
    return [
        (title, heading, [[name, *(told(one) for one in results.arms)] for name, told in figures.items()])
        for title, figures in ((f"Accuracy: {told}", accuracy), (TIMES, times), ("Cost", cost))
    ]


def plots(results: Comparison) -> list[Plot]:
    """Return the figures that one looks at."""
    arms = [(NAMES[one.semantics], one) for one in results.arms]

    def each(of: Callable[[Figures], float | None]) -> dict[str, list[float]]:
        return {name: [value] for name, one in arms if (value := of(one)) is not None}

    wrong = {
        f"{name}, {says}": [float(number)]
        for name, one in arms
        for says, number in (("never", one.lost), ("more than once", one.doubled))
    }
    times = {
        f"{name}, {says}": [_mean(times)]
        for name, one in arms
        for says, times in (("processed", one.processed), ("delivered", one.delivered))
    }
    latencies = {
        f"{name}, {says}": [ms / 1000 for ms in (took.p50_ms, took.p90_ms, took.p99_ms)]
        for name, one in arms
        for says, took in (("calm", one.calm), ("failures", one.struck))
        if took is not None
    }
    return [
        Plot("Events never counted, and counted more than once", "events", wrong),
        Plot("Times processed and times delivered: the mean of all events", "times", times),
        Plot("Latency from sending to the commit of the count: 50, 90 (the bar) and 99 % of events", "s", latencies),
        Plot("Throughput of a burst", "events/s", each(lambda one: one.throughput_per_s)),
        Plot("Processor time of driver and executors for 1,000 events", "s", each(lambda one: one.cpu_s_per_1000)),
        Plot("On the object store at the end", "KiB", each(lambda one: one.object_store_bytes / 1024)),
    ]


def says(results: Comparison) -> str:
    """Return what was played."""
    plan = results.plan
    return (
        f"A burst of {plan.burst:,} records, {plan.calm:,} at {plan.pace} a second, then {plan.struck:,} at that pace "
        f"while {plan.rate:.1%} of the look-ups fail and processes are killed: executors {plan.kills}, drivers "
        f"{plan.driver_kills}. The records are the same under each semantics, and so are the numbers of the look-ups "
        "that fail and of those at which is killed."
    )


PAGE = Page("System usage under four semantics", says, tables, plots, name=lambda of: NAMES.get(of, of))


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, "more often")


def _of(what: str, number: int) -> Told:
    """Events of that number of times; the last one stands for all beyond it."""

    def count(one: Figures) -> str:
        times: dict[int, int] = getattr(one, what)
        return f"{sum(events for each, events in times.items() if min(each, MORE) == number):,}"

    return count


def _mean(times: Mapping[int, int]) -> float:
    return sum(each * events for each, events in times.items()) / max(sum(times.values()), 1)


def _state(one: Figures) -> str:
    return "" if one.state is None else f"{one.state.transactions:,}, {one.state.frauds:,}"


def _cpu(one: Figures) -> str:
    return "not measured" if one.cpu_s_per_1000 is None else f"{one.cpu_s_per_1000:.2f}"
