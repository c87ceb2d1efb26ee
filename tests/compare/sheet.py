"""A page of its own that needs no other file: heading, tables, figures, lines. Shared by what plays jobs in arms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

STYLE = """
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;font-size:13px}
td,th{border:1px solid #8886;padding:.25rem .6rem;text-align:right}
td:first-child,th:first-child{text-align:left}code{font-size:90%}svg{max-width:100%;height:auto}
"""


def table(title: str, heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table below a title of its own."""
    head = "".join(f"<th>{escape(one)}</th>" for one in heading)
    body = "".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>" for row in rows)
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table>"


def judged(lines: Iterable[str]) -> str:
    """Write what was judged, a line each."""
    return "<h2>What was judged</h2><ul>" + "".join(f"<li>{escape(one)}</li>" for one in lines) + "</ul>"


def machine(found: Mapping[str, Any], jvm: str) -> str:
    """Write what it ran on."""
    return (
        f"<p>{found['cores']} cores ({escape(str(found['processor']))}), {found['memory_gib']} GiB, load "
        f"{found['load']} when it began; {escape(jvm)} JVMs.</p>"
    )


def page(title: str, parts: Iterable[str]) -> str:
    """Put the page together."""
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><body>\n{body}\n</body></html>\n"
    )
