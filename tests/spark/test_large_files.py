"""Files of Spark's own state on a real store: of any size, without their content in memory; Hadoop's view of them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once.driver.session import FILE_SYSTEM
from effectively_once.driver.spark_state import settings
from infra.embedded.object_store import ObjectStore
from infra.embedded.process import wait_for
from tests.spark.test_checkpoint_manager import EXISTS, MISSING, Manager, made, thrown

pytestmark = pytest.mark.spark

MIB = 1 << 20
QUERY_S = 180.0
LARGE_MIB, HEAP_MIB = 100, 40
"""A copy of the content would take the old generation by a hundred MiB; what lives for a moment does not come there."""


@pytest.fixture
def manager(spark: SparkSession, store: ObjectStore, request: pytest.FixtureRequest) -> Manager:
    return made(spark, store, request.node.name)


@pytest.fixture
def system(spark: SparkSession, store: ObjectStore) -> Any:
    """Hadoop's file system of the scheme, as Spark's state store gets it."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.conf.Configuration(False)
    conf.set("effectivelyonce.s3.endpoint", store.endpoint)
    conf.set("effectivelyonce.s3.access.key", store.access_key)
    conf.set("effectivelyonce.s3.secret.key", store.secret_key)
    conf.set("fs.s3.impl", FILE_SYSTEM)
    conf.setBoolean("fs.s3.impl.disable.cache", True)
    return jvm.org.apache.hadoop.fs.Path(f"s3://{store.bucket}/").getFileSystem(conf)


def drafts(manager: Manager) -> set[Path]:
    """Temporary files of the manager."""
    folder = Path(manager.jvm.java.lang.System.getProperty("java.io.tmpdir"))
    return set(folder.glob("checkpoint-*.draft"))


def content(path: Path, mib: int) -> str:
    """Fill a file with what does not repeat; return its digest."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(mib):
            block = hashlib.shake_128(str(number).encode()).digest(MIB)
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def peak_mib(manager: Manager, work: Callable[[], object]) -> float:
    """Return how far the old generation grew above what it held before."""
    pools = manager.jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    old = next(pool for pool in pools if "Tenured" in pool.getName() or "Old" in pool.getName())
    manager.jvm.java.lang.System.gc()
    old.resetPeakUsage()
    before = old.getUsage().getUsed()
    work()
    return float(old.getPeakUsage().getUsed() - before) / MIB


def copy(manager: Manager, source: Any, target: Any) -> None:
    manager.jvm.org.apache.hadoop.io.IOUtils.copyBytes(source, target, 1 << 16, True)


def test_a_large_file_is_written_and_read_without_its_content_in_memory(
    manager: Manager, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    given, back = tmp_path / "given", tmp_path / "back"
    digest, before = content(given, LARGE_MIB), drafts(manager)
    io = manager.jvm.java.io

    def write() -> None:
        copy(manager, io.FileInputStream(str(given)), manager.java.createAtomic(manager.path("1.zip"), False))

    def read() -> None:
        copy(manager, manager.java.open(manager.path("1.zip")), io.FileOutputStream(str(back)))

    grown = {"write": peak_mib(manager, write), "read": peak_mib(manager, read)}
    assert hashlib.sha256(back.read_bytes()).hexdigest() == digest
    assert drafts(manager) == before, "a temporary file is left"
    for what, mib in grown.items():
        record_property(f"{what}_{LARGE_MIB}_mib_heap_mib", round(mib, 1))
        sys.stdout.write(f"{what} of {LARGE_MIB} MiB: heap grew by {mib:.1f} MiB\n")
    assert max(grown.values()) < HEAP_MIB, grown


def test_a_large_file_is_compared_with_another_writers(manager: Manager) -> None:
    """Equal content is our own request, sent again; one byte less, or another one, is not."""
    blocks = hashlib.shake_128(b"some").digest(3 * MIB)
    before = drafts(manager)
    manager.write("0", blocks)
    manager.write("0", blocks)
    for other in (blocks[:-1], blocks[:-1] + b"x", blocks + b"x"):
        kind, message = thrown(lambda other=other: manager.write("0", other))  # type: ignore[misc]
        assert kind == EXISTS
        assert "was written by another driver" in message
    cancelled = manager.writing("1", blocks)
    assert drafts(manager) != before, "what is large is in a file"
    cancelled.cancel()
    assert drafts(manager) == before
    assert manager.read("0") == blocks


def test_a_large_file_can_be_read_from_any_position(manager: Manager) -> None:
    blocks = hashlib.shake_128(b"some").digest(2 * MIB)
    manager.write("0", blocks)
    opened = manager.java.open(manager.path("0"))
    for position in (MIB + 5, 7, 0, 2 * MIB - 1):
        opened.seek(position)
        assert opened.read() == blocks[position]
    assert opened.read() == -1
    kind, _ = thrown(lambda: opened.seek(2 * MIB + 1))
    assert kind == "java.io.EOFException"
    opened.close()


def test_hadoop_copies_files_there_and_back(manager: Manager, system: Any, tmp_path: Path) -> None:
    """What RocksDB's snapshots are kept by."""
    given, back = tmp_path / "00001.sst", tmp_path / "back"
    digest = content(given, 3)
    local = manager.jvm.org.apache.hadoop.fs.Path
    system.copyFromLocalFile(local(str(given)), manager.path("SSTs/00001.sst"))
    assert given.exists()
    system.copyToLocalFile(manager.path("SSTs/00001.sst"), local(str(back)))
    assert hashlib.sha256(back.read_bytes()).hexdigest() == digest
    assert system.getFileStatus(manager.path("SSTs/00001.sst")).getLen() == 3 * MIB
    assert system.getFileStatus(manager.path("SSTs")).isDirectory()
    assert [it.getPath().getName() for it in system.listStatus(manager.path("SSTs"))] == ["00001.sst"]
    kind, _ = thrown(lambda: system.getFileStatus(manager.path("nothing")))
    assert kind == MISSING
    with pytest.raises(UnsupportedOperationException, match="nothing is renamed"):
        system.rename(manager.path("SSTs"), manager.path("other"))
    assert system.delete(manager.path("SSTs"), True)
    assert not system.exists(manager.path("SSTs"))


def test_hadoops_streams_write_and_read_too(manager: Manager, system: Any) -> None:
    for overwrite in (True, False):
        out = system.create(manager.path(f"{overwrite}"), overwrite)
        out.write(b"content")
        assert not system.exists(manager.path(f"{overwrite}"))
        out.close()
        out.close()
        assert manager.read(f"{overwrite}") == b"content"


class Counting:
    """A query that counts by key, with RocksDB's state on the store, snapshots soon, and what each batch gave."""

    def __init__(self, spark: SparkSession, store: ObjectStore, folder: str) -> None:
        self.spark, self.store = spark, store
        self.prefix, self.folder = f"queries/{folder}", f"s3://{store.bucket}/queries/{folder}"
        self.counts: dict[int, dict[int, int]] = {}
        wanted = {
            "effectivelyonce.s3.endpoint": store.endpoint,
            "effectivelyonce.s3.access.key": store.access_key,
            "effectivelyonce.s3.secret.key": store.secret_key,
            "fs.s3.impl": FILE_SYSTEM,
            **settings(1),
            "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
            "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
        }
        for name, value in wanted.items():
            spark.conf.set(name, value)
        self._set = wanted

    def names(self, ending: str) -> list[str]:
        objects = self.store.client().list_objects(self.store.bucket, f"{self.prefix}/", recursive=True)
        return [str(it.object_name) for it in objects if str(it.object_name).endswith(ending)]

    def run(self, until: Callable[[], bool]) -> None:
        """Run the query until something holds; its state leaves this process with it."""

        def keep(frame: DataFrame, batch: int) -> None:
            self.counts[batch] = {row.key: row["count"] for row in frame.collect()}

        rows = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
        counted = rows.groupBy((f.col("value") % 5).alias("key")).count()
        writer = counted.writeStream.foreachBatch(keep).outputMode("complete")
        query = writer.option("checkpointLocation", self.folder).trigger(processingTime="100 milliseconds").start()
        try:
            wait_for("the query", QUERY_S, lambda: until() or not query.isActive)
            assert query.isActive, query.exception()
        finally:
            query.stop()
            jvm: Any = self.spark._jvm
            jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()

    def end(self) -> None:
        for name in self._set:
            self.spark.conf.unset(name)


@pytest.fixture
def counting(spark: SparkSession, store: ObjectStore) -> Iterator[Counting]:
    made_ = Counting(spark, store, "counting")
    yield made_
    made_.end()


@pytest.mark.slow
def test_state_goes_on_from_a_snapshot_on_the_store(counting: Counting) -> None:
    """Files that only Hadoop's file system copies are read again by a process that has nothing of them."""
    counting.run(lambda: bool(counting.names(".zip")) and bool(counting.names(".sst")) and len(counting.counts) > 4)
    last = max(counting.counts)
    client = counting.store.client()
    snapshot = max(int(name.rsplit("/", 1)[1].split("_")[0]) for name in counting.names(".zip"))
    for name in counting.names(".changelog"):
        # What the snapshot holds must come from it.
        if int(name.rsplit("/", 1)[1].split("_")[0]) <= snapshot:
            client.remove_object(counting.store.bucket, name)
    counting.run(lambda: max(counting.counts) > last + 2)
    assert all(counts == dict.fromkeys(range(5), 10 * (batch + 1)) for batch, counts in counting.counts.items())
