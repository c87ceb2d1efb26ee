"""`user_counts` with a boundary on both sides of parsing: source, parsing and judging are stages of their own."""

from __future__ import annotations

import sys
from dataclasses import replace

from pyspark.sql import DataFrame

from effectively_once.driver.main import run
from effectively_once_jobs import user_counts
from effectively_once_jobs.user_counts import transform
from tests.bench.optimised import boundaries

PARTS = 4
"""As many as the topic has partitions."""


def events(frame: DataFrame) -> DataFrame:
    """Parse as the job does."""
    cut = boundaries(PARTS)
    return cut(transform.events(cut(frame)))


pipeline = replace(user_counts.pipeline, transform=events)

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], pipeline))
