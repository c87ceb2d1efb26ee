"""The look-up as exactly once has it: the function of a recorded step."""

from __future__ import annotations

import os

import pyarrow as pa

from effectively_once import points
from effectively_once.errors import SettingsError
from effectively_once.progress import announce
from effectively_once_jobs.system_usage.store import shared_store
from effectively_once_jobs.system_usage.usage import portions, with_answers

LOOKED_UP = "looked_up"
"""What every semantics announces after a portion: it was looked up, and counted where that is done at once."""


def announce_portion(rows: int) -> None:
    """Tell observers that a portion of so many rows is done with; a test may hold the process here."""
    announce(LOOKED_UP, pid=os.getpid(), rows=rows)
    points.reach(LOOKED_UP)


def look_up_rows(database: str | None, pipeline: str, rows: pa.Table) -> pa.Table:
    """Look up the accepted rows of a shard; returns the column `fraud` (0 or 1).

    Raises:
        SettingsError: nobody said where the result store is.
        LookUpError: it gives no answer to one of the portions. Spark runs the task again, and nothing was published.

    """
    if database is None:
        raise SettingsError(
            "the result store is not known to the look-up",
            "job effectively_once_jobs.system_usage",
            "Run it as `python -m effectively_once_jobs.system_usage SETTINGS.json`, with `database` set.",
        )
    store, found = shared_store(database, pipeline), []
    for portion in portions(rows):
        found.append(with_answers(portion, store.frauds(portion["id"].to_pylist())).select(["fraud"]))
        announce_portion(portion.num_rows)
    return pa.concat_tables(found).combine_chunks()
