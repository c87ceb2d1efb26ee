"""What is shown of a run: in Markdown, and as a page in the look of the run page that needs no other file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader

from tests.bench.table import table
from tests.experiments.figures import Claim, Latency
from tests.experiments.plot import NARROW, WIDE, Plot, draw
from tests.harness import report
from tests.harness.report.page import TEMPLATES, VERDICTS
from tests.harness.report.typeset import date, moment_of, words

IN_PODS = "pods"
NUMBER = "+-−0123456789."
NUMBER_LENGTH = 24
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""What is said above it, its heading and its rows."""
_PAGES = TEMPLATES.overlay(loader=FileSystemLoader([Path(__file__).parent, Path(report.__file__).parent]))


def nothing(_: Any) -> tuple[str, ...]:
    """What is said of an experiment that has no more to say."""
    return ()


@dataclass(frozen=True)
class Page:
    """How an experiment is shown; functions take its results.

    Attributes:
        title: the sentence at its top.
        says: what was played.
        tables: of its figures.
        plots: of those that people would rather look at.
        name: of an arm or stream in words, by that which claims have.
        more: further lines below what was judged, each with its mark.
        files: further files of a run, by name.

    """

    title: str
    says: Callable[[Any], str]
    tables: Callable[[Any], Sequence[Table]]
    plots: Callable[[Any], Sequence[Plot]]
    name: Callable[[str], str] = words
    more: Callable[[Any], Sequence[str]] = nothing
    files: Callable[[Any], Mapping[str, str]] = lambda _: {}


def markdown(page: Page, results: Any) -> str:
    """Return tables and what was judged, in Markdown."""
    parts = [f"{title}\n\n{table(heading, rows)}" for title, heading, rows in page.tables(results)]
    return "\n\n".join([*parts, "\n".join(list_judged(page, results))])


def list_judged(page: Page, results: Any) -> list[str]:
    """Return a line for each promise, for each guard that does not hold and each arm that is not whole; the verdict."""
    promises = [one for one in results.claims if one.promise]
    lines = [f"{'✓' if one.holds else '✗'} {page.name(one.of)} {one.says}: {one.found}" for one in promises]
    lines += [*page.more(results), *(f"? {line}" for line in unshown(page, results))]
    return [*lines, f"{results.verdict.name}, seed {results.plan.seed}"]


def unshown(page: Page, results: Any) -> list[str]:
    """Why a run shows less than it was to show."""
    guards = [one for one in results.claims if not one.promise and not one.holds]
    lines = [f"{page.name(one.of)}: not shown that {one.says} ({one.found})" for one in guards]
    return lines + [f"{page.name(arm)}: {why}" for arm, why in results.unread.items()]


def html(page: Page, results: Any, runs: str) -> str:
    """Return the page; `runs` is the folder of such runs, below `runs/`."""
    machine, plan = results.machine, vars(results.plan)
    broken = [one for one in results.claims if one.promise and not one.holds]
    return _PAGES.get_template("page.html.j2").render(
        title=page.title,
        run=results.run,
        date=date(moment_of(results.run[:15])),
        says=page.says(results),
        verdict=str(results.verdict),
        verdict_says=VERDICTS[str(results.verdict)],
        reasons=[
            *(f"{page.name(one.of)}: it does not hold that it {one.says} ({one.found})" for one in broken),
            *unshown(page, results),
        ],
        facts=_facts(results),
        plots=[
            (one.title, [draw(one, frame) for frame in (WIDE, NARROW)])
            for one in page.plots(results)
            if any(one.rows.values())
        ],
        tables=[_table(*one) for one in page.tables(results)],
        promises=[(page.name(one.of), one, _mark(one)) for one in results.claims if one.promise],
        guards=[(page.name(one.of), one, _mark(one)) for one in results.claims if not one.promise],
        more=page.more(results),
        commands=[
            (results.command, "plays it again: the same records, and the same plan of kills"),
            (f"make check RUN=runs/{runs}/{results.run}", "judges this run again from its files alone"),
        ],
        about=[
            ("Plan", {name: _words(value) for name, value in plan.items()}),
            ("Machine", {name: value for name, value in machine.items() if name != "versions"}),
            ("Versions", {**machine.get("versions", {}), **results.git}),
        ],
    )


def _facts(results: Any) -> list[tuple[str, str, str]]:
    """Return what stands below the verdict: name, value, a remark."""
    promises = [one.holds for one in results.claims if one.promise]
    guards = [one.holds for one in results.claims if not one.promise]
    machine = results.machine
    where = "pods of a cluster" if results.jvm == IN_PODS else f"{results.jvm} JVMs"
    return [
        ("promises that hold", f"{sum(promises)} of {len(promises)}", ""),
        ("guards that hold", f"{sum(guards)} of {len(guards)}", "what has to be seen for that to mean something"),
        ("seed", str(results.plan.seed), "of records and kills"),
        ("played in", where, f"load {machine['load']} when it began"),
        ("on", f"{machine['cores']} cores", f"{machine['processor']}, {machine['memory_gib']} GiB"),
    ]


def _mark(claim: Claim) -> tuple[str, str]:
    """Return the colour of a claim, and its word."""
    if claim.promise:
        return ("pass", "holds") if claim.holds else ("fail", "does not hold")
    return ("pass", "seen") if claim.holds else ("unknown", "not seen")


def _table(title: str, heading: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return a table with the class of each column's cells; a long title is a short one and what is said below it."""
    short, _, caption = title.partition(": ")
    _, *columns = list(zip(*rows, strict=True)) or [()] * len(heading)
    numbers = [all(not cell or (cell[0] in NUMBER and len(cell) <= NUMBER_LENGTH) for cell in one) for one in columns]
    return {
        "title": short,
        "caption": caption,
        "heading": [
            (name, "n" if is_number else "") for name, is_number in zip(heading, [False, *numbers], strict=True)
        ],
        "rows": rows,
    }


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def set_latency(took: Latency | None, *, most: bool = True) -> str:
    """Set the median, the 99th percentile and the longest."""
    if took is None:
        return ""
    return " / ".join(f"{ms:,.0f}" for ms in (took.p50_ms, took.p99_ms, *((took.max_ms,) if most else ())))


def set_stored(one: Any) -> str:
    """Set what is on the object store of an arm."""
    return f"{one.object_store_bytes / 1024:,.0f} ({one.objects:,})"
