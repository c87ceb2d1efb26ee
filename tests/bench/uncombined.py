"""What `user_counts` is without combiner lifting: every accepted row goes to its key's shard, and is aggregated there.

Whoever imports this module has it so. Workers do, because the declaration's transform is this module's.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from effectively_once.state import windows
from effectively_once_jobs import user_counts
from effectively_once_jobs.user_counts import transform

windows.partial = windows.place


def events(frame: DataFrame) -> DataFrame:
    """Parse as the job does."""
    return transform.events(frame)


pipeline = replace(user_counts.pipeline, transform=events)
