"""Spark's checkpoint, as far as the pipeline looks into it: the ranges of a batch, whether it fits the chain.

Offset files are written by Spark through the file manager in pipelines/jvm: line 1 a version, line 2 metadata, then one
line a source with `{"topic": {"partition": end offset}}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from effectively_once.errors import CheckpointError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import body_of, run
from effectively_once.ledger.offsets import Offsets, Ranges
from effectively_once.store.object_store import S3ObjectStore

WAYS_OUT = (
    "Put the objects of this folder back, from the bucket's versions or a copy of the bucket. Where there is none, "
    "give the pipeline another name and have it read the topic from its start: its state cannot be made from the chain."
)
"""Of a pipeline whose state is Spark's own, when its checkpoint cannot be gone on with."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What Spark pinned with the offsets of a batch.

    Attributes:
        watermark_ms: its watermark.
        conf: settings that the state depends on, as they were when it began.

    """

    watermark_ms: int
    conf: dict[str, str]


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
        sources = self._read_sources(batch_id)
        if sources is None:
            return None
        # Each source has topics of its own.
        return {topic: ends for source in sources for topic, ends in source.items()}

    def _read_sources(self, batch_id: int) -> list[Offsets] | None:
        """End offsets of a batch, by Spark's sources. Raises as `offsets`."""
        key = f"{self.layout.checkpoint(self.lineage)}/offsets/{batch_id}"
        body = run(body_of(key), self.store)
        if body is None:
            return None
        try:
            version, _, *sources = body.decode().strip().split("\n")
            if version != "v1" or not sources:
                raise ValueError(f"version {version}, with {len(sources)} sources")
            return [
                {topic: {p: int(end) for p, end in ends.items()} for topic, ends in json.loads(source).items()}
                for source in sources
            ]
        except (ValueError, AttributeError, TypeError) as wrong:
            raise self._unreadable(key, wrong) from wrong

    def read_planned(self, batch_id: int) -> Planned:
        """Read what Spark pinned with a batch.

        Raises:
            CheckpointError: the object is missing or cannot be understood.

        """
        key = f"{self.layout.checkpoint(self.lineage)}/offsets/{batch_id}"
        body = run(body_of(key), self.store)
        try:
            if body is None:
                raise ValueError("it is missing")
            told = json.loads(body.decode().split("\n")[1])
            return Planned(int(told["batchWatermarkMs"]), {str(k): str(v) for k, v in told["conf"].items()})
        except (ValueError, AttributeError, TypeError, KeyError, IndexError) as wrong:
            raise self._unreadable(key, wrong) from wrong

    def check(self) -> None:
        """Read what Spark reads when it goes on: metadata, and the newest offsets and commits.

        Raises:
            CheckpointError: one of them is there and cannot be understood.

        """
        batches = self.batches("offsets")
        for batch in batches[-2:]:
            self.offsets(batch)
            self._parse(f"offsets/{batch}", versioned=True)
        for batch in self.batches("commits")[-2:]:
            self._parse(f"commits/{batch}", versioned=True)
        self._parse("metadata", versioned=False, needed=bool(batches))

    def batches(self, log: str) -> list[int]:
        """Batch ids in one of Spark's logs, `offsets` or `commits`, ascending."""
        names = (name.rsplit("/", 1)[1] for name in self.store.names(f"{self.layout.checkpoint(self.lineage)}/{log}/"))
        return sorted(int(name) for name in names if name.isdigit())

    def _parse(self, name: str, versioned: bool, needed: bool = False) -> None:
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
            content = json.loads(lines[0] if lines else "")
            if not isinstance(content, dict):
                raise ValueError("no JSON object")  # noqa: TRY004 - the content is wrong, not a type
            # Without a version it is the one that names the query, and Spark fails without the name.
            if not versioned and not isinstance(content.get("id"), str):
                raise ValueError("it has no id")
        except ValueError as wrong:
            raise self._unreadable(key, wrong) from wrong

    def _unreadable(self, key: str, wrong: Exception) -> CheckpointError:
        return CheckpointError(f"a checkpoint object cannot be read: {wrong}", key, self._way_out())

    def _way_out(self) -> str:
        if self.holds_state():
            return WAYS_OUT
        return (
            f"Delete the folder {self.layout.checkpoint(self.lineage)} (never head.json): "
            "the driver then continues where the chain ends, and nothing is lost."
        )

    def holds_state(self) -> bool:
        """Whether Spark keeps state of its own in it."""
        return next(iter(self.store.names(f"{self.layout.checkpoint(self.lineage)}/state/")), None) is not None

    def ranges(self, batch_id: int, first: Offsets) -> Ranges:
        """[start, end) of a batch; `first` is where batch 0 of this lineage began.

        Raises:
            CheckpointError: an offsets object is missing or corrupt.

        """
        wanted = range(batch_id, max(-1, batch_id - 2), -1)
        with ThreadPoolExecutor(2, "offsets") as pool:
            ends, *before = pool.map(self.offsets, wanted)
        starts = before[0] if before else first
        if ends is None or starts is None:
            raise CheckpointError(
                f"offsets of batch {batch_id if ends is None else batch_id - 1} are missing",
                f"{self.layout.checkpoint(self.lineage)}/offsets",
                self._way_out(),
            )
        return {
            topic: {p: (starts.get(topic, {}).get(p, 0), end) for p, end in sorted(partitions.items())}
            for topic, partitions in ends.items()
        }

    def fits(self, head: Head, sources: int = 1) -> bool:
        """Whether a driver may go on with it: its last batch is the one that the chain recorded last, or new after it.

        One that is gone or lags behind does not fit, nor one of another number of sources, which Spark would refuse:
        the driver then begins a new lineage where the chain ends.
        """
        if not head.tail:
            return False
        batches = self.batches("offsets")
        if not batches or self.lineage != head.tail[-1].lineage:
            return False
        end = {topic: {p: span[1] for p, span in parts.items()} for topic, parts in head.tail[-1].ranges.items()}
        if len(self._read_sources(batches[-1]) or ()) != sources:
            return False
        # The last batch may not have reached the chain: then the one before it ends where the chain does.
        return any(self.offsets(batch) == end for batch in batches[-2:])

    def go_on(self, head: Head) -> None:
        """Refuse to go on with it as the only place of a pipeline's state, unless it fits the chain (R7).

        Spark repeats the newest batch whose offsets are there and whose commit is not. That has to be the declared
        epoch, or the one recorded last, or one that no epoch covers yet; and the state before it has to be there.

        Raises:
            CheckpointError: it is gone, or does not fit.

        """
        for wrong in self._unfits(head):
            raise CheckpointError(
                f"the state of the pipeline is in Spark's checkpoint, and {wrong}",
                self.layout.checkpoint(self.lineage),
                WAYS_OUT,
            )

    def _unfits(self, head: Head) -> Iterator[str]:
        last: Declaration = head.declared or head.tail[-1]
        offsets, commits = self.batches("offsets"), self.batches("commits")
        newest, batch = max(offsets, default=-1), last.batch_id
        end = {topic: {p: span[1] for p, span in parts.items()} for topic, parts in last.ranges.items()}
        if not offsets:
            yield "it is gone"
        if batch not in offsets or self.offsets(batch) != end:
            yield f"its batch {batch} is not epoch {last.epoch} of the chain"
        if newest > batch + 1:
            yield f"it goes on to batch {newest}, the chain ends with batch {batch}"
        if any(known > batch for known in commits) or (head.declared is not None and batch in commits):
            yield f"batch {commits[-1]} is committed in it, and not recorded in the chain"
        base = newest if newest in commits else newest - 1
        if base >= 0 and base not in commits:
            yield f"commits/{base} is missing"
        if base >= 0 and not self.holds_state():
            yield "the folder state/ is gone"
