"""What a control's readers saw: written down for the judge, and counted to know whether another round is needed."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.harness.run_directory import RunDirectory
from tests.harness.sends import crc_of_row

SINK = "accepted"
Place = tuple[int, int]
Message = tuple[Place, dict[str, Any]]


@dataclass(frozen=True)
class Found:
    """Records that are there too often, that are not there, and that only an uncommitted reader saw."""

    duplicated: int = 0
    missing: int = 0
    retracted: int = 0


def read_committed(
    run: RunDirectory, rows: Iterator[Mapping[str, Any]], sent: Collection[str], stop: threading.Event
) -> tuple[Found, set[Place]]:
    """Write what a late reader of committed records sees, and count what is wrong with it.

    Args:
        run: of the control.
        rows: every record of the output, with `partition` and `offset`.
        sent: ids sent, each once.
        stop: set from outside to end early.

    Returns:
        What is wrong, and where the records stand.

    Raises:
        InterruptedError: `stop` was set: not all may have been read. What was not read is not missing, so the file is
            left without its end.
    """
    seen: set[str] = set()
    places: set[Place] = set()
    with run.observed_writer(SINK) as writer:
        for row in rows:
            writer.write({"sink": SINK, **row})
            seen.add(row["id"])
            places.add((row["partition"], row["offset"]))
        _whole(stop)
    return Found(duplicated=len(places) - len(seen), missing=len(set(sent) - seen)), places


def read_uncommitted(
    run: RunDirectory,
    messages: Iterator[Message],
    places: Collection[Place],
    stop: threading.Event,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Found:
    """Write what a reader of uncommitted records sees, as that of a reader during the run (oracle 3).

    Args:
        run: of the control.
        messages: place and content of every record, in the order of each partition.
        places: where committed ones stand.
        stop: set from outside to end early.
        now_ms: the clock, ms since 1970.

    Raises:
        InterruptedError: see `committed`.
    """
    seen: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    retracted = 0
    with run.concurrent_writer(SINK) as writer:
        writer.write({"t": now_ms(), "reader": "started"})
        for (partition, offset), row in messages:
            offsets, crcs = seen[partition]
            offsets.append(offset)
            crcs.append(crc_of_row(row))
            retracted += (partition, offset) not in places
        for partition, (offsets, crcs) in sorted(seen.items()):
            writer.write({"t": now_ms(), "partition": partition, "offsets": offsets, "crcs": crcs})
        writer.write({"t": now_ms(), "reader": "stopped"})
        _whole(stop)
    return Found(retracted=retracted)


def _whole(stop: threading.Event) -> None:
    if stop.is_set():
        raise InterruptedError("stopped while a control's output was read")
