"""S9: how many transactions there were, and how many of them were frauds by the result store, which can fail.

One transform and one look-up under four semantics, by the setting `semantics`. Exactly once is the declaration here;
at most once and at least once by checkpoint are in `in_batches.py`, at least once by acknowledger in `acknowledged.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from effectively_once import Count, Pipeline, RecordedStep, Sum, ToTable, Windowed
from effectively_once.operate.create.needs import Needs
from effectively_once_jobs.system_usage.look_up import look_up_rows
from effectively_once_jobs.system_usage.store import SCHEMA
from effectively_once_jobs.system_usage.transform import COLUMNS, transactions
from effectively_once_jobs.system_usage.usage import BOTH, COUNTED, SYSTEM


def declare(database: str | None = None, pipeline: str = "") -> Pipeline:
    """Exactly once: the answers of the look-up are recorded before anything that depends on them is published.

    Args:
        database: where the result store is, postgresql://host:port/database. It has to be given for the pipeline to
            run; what makes its tables does not need it.
        pipeline: how the result store's log of look-ups names who asked.

    """
    return Pipeline(
        transform=transactions,
        columns=COLUMNS,
        recorded=RecordedStep(
            "look_up",
            partial(look_up_rows, database, pipeline),
            adds=pa.schema([pa.field("fraud", pa.int64(), nullable=False)]),
        ),
        rows=(ToTable("counted", columns=COUNTED),),
        windows=(Windowed(by=SYSTEM, values={BOTH[0]: Count(), BOTH[1]: Sum("fraud")}, to=ToTable("usage")),),
    )


pipeline = declare()


def needs(_: Mapping[str, Any]) -> Needs:
    """Return what a deployment makes beside the sinks: the result store that is asked."""
    return Needs(schema=SCHEMA)
