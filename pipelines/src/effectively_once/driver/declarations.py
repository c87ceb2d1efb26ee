"""What a driver pins with an epoch, before a row of it is published (R3)."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from effectively_once.driver import clock
from effectively_once.driver.table_watch import TableWatch
from effectively_once.driver.watch import Watch
from effectively_once.ledger.declaration import SHARD_BYTES, Declaration
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Ranges
from effectively_once.pipeline.job import Job
from effectively_once.sources.kafka import KafkaSource


class Declarations:
    """Those that one driver makes: with its version, what that runs on, and what it finds of tables and the input."""

    def __init__(
        self,
        job: Job,
        source: KafkaSource,
        watch: Watch | None,
        *,
        wheel_digest: str,
        runtime: Mapping[str, str],
    ) -> None:
        self.job, self.source, self.watch = job, source, watch
        self.tables = TableWatch(job)
        self.wheel_digest, self.runtime = wheel_digest, {**runtime}

    def of_batch(self, seen: Head, ranges: Ranges, lineage: str, batch_id: int) -> Declaration:
        """Return the declaration of the epoch that a batch of Spark becomes. Raises SourceError.

        Broker and database are asked at once, and asked anew for each epoch: what they said before does not hold.
        """
        with ThreadPoolExecutor(2, "declare") as pool:
            tried = pool.submit(self.tables.find_tried)
            # What fails of this is asked again where it is needed: another topic comes first.
            pool.submit(self.source.look, ranges)
            now = self.source.topic_ids()
        self.source.same_topic(seen, now)
        self.source.within(ranges)
        pinned = None if self.watch is None else self.watch.pin(seen, ranges)
        return Declaration(
            epoch=seen.last_recorded + 1,
            lineage=lineage,
            batch_id=batch_id,
            ranges=ranges,
            topic_ids=now,
            watermark_ms=seen.watermark_ms if pinned is None else clock.watermark_ms(seen, pinned, ranges),
            previous_watermark_ms=seen.tail[-1].watermark_ms if seen.tail else None,
            shards=self.job.settings.shards,
            wheel_digest=self.wheel_digest,
            runtime=self.runtime,
            settings_digest=self.job.digest,
            clock=pinned,
            # Again: somebody may have added constraints since.
            tried=tried.result(),
            bytes_max=self._bytes_max,
        )

    def fresh(self, due: Declaration) -> Declaration:
        """Return what comes next as this driver declares it: the rest of a divided epoch is declared like a new one."""
        if not due.is_rest:
            return due
        own = {"wheel_digest": self.wheel_digest, "runtime": self.runtime, "settings_digest": self.job.digest}
        return due.model_copy(update={**own, "tried": self.tables.find_tried(), "bytes_max": self._bytes_max})

    @property
    def _bytes_max(self) -> int | None:
        """What a declaration pins of the bound of a shard."""
        bound = self.job.settings.shard_bytes_max
        return None if bound == SHARD_BYTES else bound
