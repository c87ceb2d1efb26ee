"""`make status`: every component, ready or why not, with its last event."""

from __future__ import annotations

from datetime import datetime

from rich.console import Console as Screen
from rich.markup import escape
from rich.table import Table

from infra.cluster.access import Access
from infra.operate.facts import gather
from infra.operate.objects import Event
from infra.operate.rows import Row, rows


def status(access: Access, screen: Screen) -> int:
    """Print the table; exit code 0 when everything is ready, else 1. Raises UnreachableError."""
    facts = gather(access.api, access.platform)
    found = rows(access.platform, facts)
    screen.print(table(found, facts.now))
    bad = [one.component for one in found if not one.ready]
    screen.print(escape(f"not ready: {', '.join(bad)}; `make bundle` collects what is known" if bad else "all ready"))
    return 1 if bad else 0


def table(found: list[Row], now: datetime) -> Table:
    """Lay the rows out for a person."""
    shown = Table(box=None, pad_edge=False)
    for heading in ("", "component", "state", "restarts", "age", "last event"):
        shown.add_column(heading, overflow="fold", justify="right" if heading in ("restarts", "age") else "left")
    for one in found:
        sign = "[green]✓[/]" if one.ready else "[red]✗[/]"
        since = age(one.since, now)
        happened = escape(event_line(one.last_event, now))
        shown.add_row(sign, escape(one.component), escape(one.state), str(one.restarts or ""), since, happened)
    return shown


def event_line(event: Event | None, now: datetime) -> str:
    """An event in one line: reason, beginning of the message, how long ago."""
    if event is None:
        return ""
    message = " ".join(event.message.split())
    message = message if len(message) <= 90 else f"{message[:89]}…"
    when = age(event.at, now)
    return f"{event.reason}: {message}{f' ({when} ago)' if when else ''}"


def age(since: datetime | None, now: datetime) -> str:
    """A time span in its largest unit, as kubectl shows it; nothing when it is not known."""
    if since is None:
        return ""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
