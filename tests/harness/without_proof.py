"""`user_counts` without the proof that a shard's input is whole (R13): what a campaign has to find out about.

`python -m tests.harness.without_proof SETTINGS.json`. Python workers get the transform by its name, and by importing
it this module. The file also runs alone, in a pod: it imports nothing of this repository but the wheel.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from effectively_once.driver.main import run
from effectively_once.epoch import task_token, whole_input
from effectively_once_jobs import user_counts

JOB, MODULE = "tests.harness.without_proof", "without_proof"
"""Its name in this checkout, and where it is a file alone (`tests.harness.definition.packaged.UNPROVEN`)."""


def take(
    batches: Iterable[pa.RecordBatch], digested: Sequence[str], where: str, *, nothing: bool = False
) -> Iterator[pa.RecordBatch]:
    """Rows as far as they came; an end is taken for the end of all."""
    for batch in batches:
        yield batch.filter(pc.is_null(batch[whole_input.CLOSING])).drop_columns([whole_input.CLOSING])


def events(frame: DataFrame) -> DataFrame:
    """See the transform of `user_counts`; it stands here for workers to import this module."""
    (transform,) = user_counts.pipeline.transforms.values()
    return transform(frame)


def go_on(attempt: int, where: str) -> None:
    """Show what there is, whether the task is under way or not: the second line would hold alone, mostly."""


whole_input.proven, task_token.confirm = take, go_on
pipeline = replace(user_counts.pipeline, transform=events)

if __name__ == "__main__":
    # Under its own name: what `__main__` defines travels by value, and no worker would import this.
    sys.path.insert(0, str(Path(__file__).parent))
    named = importlib.import_module(JOB if __package__ else MODULE)
    sys.exit(run(sys.argv[1:], named.pipeline))
