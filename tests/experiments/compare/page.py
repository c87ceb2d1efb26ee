"""A comparison as a table and a page: pure functions of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from effectively_once_jobs.system_usage.settings import (
    ACKNOWLEDGED,
    AT_MOST_ONCE,
    CHECKPOINTED,
    EXACTLY_ONCE,
    Semantics,
)
from tests.bench.figure import drawn
from tests.experiments.compare.figures import Figures
from tests.experiments.compare.results import Comparison
from tests.experiments.figures import Latency
from tests.experiments.page import in_html, in_markdown, said

NAMES: dict[Semantics, str] = {
    AT_MOST_ONCE: "at most once",
    ACKNOWLEDGED: "at least once, acknowledger",
    CHECKPOINTED: "at least once, checkpoint",
    EXACTLY_ONCE: "exactly once",
}
SHORT: dict[Semantics, str] = {**NAMES, ACKNOWLEDGED: "acknowledger", CHECKPOINTED: "checkpoint"}
"""In figures, where there is little room; both are at least once."""
TIMES = "Events by the times they were processed (looked up, failing look-ups among them) and delivered (counted)"
MORE = 3
Told = Callable[[Figures], str]


def tables(results: Comparison) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return the tables: what is said above each, its heading and its rows, a row a figure."""
    arms = results.arms
    heading = [NAMES[one.semantics] for one in arms]
    due = arms[0].due if arms else None
    told = f"{due.transactions:,} transactions are due, {due.frauds:,} of them frauds" if due else "nothing measured"
    return [
        (
            f"Accuracy: {told}",
            ["", *heading],
            _rows(
                arms,
                {
                    "transactions counted": lambda one: f"{one.usage.transactions:,} ({one.error('transactions'):+,})",
                    "frauds counted": lambda one: f"{one.usage.frauds:,} ({one.error('frauds'):+,})",
                    "both, by the state of the operator": _state,
                    "events never counted": lambda one: f"{one.lost:,}",
                    "events counted more than once": lambda one: f"{one.doubled:,}",
                    "counted after a later one of their user": lambda one: f"{one.out_of_order:,}",
                    "of these in a later batch than it": lambda one: f"{one.replayed_late:,}",
                },
            ),
        ),
        (
            TIMES,
            ["", *heading],
            _rows(
                arms,
                {
                    **{f"processed {_times(n)}": _of("processed", n) for n in range(MORE + 1)},
                    **{f"delivered {_times(n)}": _of("delivered", n) for n in range(MORE + 1)},
                },
            ),
        ),
        (
            "Cost",
            ["", *heading],
            _rows(
                arms,
                {
                    "latency without failures, ms: p50 / p99 / max": lambda one: _latency(one.calm),
                    "latency with failures, ms: p50 / p99 / max": lambda one: _latency(one.struck),
                    "burst, events/s": lambda one: (
                        "" if one.throughput_per_s is None else f"{one.throughput_per_s:,.0f}"
                    ),
                    "CPU of driver and executors, s per 1,000 events": _cpu,
                    "object store at the end, KiB (objects)": _stored,
                    "tables at the end, KiB": lambda one: f"{one.tables_bytes / 1024:,.0f}",
                    "look-ups (failed)": lambda one: f"{one.look_ups:,} ({one.failed_look_ups:,})",
                    "next batch after a kill, s": lambda one: " ".join(f"{each:.1f}" for each in one.recovered_s),
                    "load of the machine before and at the end": lambda one: "{:.1f}, {:.1f}".format(*one.load),
                    "kills that hit": lambda one: f"{one.kills_hit}",
                },
            ),
        ),
    ]


def markdown(results: Comparison) -> str:
    """Return the tables and what was judged, in Markdown."""
    return in_markdown(tables(results), judged(results))


def judged(results: Comparison) -> list[str]:
    """Return a line for each promise and for each guard that does not hold, and the verdict."""
    lines = said(results.signs, lambda sign: NAMES[sign.semantics])
    lines += [f"? {NAMES[one.semantics]} broke off: {one.broke_off}" for one in results.arms if one.broke_off]
    return [*lines, f"{results.verdict.name}, seed {results.plan.seed}"]


def plots(results: Comparison) -> dict[str, str]:
    """Return the figures by name, as SVG."""
    arms = results.arms
    found = {
        "accuracy": drawn(
            "Events never counted, and counted more than once",
            "events",
            {
                f"{SHORT[one.semantics]}, {says}": [float(number)]
                for one in arms
                for says, number in (("never", one.lost), ("more than once", one.doubled))
            },
        ),
        "times": drawn(
            "Times processed and times delivered, for each event",
            "mean",
            {
                f"{SHORT[one.semantics]}, {says}": [_mean(times)]
                for one in arms
                for says, times in (("processed", one.processed), ("delivered", one.delivered))
            },
        ),
        "latency": drawn(
            "Latency from sending to the commit of the count (dots: p50, p90, p99; bar: p90)",
            "s",
            {
                f"{SHORT[one.semantics]}, {says}": [each / 1000 for each in (took.p50_ms, took.p90_ms, took.p99_ms)]
                for one in arms
                for says, took in (("calm", one.calm), ("failures", one.struck))
                if took is not None
            },
        ),
        "throughput": drawn("Burst", "events/s", _each(arms, lambda one: one.throughput_per_s)),
        **(
            {
                "cpu": drawn(
                    "Processor time of driver and executors",
                    "s per 1,000 events",
                    _each(arms, lambda one: one.cpu_s_per_1000),
                )
            }
            if any(one.cpu_s_per_1000 is not None for one in arms)
            else {}
        ),
        "storage": drawn(
            "On the object store at the end", "KiB", _each(arms, lambda one: one.object_store_bytes / 1024)
        ),
    }
    return found if arms else {}


def html(results: Comparison) -> str:
    """Return the page, which needs no other file."""
    plan = results.plan
    says = (
        f"A burst of {plan.burst:,} records, {plan.calm:,} at {plan.pace} a second, then {plan.struck:,} at that pace "
        f"while {plan.rate:.1%} of the look-ups fail and processes are killed: executors {plan.kills}, drivers "
        f"{plan.driver_kills}. The records are the same under each semantics, and so are the numbers of the look-ups "
        "that fail and of those at which is killed."
    )
    return in_html(
        results,
        tables(results),
        judged(results),
        title="Semantics compared",
        heading="System usage under four semantics",
        says=says,
        figures=plots(results).values(),
    )


def _rows(arms: Sequence[Figures], figures: Mapping[str, Told]) -> list[list[str]]:
    return [[name, *(told(one) for one in arms)] for name, told in figures.items()]


def _each(arms: Sequence[Figures], of: Callable[[Figures], float | None]) -> dict[str, list[float]]:
    found = {SHORT[one.semantics]: of(one) for one in arms}
    return {name: [float(value or 0.0)] for name, value in found.items()}


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, "more often")


def _of(what: str, number: int) -> Told:
    """Events of that number of times; the last one stands for all beyond it."""

    def told(one: Figures) -> str:
        times: dict[int, int] = getattr(one, what)
        return f"{sum(events for each, events in times.items() if min(each, MORE) == number):,}"

    return told


def _mean(times: Mapping[int, int]) -> float:
    return sum(each * events for each, events in times.items()) / max(sum(times.values()), 1)


def _state(one: Figures) -> str:
    return "" if one.state is None else f"{one.state.transactions:,}, {one.state.frauds:,}"


def _cpu(one: Figures) -> str:
    return "not measured" if one.cpu_s_per_1000 is None else f"{one.cpu_s_per_1000:.2f}"


def _stored(one: Figures) -> str:
    return f"{one.object_store_bytes / 1024:,.0f} ({one.objects:,})"


def _latency(took: Latency | None) -> str:
    return "" if took is None else f"{took.p50_ms:,.0f} / {took.p99_ms:,.0f} / {took.max_ms:,.0f}"
