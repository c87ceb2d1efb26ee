"""Collects the evidence of a run whose pipeline has a table beside its other sinks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.harness.adapters.tables import Tables
from tests.harness.collector import Collector
from tests.harness.run_directory import RunDirectory
from tests.harness.sinks import ACCEPTED_ROWS


class TableCollector(Collector):
    """The other sinks as ever, and `observed/accepted_rows.jsonl`.

    Args:
        run: the run directory.
        other: collects the other sinks.
        tables: of the pipeline.
    """

    def __init__(self, run: RunDirectory, other: Collector, tables: Tables) -> None:
        self._run, self._other, self._tables = run, other, tables

    def boundary(self) -> dict[str, Any]:
        """Where every sink ends now; of a table, how many rows it has."""
        return {**self._other.boundary(), ACCEPTED_ROWS: self._tables.count(ACCEPTED_ROWS)}

    def collect(self, open_transactions: Callable[[], list[str]], stop: threading.Event) -> None:
        """As for the others; rows of a table have no place, their order means nothing."""
        self._other.collect(open_transactions, stop)
        with self._run.observed_writer(ACCEPTED_ROWS) as writer:
            for row in self._tables.rows(ACCEPTED_ROWS):
                writer.write({"sink": ACCEPTED_ROWS, **row})
