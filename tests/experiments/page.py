"""Pieces of a page that needs no other file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from xml.sax.saxutils import escape

from tests.bench.table import table
from tests.experiments.figures import Said

Section = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A table: what is said above it, its heading and its rows."""
S = TypeVar("S", bound=Said)

STYLE = """
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;font-size:13px}
td,th{border:1px solid #8886;padding:.25rem .6rem;text-align:right}
td:first-child,th:first-child{text-align:left}code{font-size:90%}svg{max-width:100%;height:auto}
"""


def drawn_table(title: str, heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with what is said above it."""
    head = "".join(f"<th>{escape(one)}</th>" for one in heading)
    body = "".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>" for row in rows)
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table>"


def bullets(title: str, lines: Sequence[str]) -> str:
    """Return a list with what is said above it."""
    return f"<h2>{escape(title)}</h2><ul>" + "".join(f"<li>{escape(one)}</li>" for one in lines) + "</ul>"


IN_PODS = "pods"


def on_machine(machine: Mapping[str, Any], jvm: str) -> str:
    """Return a sentence that tells where it ran."""
    how = "pods of a cluster on it" if jvm == IN_PODS else f"{jvm} JVMs"
    return (
        f"<p>{machine['cores']} cores ({escape(str(machine['processor']))}), {machine['memory_gib']} GiB, load "
        f"{machine['load']} when it began; {escape(how)}.</p>"
    )


def document(title: str, parts: Sequence[str]) -> str:
    """Return the whole page."""
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><body>\n{body}\n</body></html>\n"
    )


def in_markdown(sections: Iterable[Section], judged: Sequence[str]) -> str:
    """Return tables and what was judged, in Markdown."""
    parts = [f"{title}\n\n{table(heading, rows)}" for title, heading, rows in sections]
    return "\n\n".join([*parts, "\n".join(judged)])


def in_html(
    results: Any,
    sections: Iterable[Section],
    judged: Sequence[str],
    *,
    title: str,
    heading: str,
    says: str,
    figures: Iterable[str] = (),
) -> str:
    """Return the page of results with a verdict, a plan, and what `Told` has; `says` is HTML, and figures are SVG."""
    parts = [
        f"<h1>{heading}: {results.verdict.name.lower()}</h1>",
        f"<p>Seed {results.plan.seed}. {says} <code>{escape(results.command)}</code></p>",
        *(drawn_table(*one) for one in sections),
        *(f"<figure>{svg}</figure>" for svg in figures),
        bullets("What was judged", judged),
        on_machine(results.machine, results.jvm),
    ]
    return document(f"{title}, seed {results.plan.seed}", parts)


def said(signs: Sequence[S], who: Callable[[S], str]) -> list[str]:
    """Return a line for each promise, and one for each guard that does not hold."""
    promises = [f"{'✓' if one.holds else '✗'} {who(one)} {one.says}: {one.found}" for one in signs if one.promise]
    guards = [one for one in signs if not one.promise and not one.holds]
    return promises + [f"? {who(one)}: not shown that {one.says} ({one.found})" for one in guards]
