"""The chain as an observer reads it: progress for the sender, and the whole of it as evidence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, Found, Get, run
from effectively_once.ledger.records import Declaration, Head
from effectively_once.object_store import PATIENCE_S, BucketAddress, S3ObjectStore
from effectively_once.sinks.manifest import ManifestSink
from tests.harness.workload.sender import Progress


class ChainReader:
    """Reads head and everything it names; writes nothing but, on demand, the deletion of a checkpoint."""

    def __init__(self, address: BucketAddress, pipeline: str, topic: str, patience_s: float = PATIENCE_S) -> None:
        """`patience_s` is how long a store that does not answer is asked again."""
        self.store = S3ObjectStore(address, patience_s)
        self.layout, self._topic = Layout(pipeline), topic

    def head(self) -> Head | None:
        """Head now, None before the first driver."""
        found = self.store.answer(Get(self.layout.head))
        return chain.decoded(found.body, self.layout.head) if isinstance(found, Found) else None

    def progress(self) -> Progress:
        """Watermark and end offsets, as the sender's pacing wants them."""
        head = self.head()
        if head is None:
            return Progress()
        recorded = head.tail[-1] if head.tail else None
        last = head.declared or recorded
        return Progress(last.watermark_ms if last else None, self._ends(last), self._ends(recorded))

    def evidence(self) -> dict[str, Any]:
        """The content of `observed/chain.json`."""
        head = self.head()
        assert head is not None, "the pipeline never started"
        records = run(chain.history(self.layout, head), self.store)
        brief = head.model_dump(
            mode="json", by_alias=True, exclude={"tail", "segments", "settings", "pipeline", "sequence"}
        )
        return {"head": brief, "epochs": [record.model_dump(mode="json", by_alias=True) for record in records]}

    def manifests(self, sink: str) -> ManifestSink:
        """Reader of an object-store sink."""
        return ManifestSink(self.store, self.layout, sink)

    def published(self, sink: str, epoch: int) -> tuple[str, list[dict[str, Any]]] | None:
        """What an epoch published to an object-store sink: the manifest's name and its rows; None before it did."""
        manifest = self.manifests(sink).manifest(epoch)
        if manifest is None:
            return None
        rows: list[dict[str, Any]] = []
        for file in manifest["files"]:
            match self.store.answer(Get(file["name"])):
                case Found(body):
                    rows += pq.read_table(pa.BufferReader(body)).to_pylist()
                case _:
                    raise LookupError(f"{file['name']} is named by the manifest of epoch {epoch}, and not there")
        return self.layout.manifest(sink, epoch), rows

    def delete_objects(self) -> int:
        """Delete every object of the pipeline; how many those were."""
        names = list(self.store.names(f"{self.layout.pipeline}/"))
        for name in names:
            self.store.answer(Delete(name))
        return len(names)

    def delete_checkpoints(self) -> int:
        """Delete every checkpoint of the pipeline, as a lost volume would; how many objects that were."""
        names = list(self.store.names(self.layout.checkpoint("")))
        for name in names:
            self.store.answer(Delete(name))
        return len(names)

    def _ends(self, pinned: Declaration | None) -> dict[int, int]:
        spans = pinned.ranges.get(self._topic, {}) if pinned else {}
        return {int(partition): span[1] for partition, span in spans.items()}
