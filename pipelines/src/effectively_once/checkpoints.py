"""Spark's checkpoint, as far as the pipeline looks into it: the ranges of a batch, whether it fits the chain.

Offset files are written by Spark through the file manager in pipelines/jvm: line 1 a version, line 2 metadata, then one
line a source with `{"topic": {"partition": end offset}}`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from effectively_once.errors import CheckpointError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import body_of, run
from effectively_once.ledger.records import Head, Ranges
from effectively_once.object_store import S3ObjectStore

Offsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of one lineage."""

    store: S3ObjectStore
    layout: Layout
    lineage: str

    def folder(self) -> str:
        """Where Spark is told to keep it."""
        return f"s3://{self.store.address.bucket}/{self.layout.checkpoint(self.lineage)}"

    def offsets(self, batch_id: int) -> Offsets | None:
        """End offsets of a batch, None when there is no such batch.

        Raises:
            CheckpointError: the object is there and cannot be understood.

        """
        key = f"{self.layout.checkpoint(self.lineage)}/offsets/{batch_id}"
        body = run(body_of(key), self.store)
        if body is None:
            return None
        try:
            version, _, source = body.decode().strip().split("\n")
            if version != "v1":
                raise ValueError(f"version {version}")
            offsets: Offsets = json.loads(source)
            return {topic: {p: int(end) for p, end in ends.items()} for topic, ends in offsets.items()}
        except (ValueError, AttributeError, TypeError) as wrong:
            raise self._unreadable(key, wrong) from wrong

    def check(self) -> None:
        """Read what Spark reads when it goes on: metadata, and the newest offsets and commits.

        Raises:
            CheckpointError: one of them is there and cannot be understood.

        """
        batches = self.batches("offsets")
        for batch in batches[-2:]:
            self.offsets(batch)
        for batch in self.batches("commits")[-2:]:
            self._parsed(f"commits/{batch}", versioned=True)
        self._parsed("metadata", versioned=False, needed=bool(batches))

    def batches(self, log: str) -> list[int]:
        """Batch ids in one of Spark's logs, `offsets` or `commits`, ascending."""
        names = (name.rsplit("/", 1)[1] for name in self.store.names(f"{self.layout.checkpoint(self.lineage)}/{log}/"))
        return sorted(int(name) for name in names if name.isdigit())

    def _parsed(self, name: str, versioned: bool, needed: bool = False) -> None:
        key = f"{self.layout.checkpoint(self.lineage)}/{name}"
        body = run(body_of(key), self.store)
        if body is None and not needed:
            return
        try:
            if body is None:
                raise ValueError("it is missing")
            lines = body.decode().strip().split("\n")
            if versioned and not re.fullmatch(r"v[1-9]\d*", lines.pop(0)):
                raise ValueError("the first line is no version")
            if not isinstance(json.loads(lines[0] if lines else ""), dict):
                raise ValueError("no JSON object")  # noqa: TRY004 - the content is wrong, not a type
        except ValueError as wrong:
            raise self._unreadable(key, wrong) from wrong

    def _unreadable(self, key: str, wrong: Exception) -> CheckpointError:
        return CheckpointError(
            f"a checkpoint object cannot be read: {wrong}",
            key,
            f"Delete the folder {self.layout.checkpoint(self.lineage)} (never head.json): "
            "the driver then continues where the chain ends, and nothing is lost.",
        )

    def ranges(self, batch_id: int, first: Offsets) -> Ranges:
        """[start, end) of a batch; `first` is where batch 0 of this lineage began.

        Raises:
            CheckpointError: an offsets object is missing or corrupt.

        """
        ends = self.offsets(batch_id)
        starts = first if batch_id == 0 else self.offsets(batch_id - 1)
        if ends is None or starts is None:
            raise CheckpointError(
                f"offsets of batch {batch_id if ends is None else batch_id - 1} are missing",
                f"{self.layout.checkpoint(self.lineage)}/offsets",
                "Delete the folder of this lineage (never head.json): the driver then continues where the chain ends.",
            )
        return {
            topic: {p: (starts.get(topic, {}).get(p, 0), end) for p, end in sorted(partitions.items())}
            for topic, partitions in ends.items()
        }

    def fits(self, head: Head) -> bool:
        """Whether a driver may go on with it: its last batch is the one that the chain recorded last, or new after it.

        One that is gone or lags behind does not fit: the driver then begins a new lineage where the chain ends.
        """
        if not head.tail:
            return False
        batches = self.batches("offsets")
        if not batches or self.lineage != head.tail[-1].lineage:
            return False
        end = {topic: {p: span[1] for p, span in parts.items()} for topic, parts in head.tail[-1].ranges.items()}
        # The last batch may not have reached the chain: then the one before it ends where the chain does.
        return any(self.offsets(batch) == end for batch in batches[-2:])
