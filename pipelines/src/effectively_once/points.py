"""Named points of the protocol at which a test holds a process, to kill it, or another one, exactly there.

Off unless the environment names a folder. A test puts `hold.json` there, `{"point": "committed", "sink": "accepted"}`;
the first process that comes by such a point takes the file away, writes `held.json` and waits for `release`.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

VARIABLE = "EFFECTIVELY_ONCE_POINTS"
HOLD, HELD, RELEASE = "hold.json", "held.json", "release"
LONGEST_S, POLL_S = 120.0, 0.01

POINTS = {
    "started": "a driver's process; head is untouched",
    "taken_over": "head has this driver's generation",
    "shards_begun": "what was declared before is recorded, and shards that are new have marks",
    "batch_planned": "Spark has written offsets/n",
    "put": "an object is about to be put; `key`",
    "put_done": "it is there, or refused, and nobody has acted on it; `key`",
    "delete": "an object is about to be deleted; `key`",
    "declared": "head declares the epoch, and records the one before",
    "dedup_begun": "first step of a shard; `epoch`, `shard`, as for all that follow",
    "dedup_refused": "its input was not whole, and the task is about to fail",
    "ids_decided": "its decision is durable where it is an object of its own",
    "rows_kept": "what a shard of a stateful pipeline is to show is durable, and its operators have none of it",
    "answered": "a recorded step has called, and nothing of its answer is recorded; `sink`, the step's name",
    "transaction_open": "all rows and the mark are acknowledged by the broker, not committed; `sink`",
    "committed": "they are committed; `sink`",
    "published": "the shard of the sink is done; `sink`",
    "windows_begun": "second step of a shard; the first ones are all done, and a stateful query's operators",
    "windows_refused": "as dedup_refused",
    "windows_decided": "as ids_decided, for the counts",
    "job_done": "all shards of all Kafka sinks are published",
    "epoch_published": "the sink on the object store too",
    "stopping": "the last epoch is published, not recorded",
}
"""What has happened when a process is at a point."""


def reach(point: str, **where: Any) -> None:
    """Wait here if a test asks for it; the fields tell which of many passings this is.

    Raises:
        TimeoutError: nobody released what was held.
    """
    name = os.environ.get(VARIABLE)
    if name:
        _reach(Path(name), point, where)


def held() -> bool:
    """Whether a test holds a process, or held one and is not done with it."""
    name = os.environ.get(VARIABLE)
    return (Path(name) / HELD).exists() if name else False


def _reach(folder: Path, point: str, where: dict[str, Any]) -> None:
    try:
        wanted = json.loads((folder / HOLD).read_text())
    except FileNotFoundError:
        return
    if wanted.pop("point") != point or not all(_alike(pattern, where.get(name)) for name, pattern in wanted.items()):
        return
    mine = folder / f"taken-{os.getpid()}"
    try:
        # Of several that come by at once one takes it.
        (folder / HOLD).rename(mine)
    except FileNotFoundError:
        return
    mine.write_text(json.dumps({"point": point, "pid": os.getpid(), **where}))
    mine.rename(folder / HELD)
    deadline = time.monotonic() + LONGEST_S
    while not (folder / RELEASE).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"held at {point} for {LONGEST_S:.0f} s, and {folder / RELEASE} did not come")
        time.sleep(POLL_S)


def _alike(pattern: Any, value: Any) -> bool:
    """Text is a regular expression for the whole value, anything else is compared."""
    return bool(re.fullmatch(pattern, str(value))) if isinstance(pattern, str) else bool(pattern == value)
