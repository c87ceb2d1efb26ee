"""A run whose pipeline stopped for good: a part of an epoch is visible, and who repeats it is refused."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from tests.unit.harness.fabricate import PARTITIONS, fabricate
from tests.unit.harness.fabricated_files import Row, write_json
from tests.unit.harness.tamper import bind, change_json, change_lines, lines_of, watch

EPOCH, SHOWN = 5, 4
"""The epoch, and how many accepted rows of it readers see."""
NOT_DECLARED = ("generation", "counts", "max_event_time_ms", "sinks", "deltas")
ENDS = ("last_stable_offset", "high_watermark", "read_to")
WORDS = f"SinkError: a repeat of epoch {EPOCH} decided otherwise in step 'ids', shard 0"


def refused(run: Path) -> Path:
    """Make such a run out of one that passes: what came after the epoch is taken away, and all but a few rows of it."""
    fabricate(run)
    shutil.rmtree(run / "controls")
    (run / "observed" / "epilogue.json").unlink()
    (run / "settings-epilogue.json").unlink()
    change_json(run / "manifest.json", lambda manifest: manifest.update(controls=[]))
    declared: dict[str, Any] = {}

    def stopped(chain: Any) -> None:
        declared.update({k: v for k, v in chain["epochs"][EPOCH].items() if k not in NOT_DECLARED})
        chain["epochs"] = chain["epochs"][:EPOCH]
        chain["head"].update(last_recorded=EPOCH - 1, declared=declared, format=4)

    change_json(run / "observed" / "chain.json", stopped)
    ends = [declared["ranges"]["events"][str(partition)][1] for partition in range(PARTITIONS)]
    change_lines(run / "sent.jsonl", lambda rows: _only(rows, lambda row: row["offset"] < ends[row["partition"]]))
    read_to: dict[tuple[str, int], int] = {}
    for sink in ("accepted", "dead_letter", "user_counts", "global_counts"):
        left = SHOWN if sink == "accepted" else 0
        change_lines(run / "observed" / f"{sink}.jsonl", partial(_shown, left=left))
        for row in lines_of(run / "observed" / f"{sink}.jsonl"):
            read_to[f"user_counts.{sink}", row.get("partition", 0)] = row.get("offset", 0) + 2
    write_json(run / "observed" / "quiet.json", {"at": 0, "open_transactions": [], "partitions": []})
    change_lines(run / "history.jsonl", _tell)
    last = lines_of(run / "history.jsonl")[-1]["t"]
    partitions = [
        {"topic": topic, "partition": partition, **dict.fromkeys(ENDS, end)}
        for topic in sorted({topic for topic, _ in read_to if "global" not in topic})
        for partition in range(2)
        for end in [read_to.get((topic, partition), 0)]
    ]
    change_json(run / "observed" / "quiet.json", lambda quiet: quiet.update(at=last, partitions=partitions))
    return bind(watch(run))


def _only(rows: list[Row], holds: Any) -> None:
    rows[:] = [row for row in rows if holds(row)]


def _shown(rows: list[Row], left: int) -> None:
    of_it = [row for row in rows if row["epoch"] == EPOCH]
    _only(rows, lambda row: row["epoch"] < EPOCH or row in of_it[:left])


def _tell(events: list[Row]) -> None:
    last = next(at for at, one in enumerate(events) if one.get("epoch") == EPOCH and one.get("state") == "declared")
    last_ms = events[last]["t"]
    ended = [
        {"t": last_ms + at, "event": "driver", "state": "ended", "pid": 9000 + at, "code": 76, "says": WORDS}
        for at in (1, 2)
    ]
    events[last + 1 :] = [*ended, {"t": last_ms + 3, "event": "phase", "phase": "broken off"}]
