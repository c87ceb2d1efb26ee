"""What changes came to, as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from tests.harness.results import Change

COLUMNS = ("change", "what was done", "update", "without an epoch", "allowed", "effect")


def markdown(changes: Sequence[Change]) -> str:
    """Return the table as the docs hold it."""
    lines = [COLUMNS, ("--",) * len(COLUMNS), *map(_row, changes)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(one: Change) -> tuple[str, ...]:
    away = "" if one.away_s is None else f"{one.away_s:.0f} s"
    seen = one.failed or one.lacks or "; ".join(f"{name}: {value}" for name, value in one.evidence.items())
    words = " ".join(seen.replace("|", "/").split())
    return one.name, one.says, f"{one.up_s:.0f} s", away, f"{one.bound_s:.0f} s", words
