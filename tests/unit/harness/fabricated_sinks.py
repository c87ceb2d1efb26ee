"""The sinks of a run that is made up: rows, counts of windows, and where each partition ends."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.harness.checkers.xxhash64 import shard_of
from tests.unit.harness.fabricated_files import SHARDS, WINDOW_MS, Row, write_json, write_lines


class Sinks:
    """Sinks that all epochs publish to; `partitions` has each topic, and `shards` of them have the rows of an epoch."""

    def __init__(self, partitions: int = SHARDS) -> None:
        self.shards = SHARDS
        self.rows: dict[str, list[Row]] = {name: [] for name in ("accepted", "dead_letter", "user_counts")}
        self.global_counts: list[Row] = []
        self.ends: dict[str, list[int]] = {name: [0] * partitions for name in self.rows}
        self.counts: dict[tuple[int, str], int] = defaultdict(int)

    def boundary(self) -> Row:
        """Where each ends."""
        ends = {name: {str(at): end for at, end in enumerate(ends) if end} for name, ends in self.ends.items()}
        return {**ends, "global_counts": self.global_counts[-1]["epoch"]}

    def emit(self, epoch: int, closed_ms: int, marks: Row) -> None:
        """Publish the counts of windows that end by some time."""
        closed = sorted({start for start, _ in self.counts if start + WINDOW_MS <= closed_ms})
        for start in closed:
            users = sorted(user for begin, user in self.counts if begin == start)
            total = 0
            for user in users:
                count = self.counts.pop((start, user))
                total += count
                self.publish("user_counts", marks, epoch, {"user": user, "window_start_ms": start, "count": count})
            row = {"sink": "global_counts", "window_start_ms": start, "count": total, "epoch": epoch}
            self.global_counts.append({**row, "object": f"global_counts/epoch={epoch}/part-0.jsonl"})
            marks["global_counts"].setdefault("0", {"rows": 0, "digest": ""})["rows"] += 1

    def publish(self, sink: str, marks: Row, epoch: int, row: Row, source: list[Any] | None = None) -> None:
        """Publish a row; `source`: of a record."""
        # Counts go to the shard of their user, records to that of their id, or of their coordinate.
        home = row["user"] if source is None else row["id"] or "-".join(map(str, source))
        shard = shard_of(home, self.shards)
        offset = self.ends[sink][shard]
        fields = {**row, "epoch": epoch, **({} if source is None else {"source": source})}
        message = {"key": row.get("user")}
        self.rows[sink].append({"sink": sink, **fields, "message": message, "partition": shard, "offset": offset})
        self.ends[sink][shard] += 1
        marks[sink].setdefault(str(shard), {"rows": 0, "digest": ""})["rows"] += 1

    def commit(self, marks: Row) -> None:
        """End the transactions of an epoch: the marker of each takes an offset too."""
        for name, ends in self.ends.items():
            for shard in marks[name]:
                ends[int(shard)] += 1

    def write(self, observed: Path, at: int) -> None:
        """Write what was read of them, and that they were at rest at some time."""
        for sink, rows in (*self.rows.items(), ("global_counts", self.global_counts)):
            write_lines(observed / f"{sink}.jsonl", rows)
        ends = [(name, shard, end) for name, shards in self.ends.items() for shard, end in enumerate(shards)]
        known = ("last_stable_offset", "high_watermark", "read_to")
        partitions = [
            {"topic": f"user_counts.{name}", "partition": shard, **dict.fromkeys(known, end)}
            for name, shard, end in ends
        ]
        write_json(observed / "quiet.json", {"at": at, "partitions": partitions, "open_transactions": []})
