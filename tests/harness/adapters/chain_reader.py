"""The chain as an observer reads it: progress for the sender, and the whole of it as evidence.

It knows the names and formats of the objects by itself: what the product's own readers would say is not evidence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from effectively_once.store.object_store import PATIENCE_S, BucketAddress
from tests.harness.adapters.objects import Objects
from tests.harness.evidence import EvidenceError
from tests.harness.workload.progress import Progress

SPAN = 1000
"""Epochs whose manifests are merged into one object (docs/adr/0022)."""
NO_EVIDENCE = ("tail", "segments", "settings", "pipeline", "sequence", "sink_topics", "checksum")
"""Fields of head that `observed/chain.json` does not repeat; nor does it repeat `before` of records."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """Head as it stands in the store, as JSON."""

    content: Row

    @property
    def recorded(self) -> Row | None:
        """The record of the last epoch."""
        return self.content["tail"][-1] if self.content["tail"] else None

    @property
    def pinned(self) -> Row | None:
        """The last epoch whose input is pinned: declared, or recorded."""
        return self.content["declared"] or self.recorded

    @property
    def last_pinned(self) -> int:
        """That epoch's number, -1 before the first."""
        return self.pinned["epoch"] if self.pinned else -1


class ChainReader:
    """Reads head and everything it names; writes nothing but, on demand, deletes."""

    def __init__(self, address: BucketAddress, pipeline: str, topic: str, patience_s: float = PATIENCE_S) -> None:
        """`patience_s` is how long a store that does not answer is asked again."""
        self._objects, self._pipeline, self._topic = Objects(address, patience_s), pipeline, topic

    def head(self) -> Head | None:
        """Head now, None before the first driver. Raises EvidenceError when its checksum is wrong."""
        body = self._objects.body(f"{self._pipeline}/head.json")
        if body is None:
            return None
        content = orjson.loads(body)
        # Heads of format 2 have none.
        if content.get("checksum") not in (None, _checksum(content)):
            raise EvidenceError("the checksum of head is wrong", f"{self._pipeline}/head.json", "restore it")
        return Head(content)

    def progress(self) -> Progress:
        """Watermark and end offsets, as the sender's pacing wants them."""
        head = self.head()
        if head is None or head.pinned is None:
            return Progress()
        spans = head.pinned["ranges"].get(self._topic, {})
        return Progress(head.pinned["watermark_ms"], {int(partition): span[1] for partition, span in spans.items()})

    def evidence(self) -> Row:
        """The content of `observed/chain.json`.

        Raises:
            EvidenceError: there is no head, a segment that it names is missing, or a checksum is wrong.

        """
        head = self.head()
        if head is None:
            raise EvidenceError("head is missing", f"{self._pipeline}/head.json", "did the pipeline ever start?")
        brief = {name: value for name, value in head.content.items() if name not in NO_EVIDENCE}
        moved = [record for span in head.content["segments"] for record in self._segment(*span)]
        epochs = [*moved, *head.content["tail"]]
        for one, after in pairwise(epochs):
            if after.get("before") not in (None, _checksum(one)):
                raise EvidenceError(
                    f"the record of epoch {one['epoch']} is not what the next one follows",
                    f"{self._pipeline}/head.json and segments",
                    "restore the segment that holds it",
                )
        return {"head": brief, "epochs": [{k: v for k, v in one.items() if k != "before"} for one in epochs]}

    def shown(self, evidence: Row) -> Iterator[Row]:
        """Yield the lines of `observed/shown.jsonl`: where rows were read with which epochs were finished as shown.

        Raises:
            EvidenceError: an object is missing, or holds another number of rows.

        """
        for record in [*evidence["epochs"], evidence["head"].get("declared") or {}]:
            for shard, pinned in record.get("shown", {}).items() if record.get("repairs") is None else ():
                name = pinned.get("key")
                body = self._objects.body(name) if name else None
                rows = pa.ipc.open_stream(body).read_all().to_pylist() if body else []
                if len(rows) != pinned["rows"]:
                    raise EvidenceError(
                        f"{pinned['rows']} rows are pinned, {len(rows)} are there", name, "restore it from a backup"
                    )
                for row in rows:
                    source = [row["topic"], row["partition"], row["offset"]]
                    yield {"epoch": record["epoch"], "shard": int(shard), "source": source}

    def read_published(self, sink: str, epoch: int) -> tuple[str, list[Row]] | None:
        """What an epoch published to an object-store sink: the manifest's name and its rows; None before it did.

        Raises:
            EvidenceError: a file that the manifest names is missing, or holds another number of rows.

        """
        name, files = self._manifest(sink, epoch)
        return None if files is None else (name, [row for _, row in self._read_files(files, name)])

    def rows(self, sink: str, last_epoch: int) -> Iterator[tuple[int, str, Row]]:
        """Yield (epoch, file, row) of everything published up to an epoch, by manifests only: never a listing.

        Raises:
            EvidenceError: a manifest is missing, or what it names.

        """
        for epoch in range(last_epoch + 1):
            name, files = self._manifest(sink, epoch)
            if files is None:
                raise EvidenceError(f"epoch {epoch} has no manifest", name, "restore it from a backup")
            for file, row in self._read_files(files, name):
                yield epoch, file, row

    def delete_objects(self) -> int:
        """Delete every object of the pipeline; how many those were."""
        return self._objects.delete(f"{self._pipeline}/")

    def delete_checkpoints(self) -> int:
        """Delete every checkpoint of the pipeline, as a lost volume would; how many objects that were."""
        return self._objects.delete(f"{self._pipeline}/checkpoints/")

    def _segment(self, first: int, last: int) -> list[Row]:
        name = f"{self._pipeline}/segments/{first:09d}-{last:09d}.json"
        body = self._objects.body(name)
        if body is None:
            raise EvidenceError("a segment of the chain is missing", name, "restore it from a backup")
        return [orjson.loads(line) for line in body.split(b"\n")]

    def _manifest(self, sink: str, epoch: int) -> tuple[str, list[Row] | None]:
        """Name of an epoch's manifest, and the files that it names; None where there is none."""
        name = f"{self._pipeline}/{sink}/manifests/{epoch:09d}.json"
        # In this order, and the span is the word on it: a manifest goes only after its span has come.
        body = self._objects.body(name)
        first = epoch - epoch % SPAN
        span = self._objects.body(f"{self._pipeline}/{sink}/manifests/{first:09d}-{first + SPAN - 1:09d}.json")
        if span is not None:
            body = span.split(b"\n")[epoch - first]
        return name, None if body is None else orjson.loads(body)["files"]

    def _read_files(self, files: list[Row], manifest: str) -> Iterator[tuple[str, Row]]:
        """(file, row) of the files that a manifest names."""
        for file in files:
            body = self._objects.body(file["name"])
            rows = pq.read_table(pa.BufferReader(body)).to_pylist() if body is not None else []
            if len(rows) != file["rows"]:
                raise EvidenceError(
                    f"the manifest names {file['rows']} rows, {len(rows)} are there",
                    file["name"],
                    f"compare it with {manifest}",
                )
            for row in rows:
                yield file["name"], row


def _checksum(content: Row) -> str:
    """SHA-256 of the content but for its checksum: JSON with keys in order and without white space."""
    rest = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)).hexdigest()
