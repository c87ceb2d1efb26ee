"""The checkpoint file manager on a real store: conflicts and failures surface, and Spark's queries run on it."""

from __future__ import annotations

import statistics
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from infra.embedded.object_store import ObjectStore
from infra.embedded.process import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.core]

EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"
MISSING = "java.io.FileNotFoundException"
FAILED = "java.io.IOException"
BATCHES_S = 30.0
PATIENCE_MS = 2_000
TWO_QUERIES = ("CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming queries are concurrently using")


@dataclass(frozen=True)
class Manager:
    """The Java manager of one folder, spoken to through py4j."""

    jvm: Any
    root: str
    java: Any

    def path(self, name: str = "") -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)

    def writing(self, name: str, content: bytes, overwrite: bool = False) -> Any:
        """Open a file and write into it; nothing is sent before it is closed."""
        out = self.java.createAtomic(self.path(name), overwrite)
        out.write(content)
        return out

    def write(self, name: str, content: bytes, overwrite: bool = False) -> None:
        self.writing(name, content, overwrite).close()

    def read(self, name: str) -> bytes:
        return bytes(self.jvm.org.apache.commons.io.IOUtils.toByteArray(self.java.open(self.path(name))))

    def names(self, name: str = "", only: str = "*") -> list[str]:
        matching = self.jvm.org.apache.hadoop.fs.GlobFilter(only)
        return sorted(status.getPath().getName() for status in self.java.list(self.path(name), matching))


@pytest.fixture
def manager(spark: SparkSession, store: ObjectStore, request: pytest.FixtureRequest) -> Manager:
    return made(spark, store, request.node.name)


def made(
    spark: SparkSession,
    store: ObjectStore,
    folder: str,
    endpoint: str | None = None,
    secret: str | None = None,
    *,
    patience_ms: int = PATIENCE_MS,
) -> Manager:
    """Make a manager, which gives up sooner than a pipeline's: what is stopped in most tests does not come back."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.conf.Configuration(False)
    conf.set("effectivelyonce.s3.endpoint", endpoint or store.endpoint)
    conf.set("effectivelyonce.s3.access.key", store.access_key)
    conf.set("effectivelyonce.s3.secret.key", secret or store.secret_key)
    conf.setLong("effectivelyonce.s3.patience.ms", patience_ms)
    root = f"s3://{store.bucket}/manager/{folder}"
    java = jvm.org.effectivelyonce.checkpoint.ConditionalCheckpointFileManager(
        jvm.org.apache.hadoop.fs.Path(root), conf
    )
    return Manager(jvm, root, java)


def thrown(action: Callable[[], object]) -> tuple[str, str]:
    """Return class name and message of the Java exception that an action ends with."""
    with pytest.raises(Py4JJavaError) as caught:
        action()
    java = caught.value.java_exception
    return java.getClass().getName(), java.getMessage()


def test_a_file_is_visible_only_when_it_was_closed(manager: Manager) -> None:
    out = manager.writing("0", b"content")
    assert not manager.java.exists(manager.path("0"))
    out.close()
    assert manager.read("0") == b"content"


def test_another_writers_file_is_a_conflict_that_close_throws(manager: Manager) -> None:
    first, second = manager.writing("0", b"ours"), manager.writing("0", b"theirs")
    first.close()
    kind, message = thrown(second.close)
    assert kind == EXISTS
    assert f"{manager.root}/0 was written by another driver" in message
    assert manager.read("0") == b"ours"


def test_equal_content_is_our_own_success_after_a_lost_answer(manager: Manager) -> None:
    manager.write("0", b"same")
    manager.write("0", b"same")
    assert manager.read("0") == b"same"


def test_overwriting_replaces_what_is_there(manager: Manager) -> None:
    manager.write("0", b"old", overwrite=True)
    manager.write("0", b"new and longer", overwrite=True)
    assert manager.read("0") == b"new and longer"


def test_a_cancelled_file_is_not_written(manager: Manager) -> None:
    out = manager.writing("0", b"never")
    out.cancel()
    out.close()
    assert not manager.java.exists(manager.path("0"))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failed_put_is_thrown_by_close_and_not_sent_by_a_second_close(
    manager: Manager, store: ObjectStore, overwrite: bool
) -> None:
    out = manager.writing("0", b"content", overwrite)
    store.stop()
    try:
        kind, message = thrown(out.close)
    finally:
        store.restart()
    assert kind == FAILED
    assert "PUT of" in message
    assert "/0 failed" in message
    out.close()
    assert not manager.java.exists(manager.path("0"))


def test_wrong_credentials_are_thrown_by_close(spark: SparkSession, store: ObjectStore) -> None:
    # Another name of the same address: clients are kept by endpoint.
    endpoint = store.endpoint.replace("127.0.0.1", "localhost")
    manager = made(spark, store, "credentials", endpoint, "wrong")
    kind, message = thrown(manager.writing("0", b"content").close)
    assert kind == FAILED
    assert "conditional PUT of" in message
    assert "signature" in message


def test_what_does_not_exist_is_told_apart_from_what_failed(manager: Manager) -> None:
    kind, message = thrown(lambda: manager.java.open(manager.path("nothing")))
    assert kind == MISSING
    assert f"{manager.root}/nothing does not exist" in message
    assert not manager.java.exists(manager.path("nothing"))
    assert manager.names("nothing") == []


def test_folders_are_listed_one_level_deep_and_filtered(manager: Manager) -> None:
    for name in ("offsets/0", "offsets/1", "offsets/10", "offsets/.hidden", "offsets/deep/0", "metadata"):
        manager.write(name, name.encode())
    assert manager.names() == ["metadata", "offsets"]
    assert manager.names("offsets", "[0-9]*") == ["0", "1", "10"]
    assert manager.names("offsets") == [".hidden", "0", "1", "10", "deep"]
    sizes = {status.getPath().getName(): status.getLen() for status in manager.java.list(manager.path("offsets"))}
    assert sizes["10"] == len("offsets/10")
    assert manager.java.exists(manager.path("offsets"))


def test_many_files_are_listed_over_several_pages(manager: Manager, store: ObjectStore) -> None:
    client, prefix = store.client(), manager.root.removeprefix(f"s3://{store.bucket}/")
    for number in range(1001):
        client.put_object(store.bucket, f"{prefix}/{number}", BytesIO(b""), 0)
    assert len(manager.names()) == 1001


def test_deleting_takes_what_lies_below_and_nothing_beside(manager: Manager) -> None:
    for name in ("a/0", "a/b/1", "ab/0", "a.txt"):
        manager.write(name, b"")
    manager.java.delete(manager.path("a"))
    assert not manager.java.exists(manager.path("a"))
    assert manager.names() == ["a.txt", "ab"]
    manager.java.delete(manager.path("a"))


def test_a_file_can_be_read_from_any_position(manager: Manager) -> None:
    manager.write("0", bytes(range(100)))
    opened = manager.java.open(manager.path("0"))
    opened.seek(90)
    assert bytes(manager.jvm.org.apache.commons.io.IOUtils.toByteArray(opened)) == bytes(range(90, 100))


@dataclass
class Query:
    """Start queries on one checkpoint, and keep what their batches held."""

    spark: SparkSession
    folder: str
    batches: list[tuple[int, list[int]]]

    def start(self) -> StreamingQuery:
        def keep(frame: DataFrame, batch: int) -> None:
            self.batches.append((batch, sorted(row.value for row in frame.collect())))

        rows = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
        writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", self.folder)
        return writer.trigger(processingTime="100 milliseconds").start()

    def wait(self, query: StreamingQuery, more: int) -> None:
        """Wait for so many more batches, or for the query's end."""
        enough = len(self.batches) + more
        wait_for(f"{more} batches", BATCHES_S, lambda: len(self.batches) >= enough or not query.isActive)


@pytest.fixture
def queries(spark: SparkSession, store: ObjectStore, request: pytest.FixtureRequest) -> Iterator[Query]:
    """Give queries a checkpoint on the store; they are stopped at the end."""
    spark.conf.set("effectivelyonce.s3.endpoint", store.endpoint)
    spark.conf.set("effectivelyonce.s3.access.key", store.access_key)
    spark.conf.set("effectivelyonce.s3.secret.key", store.secret_key)
    spark.conf.set("effectivelyonce.s3.patience.ms", str(PATIENCE_MS))
    yield Query(spark, f"s3://{store.bucket}/queries/{request.node.name}", [])
    for query in spark.streams.active:
        query.stop()
    spark.conf.unset("effectivelyonce.s3.patience.ms")


def test_a_query_continues_where_its_checkpoint_ends(
    queries: Query, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    query = queries.start()
    queries.wait(query, 12)
    took_ms = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress[2:]]
    query.stop()
    before = max(batch for batch, _ in queries.batches)
    again = queries.start()
    queries.wait(again, 3)
    again.stop()
    batches = dict(queries.batches)
    assert sorted(batches) == list(range(max(batches) + 1))
    assert max(batches) > before
    # A batch that was repeated had the same rows, and no row is missing or in two batches.
    assert all(rows == batches[batch] for batch, rows in queries.batches)
    assert [row for batch in sorted(batches) for row in batches[batch]] == list(range(3 * len(batches)))
    p50_ms = statistics.median(took_ms)
    record_property("trivial_batch_p50_ms", p50_ms)
    with capsys.disabled():
        sys.stdout.write(f"\ntrivial batch with the checkpoint on the store: p50 {p50_ms:.0f} ms\n")


def test_of_two_queries_on_one_checkpoint_the_second_to_write_a_batch_fails(queries: Query, store: ObjectStore) -> None:
    first = queries.start()
    queries.wait(first, 2)
    # One process refuses two queries of one id, as two drivers would not: the second is given another.
    metadata = f"{queries.folder.removeprefix(f's3://{store.bucket}/')}/metadata"
    body = f'{{"id":"{uuid.uuid4()}"}}'.encode()
    store.client().put_object(store.bucket, metadata, BytesIO(body), len(body))
    second = queries.start()
    wait_for("one of two queries to fail", BATCHES_S, lambda: not (first.isActive and second.isActive))
    assert first.isActive != second.isActive, "both queries failed"
    lost, won = (first, second) if second.isActive else (second, first)
    # Spark finds the batch in the log when it looks, or the store refuses it between that look and the put.
    assert any(refusal in str(lost.exception()) for refusal in TWO_QUERIES), lost.exception()
    queries.wait(won, 2)
    assert won.isActive, won.exception()
    won.stop()
    batches = [batch for batch, _ in queries.batches]
    assert sorted(set(batches)) == list(range(max(batches) + 1))


def test_a_query_whose_log_cannot_be_written_stops(queries: Query, store: ObjectStore) -> None:
    query = queries.start()
    queries.wait(query, 2)
    store.stop()
    try:
        wait_for("the query to fail", BATCHES_S, lambda: not query.isActive)
    finally:
        store.restart()
    assert "object store: " in str(query.exception())
    again = queries.start()
    queries.wait(again, 2)
    assert again.isActive, again.exception()
    again.stop()
    batches = dict(queries.batches)
    assert sorted(batches) == list(range(max(batches) + 1))
    assert all(rows == batches[batch] for batch, rows in queries.batches)
