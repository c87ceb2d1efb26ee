"""Results of fraud detection for people: tables in Markdown, histograms, and a page that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from tests.bench.figure import draw
from tests.bench.table import table
from tests.experiments.fraud.results import EDGES_MS, ArmResult, FraudResults, KillResult, Latency, PhaseResult

if TYPE_CHECKING:
    from rich.console import Console

PHASES = (
    "phase",
    "sent",
    "per s",
    "decided",
    "partial",
    "late",
    "p50",
    "p99",
    "p99.9",
    "most (ms)",
    "in time",
    "load",
)
KILLS = ("killed", "away (s)", "seen in decisions", "that waited for it", "transactions it did not score", "youngest")
ARMS = ("way", "decisions", "p50", "p99", "p99.9", "most (ms)", "load")
STYLE = "body{font:15px system-ui,sans-serif;margin:2em;max-width:60em}td,th{padding:.2em .6em;text-align:right}"
BAR = 40
Table = tuple[str, Sequence[str], list[tuple[str, ...]]]


def tables(results: FraudResults) -> list[Table]:
    """Title, heading and rows of each table."""
    reasons = sorted({*results.due, *results.counts})
    came = [_what(one, results.due.get(one, 0), results.counts.get(one, 0)) for one in reasons]
    answers: list[tuple[str, ...]] = [(answer, f"{times:,}") for answer, times in results.answers.items()]
    held: list[tuple[str, ...]] = [
        (one.target, f"{one.away_s:.1f}", f"{one.held:,}", "paused" if one.paused else "went on")
        for one in results.kills
        if one.held is not None
    ]
    return [
        ("Arrival in Kafka to the commit of the decision", PHASES, [_phase(one) for one in results.phases]),
        ("Kills", KILLS, [_kill(one) for one in results.kills]),
        ("Held while the result store was away", ("killed", "away (s)", "records at most", "reading"), held),
        ("What records came to", ("what", "due", "found"), came),
        ("The presenter's answers", ("answer", "times"), answers),
        ("Spark's own triggers, the cheapest decision there is", ARMS, [_arm(one) for one in results.arms]),
        ("Histogram, decisions by ms", ("ms", *(one.name for one in results.phases)), _histogram(results)),
    ]


def markdown(results: FraudResults) -> str:
    """The tables as the docs hold them."""
    parts = [f"{title}\n\n{table(heading, rows)}" for title, heading, rows in tables(results) if rows]
    return "\n\n".join([*parts, "\n".join(verdict(results))])


def verdict(results: FraudResults) -> list[str]:
    """The verdict, and why it is none where it is none."""
    return [f"{results.verdict.name}, seed {results.seed}. {results.claim}", *(f"  {one}" for one in results.reasons)]


def show(results: FraudResults, out: Console) -> None:
    """Print verdict, tables and reasons."""
    out.print(text(results), markup=False, highlight=False, soft_wrap=True, end="")


def text(results: FraudResults) -> str:
    """What a terminal shows: the tables with columns below each other, and a histogram of the quiet phase."""
    parts = ["\n".join(verdict(results))]
    for title, heading, rows in tables(results)[:-1]:
        widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (heading, *rows)
        ]
        parts += ["\n".join([title, *lines])] if rows else []
    for one in results.phases[1:2]:
        if one.latency is not None:
            most = max(one.latency.bars)
            parts.append(
                "\n".join(
                    [
                        f"Histogram of {one.name}, ms",
                        *(
                            f"{_edge(number):>9} {count:>6,} {'#' * round(count * BAR / most)}"
                            for number, count in enumerate(one.latency.bars)
                        ),
                    ]
                )
            )
    return "\n\n".join(parts) + "\n"


def html(results: FraudResults, command: str) -> str:
    """Return the page."""
    parts = [f"<h1>Fraud detection: {results.verdict.name.lower()}</h1><p><code>{escape(command)}</code></p>"]
    parts.append("<p>" + "<br>".join(map(escape, verdict(results))) + "</p>")
    for title, heading, rows in tables(results):
        head = "".join(f"<th>{escape(one)}</th>" for one in heading)
        body = "".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>" for row in rows)
        parts.append(f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table>" if rows else "")
    for one in results.phases:
        if one.latency is not None:
            bars = {_edge(number): [float(count)] for number, count in enumerate(one.latency.bars)}
            parts.append(f"<figure>{draw(f'{one.name}, {one.rate} a second: ms', 'decisions', bars)}</figure>")
    parts.append("<p>In pods of a cluster on this machine.</p>" if results.on == "cluster" else "")
    parts.append(f"<p>{escape(', '.join(f'{name} {value}' for name, value in results.machine.items()))}</p>")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Fraud detection, seed {results.seed}</title>'
        f"<style>{STYLE}</style><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _what(what: str, due: int, found: int) -> tuple[str, ...]:
    return (what, f"{due:,}", f"{found:,}")


def _phase(one: PhaseResult) -> tuple[str, ...]:
    named = ", ".join(f"{name} {count:,}" for name, count in one.missing.items())
    partial = f"{one.partial:,}" + (f" ({named})" if named else "")
    share = f"{one.latency.in_time:.1%}" if one.latency else ""
    load = " to ".join(f"{each:.1f}" for each in one.load)
    return (
        one.name,
        f"{one.sent:,}",
        f"{one.rate}",
        f"{one.decided:,}",
        partial,
        f"{one.late:,}",
        *_latency(one.latency),
        share,
        load,
    )


def _kill(one: KillResult) -> tuple[str, ...]:
    return (
        one.target + ("" if one.hit else " (missed)"),
        f"{one.away_s:.1f}",
        f"{one.met:,}",
        f"{one.waited:,}",
        "" if one.skipped is None else f"{one.skipped:,}",
        "" if one.youngest_ms is None else f"{one.youngest_ms:,} ms",
    )


def _arm(one: ArmResult) -> tuple[str, ...]:
    number = f"{one.latency.decisions:,}" if one.latency else one.says or "none"
    return (one.name, number, *_latency(one.latency), f"{one.load:.1f}")


def _latency(one: Latency | None) -> tuple[str, ...]:
    return ("",) * 4 if one is None else tuple(f"{each:,.1f}" for each in (one.p50, one.p99, one.p99_9, one.most))


def _histogram(results: FraudResults) -> list[tuple[str, ...]]:
    return (
        [
            (_edge(number), *(f"{one.latency.bars[number]:,}" if one.latency else "" for one in results.phases))
            for number in range(len(EDGES_MS) + 1)
        ]
        if results.phases
        else []
    )


def _edge(number: int) -> str:
    below = EDGES_MS[number - 1] if number else 0
    return f"{below:,}-{EDGES_MS[number]:,}" if number < len(EDGES_MS) else f"{below:,}-"
