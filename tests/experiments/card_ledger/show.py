"""Results of the card ledger for people: a table with a row a way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.table import table
from tests.experiments.card_ledger.results import CardResults

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = (
    "way",
    "asked for",
    "calls",
    "made",
    "double: by replay",
    "by retry",
    "missing",
    "balances wrong",
    "recognised",
    "stale",
    "kills that hit",
)


def rows(results: CardResults) -> list[tuple[str, ...]]:
    """A row a way, in the order of `COLUMNS`."""
    return [
        (
            one.way,
            *(
                f"{number:,}"
                for number in (
                    one.asked,
                    one.calls,
                    one.charged,
                    one.doubled_by_replay,
                    one.doubled_by_retry,
                    one.missing,
                    one.balances_wrong,
                    one.repeated,
                    one.stale,
                )
            ),
            f"{sum(fault.hit for fault in one.faults)} of {results.kills_planned}",
        )
        for one in results.ways
    ]


def markdown(results: CardResults) -> str:
    """The table as the docs hold it."""
    return table(COLUMNS, rows(results))


def show(results: CardResults, out: Console) -> None:
    """Print verdict, table and reasons."""
    from rich.table import Table  # noqa: PLC0415

    out.print(f"{results.verdict.name} {results.claim}")
    shown = Table(*COLUMNS, box=None)
    for row in rows(results):
        shown.add_row(*row)
    out.print(shown)
    for reason in results.reasons:
        out.print(f"  {reason}")
