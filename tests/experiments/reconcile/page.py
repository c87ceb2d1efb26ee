"""A reconciliation as a table and a page: pure functions of its results."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.sax.saxutils import escape

from tests.bench.figure import drawn
from tests.experiments.page import in_html, in_markdown, said
from tests.experiments.reconcile.figures import Figures, Stream, Window
from tests.experiments.reconcile.plan import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.experiments.reconcile.results import Reconciliation
from tests.experiments.reconcile.signs import NAMES

HEADING = {
    EXACTLY_ONCE: ["window", "stream", "batch", "difference", "of it late", "the rest", "keys off"],
    AT_LEAST_ONCE: ["window", "stream", "batch", "difference", "of it copies", "of it repeats", "too few", "keys off"],
}
TITLES = {
    EXACTLY_ONCE: "Exactly once: it lacks what came too late, and says so; the rest has to be 0",
    AT_LEAST_ONCE: "At least once, plain Spark: it has counted copies and repeats; nothing in the output tells",
}


def tables(results: Reconciliation) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return the tables: what is said above each, its heading and its rows, a row a window."""
    found = results.figures
    if found is None:
        return []
    return [
        (TITLES[name], HEADING[name], [*(_row(stream, each) for each in stream.windows), _sum(stream)])
        for name, stream in found.streams.items()
    ]


def markdown(results: Reconciliation) -> str:
    """Return the tables and what was judged, in Markdown."""
    return in_markdown(tables(results), judged(results))


def judged(results: Reconciliation) -> list[str]:
    """Return a line for each promise and for each guard that does not hold, and the verdict."""
    lines = said(results.signs, lambda sign: NAMES[sign.of])
    lines += [f"? {results.unread}"] if results.unread else []
    return [*lines, f"{results.verdict.name}, seed {results.plan.seed}"]


def html(results: Reconciliation) -> str:
    """Return the page, which needs no other file."""
    plan, found = results.plan, results.figures
    strikes = ", ".join(f"{one.target} from epoch {one.call} on" for one in plan.strikes)
    says = (
        f"{escape(plan.subject.says)}. Both streams read the same topic and are killed at the same steps: "
        f"{escape(strikes)}, each once rows are committed and the epoch is not."
    )
    return in_html(
        results,
        tables(results),
        judged(results),
        title="Streams reconciled",
        heading="Two streams and a batch run over one topic",
        says=says,
        figures=[] if found is None else [plot(found)],
    )


def plot(found: Figures) -> str:
    """Draw what each stream is off by, and why, as SVG."""
    exactly, plain = found.streams[EXACTLY_ONCE], found.streams[AT_LEAST_ONCE]
    return drawn(
        "Off from the batch run, over all windows",
        "records",
        {
            "exactly once, late": [float(exactly.whole.late)],
            "exactly once, the rest": [float(exactly.whole.over + exactly.whole.under)],
            "at least once, copies": [float(plain.whole.copies)],
            "at least once, repeats": [float(max(plain.added_again, 0))],
            "at least once, too few": [float(plain.whole.under)],
        },
    )


def _row(stream: Stream, each: Window) -> list[str]:
    at = datetime.fromtimestamp(each.window_start_ms / 1000, UTC).strftime("%H:%M")
    return [at, *_numbers(stream, each)]


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
