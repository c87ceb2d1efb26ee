"""One line of the doctor's tables: what was found, what is needed, how to mend it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

GIB = 1024**3


@dataclass(frozen=True)
class Check:
    """One line of the table."""

    name: str
    found: str
    needed: str
    ok: bool
    fix: str


def amount(name: str, found_bytes: int, needed_gib: float, fix: str) -> Check:
    """Check that there is at least so much of something."""
    enough = found_bytes >= needed_gib * GIB
    return Check(name, f"{found_bytes / GIB:.1f} GiB", f">= {needed_gib:.0f} GiB", enough, fix)


def free_bytes(path: Path) -> int:
    """Free bytes on the disk that a path is or will be on."""
    there = next(place for place in (path, *path.parents) if place.exists())
    return shutil.disk_usage(there).free


def table(results: list[Check]) -> Table:
    """Lay the checks out for a person; what to do is shown only where something is wrong."""
    shown = Table(box=None, pad_edge=False)
    for heading in ("", "check", "found", "needed", "what to do"):
        shown.add_column(heading, overflow="fold")
    for one in results:
        sign = "[green]✓[/]" if one.ok else "[red]✗[/]"
        shown.add_row(sign, one.name, one.found, one.needed, "" if one.ok else one.fix)
    return shown
