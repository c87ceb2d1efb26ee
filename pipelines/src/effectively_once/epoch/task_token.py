"""What a Python worker looks for before it shows anything: whether its task is still under way (R13).

Spark tells a worker nothing. Its JVM keeps a file for each task, and takes it away as soon as the task has ended or is
to be killed (`TaskTokens.java`). This narrows a window and closes none: what a task shows late, its repeat shows too.
"""

from __future__ import annotations

import os
from pathlib import Path

from effectively_once.errors import EndedTaskError

FOLDER = "effectively-once-tasks"


def confirm(attempt: int, where: str) -> None:
    """Go on if the task is under way.

    Args:
        attempt: Spark's id of it (`TaskContext.taskAttemptId`).
        where: epoch, step and shard, for messages.

    Raises:
        EndedTaskError: it has ended.

    """
    scratch = os.environ["SPARK_LOCAL_DIRS"].split(",", maxsplit=1)[0]
    if not (Path(scratch) / FOLDER / str(attempt)).exists():
        raise EndedTaskError(
            f"attempt {attempt} has ended, or was killed, and its Python worker went on",
            where,
            "Nothing to do: its repeat publishes the same.",
        )
