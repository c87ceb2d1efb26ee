"""Looks at everything there is of a pipeline. It reads only, and nobody is fenced.

What is damaged becomes a finding and does not end the looking at the rest. A driver may be at work meanwhile: what the
floor has passed since head was read is no damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.epoch.publishing import open_lake_table, table_addresses
from effectively_once.errors import ChainError, CheckpointError, PipelineError, SinkError, UnreachableError
from effectively_once.ledger import chain, segments
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, body_of, run
from effectively_once.operate.backup import contents
from effectively_once.operate.backup.contents import LiveDelta, NamedObject
from effectively_once.operate.inspect.inspection import CheckpointFacts, DeltaFacts, Finding, Inspection, MarkFacts
from effectively_once.operate.inspect.lives import Look
from effectively_once.operate.inspect.start_check import start_check
from effectively_once.pipeline.job import Job
from effectively_once.sinks.kafka_shard import ShardAddress, read_seen_mark
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.postgres import read_mark as table_mark
from effectively_once.sinks.reader import PublishedRows
from effectively_once.store.listing import S3ListingStore

T = TypeVar("T")


class Inspector:
    """Looks at one pipeline.

    Args:
        job: the pipeline.
        wheel_digest: of the wheel that is to start; None leaves the comparison of versions out.

    """

    def __init__(self, job: Job, wheel_digest: str | None = None) -> None:
        settings = job.settings
        self._job, self._settings, self._wheel_digest = job, settings, wheel_digest
        self._layout = Layout(settings.pipeline)
        self._store = S3ListingStore(settings.bucket, settings.start_patience_s)
        self.found = Inspection(settings.pipeline, f"{settings.s3_endpoint}/{settings.s3_bucket}/{settings.pipeline}")

    def look(self, *, deep: bool = False) -> Inspection:
        """Look at everything that a start reads; `deep`: at every segment, manifest and published file too."""
        found = self.found
        look = self._part("lease", lambda: Look(self._store, self._layout)) if self._settings.standby else None
        head = found.head = self._part("head", self._head)
        # Marks are those of the last epoch's shards.
        of_epoch = self._job.of_shards(head.shards if head is not None else None)
        self._part("marks", lambda: found.marks.extend(self._kafka_marks(of_epoch.settings.shards)))
        if head is not None:
            self._part("marks", lambda: found.marks.extend(self._manifest_marks(head)))
            self._part("marks", lambda: found.marks.extend(self._table_marks(of_epoch)))
            self._part("marks", lambda: found.marks.extend(self._lake_marks()))
            self._part("deltas", lambda: self._deltas(head))
            found.checkpoint = self._part("checkpoint", lambda: self._checkpoint(head))
        if head is not None and deep:
            for segment in contents.segments(self._layout, head):
                self._part("segments", lambda segment=segment: self._read(segment))  # type: ignore[misc]
            self._part("outputs", lambda: self._outputs(head))
        if head is not None:
            self._note_lost(head, deep=deep and not any(finding.part == "segments" for finding in found.findings))
        found.start = start_check(self._job, self._store, self._wheel_digest)
        refusal = found.start.refusal
        if refusal is not None and str(refusal) not in {str(finding.error) for finding in found.findings}:
            found.findings.append(Finding("start", refusal))
        if look is not None:
            found.lives = self._part("lease", look.again)
        return found

    def _part(self, name: str, look: Callable[[], T]) -> T | None:
        try:
            return look()
        except PipelineError as error:
            self.found.findings.append(Finding(name, error))
            return None

    def _note_lost(self, head: Head, *, deep: bool) -> None:
        """Take note of input that was given up: in the tail, and in every segment where all is looked at."""
        records = (
            self._part("segments", lambda: run(segments.history(self._layout, head), self._store)) if deep else None
        )
        of_all = [*(records or head.tail), *([head.declared] if head.declared else [])]
        self.found.lost = {one.epoch: one.lost for one in of_all if one.lost is not None}

    def _head(self) -> Head:
        answer = self._store.answer(Get(self._layout.head))
        if not isinstance(answer, Found):
            raise ChainError(
                "there is no head", self._layout.head, "Start the pipeline for the first time, or restore it."
            )
        self.found.head_bytes = len(answer.body)
        return decode(answer.body, self._layout.head)

    def _kafka_marks(self, shards: int) -> Iterator[MarkFacts]:
        for sink in self._job.pipeline.kafka_sinks:
            for shard in range(shards):
                address = ShardAddress(self._settings.kafka_bootstrap, self._settings.pipeline, sink, shard)
                try:
                    mark = read_seen_mark(address, self._settings.start_patience_s)
                except UnreachableError:
                    # The others would not answer either.
                    raise
                except SinkError as error:
                    self.found.findings.append(Finding("marks", error))
                except (ValueError, TypeError) as error:
                    damaged = SinkError(f"a progress mark cannot be read: {error}", str(address), "Restore the topic.")
                    self.found.findings.append(Finding("marks", damaged))
                else:
                    yield MarkFacts(sink, shard, mark.epoch if mark else None, mark.generation if mark else None)

    def _manifest_marks(self, head: Head) -> Iterator[MarkFacts]:
        epochs = [*([head.declared.epoch] if head.declared else []), head.last_recorded]
        for name in self._job.pipeline.file_sinks:
            sink = ManifestSink(self._store, self._layout, name)
            there = ((epoch, sink.manifest(epoch)) for epoch in epochs if epoch >= 0)
            epoch, manifest = next(((e, m) for e, m in there if m is not None), (None, {}))
            yield MarkFacts(name, None, epoch, manifest.get("generation"))

    def _table_marks(self, of_epoch: Job) -> Iterator[MarkFacts]:
        for address in table_addresses(of_epoch):
            mark = table_mark(address, self._settings.start_patience_s)
            yield MarkFacts(
                address.sink, address.shard, mark.epoch if mark else None, mark.generation if mark else None
            )

    def _lake_marks(self) -> Iterator[MarkFacts]:
        for name in self._job.pipeline.lake_tables:
            mark = open_lake_table(self._job, self._store, name).read_mark()
            yield MarkFacts(name, None, mark.epoch if mark else None, mark.generation if mark else None)

    def _deltas(self, head: Head) -> None:
        records = run(segments.history(self._layout, head, head.floor), self._store)
        for delta in contents.live_deltas(records, head.floor):
            facts = self.found.deltas.setdefault(delta.kind, DeltaFacts())
            facts.deltas += 1
            facts.rows += delta.named.rows.rows
            stored = delta.named_object(self._layout)
            if stored is None:
                facts.inline += 1
            else:
                facts.bytes += self._part("deltas", lambda d=delta, s=stored: self._bytes_of(d, s)) or 0  # type: ignore[misc]

    def _bytes_of(self, delta: LiveDelta, stored: NamedObject) -> int:
        """Check a delta and return its size in bytes; 0 when a driver has collected or merged it since."""
        try:
            return self._read(stored)
        except ChainError:
            # Collected, or merged, since head was read?
            head = run(chain.read(self._layout), self._store)
            records = run(segments.history(self._layout, head, head.floor), self._store)
            if delta in contents.live_deltas(records, head.floor):
                raise
            return 0

    def _read(self, named: NamedObject) -> int:
        body = run(body_of(named.key), self._store)
        if body is None:
            raise ChainError(
                "an object that the chain names is missing",
                named.key,
                "Restore it from the bucket's versions or a backup.",
            )
        named.check(body)
        return len(body)

    def _checkpoint(self, head: Head) -> CheckpointFacts | None:
        last = head.last
        if last is None:
            return None
        sizes = [one.bytes for one in self._store.list_objects(f"{self._layout.checkpoint(last.lineage)}/")]
        fits = self._part("checkpoint", lambda: self._fits(head, last.lineage)) or False
        return CheckpointFacts(last.lineage, len(sizes), sum(sizes), fits, self._job.pipeline.stateful is not None)

    def _fits(self, head: Head, lineage: str) -> bool:
        checkpoint = Checkpoint(self._store, self._layout, lineage)
        checkpoint.check()
        if self._job.pipeline.stateful is None:
            return checkpoint.fits(head, len(self._job.pipeline.transforms))
        try:
            checkpoint.go_on(head)
        except CheckpointError:
            # The start check names it, and knows whether a driver has gone on since head was read.
            return False
        return True

    def _outputs(self, head: Head) -> None:
        for name in self._job.pipeline.file_sinks:
            for _ in PublishedRows(lambda: self._store, self._layout, name, head):
                pass
