"""The Spark face of the reader: tasks read the files, and see what the other faces see."""

from __future__ import annotations

import sys
import uuid

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from effectively_once.driver.worker_errors import name_error
from effectively_once.errors import SinkError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, run
from effectively_once.operate.retention.compaction import Compaction
from effectively_once.sinks import manifest_span
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.reader import PublishedRows, published
from effectively_once.store.listing import S3ListingStore
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from infra.embedded.stack import EmbeddedStack
from tests.unit.library.ledger_driver import LedgerDriver, global_counts
from tests.unit.library.names import GLOBAL_COUNTS

pytestmark = pytest.mark.spark


@pytest.fixture
def layout() -> Layout:
    return Layout(f"p{uuid.uuid4().hex[:12]}")


@pytest.fixture
def bucket(stack: EmbeddedStack) -> BucketAddress:
    return BucketAddress(stack.endpoints.s3_endpoint, stack.endpoints.s3_bucket)


@pytest.fixture
def session(stack: EmbeddedStack, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Give Python workers what executors of a deployment have: the library and the credentials."""
    given = {ACCESS_KEY: stack.endpoints.s3_access_key, SECRET_KEY: stack.endpoints.s3_secret_key}
    for name, value in {**given, "PYTHONPATH": ":".join(filter(None, sys.path))}.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    return spark


def rows_of(bucket: BucketAddress, layout: Layout, since: int | None = None) -> PublishedRows:
    return published(bucket, layout.pipeline, GLOBAL_COUNTS, since=since)


def republish(store: S3ObjectStore, layout: Layout, epoch: int, table: pa.Table) -> None:
    """Have an epoch publish another table."""
    store.answer(Delete(layout.manifest(GLOBAL_COUNTS, epoch)))
    ManifestSink(store, layout, GLOBAL_COUNTS).publish(epoch, 1, table)


def test_a_data_frame_has_the_rows_that_are_published(
    session: SparkSession, bucket: BucketAddress, layout: Layout
) -> None:
    store = S3ObjectStore(bucket)
    driver = LedgerDriver.started(store, layout)
    assert rows_of(bucket, layout).spark(session).count() == 0
    driver.run(9)
    frame = rows_of(bucket, layout).spark(session)
    expected = [(at, n) for _, at, n in global_counts(9)]
    assert sorted(tuple(row) for row in frame.collect()) == expected
    assert dict(frame.dtypes) == {"window_start_ms": "bigint", "count": "bigint"}
    # A data frame may be used again, and does not grow while epochs are published.
    driver.run(3)
    assert frame.count() == len(expected)
    newer = rows_of(bucket, layout, since=9).spark(session)
    assert sorted(tuple(row) for row in newer.collect()) == [(at, n) for epoch, at, n in global_counts(12) if epoch > 8]


def test_manifests_that_are_compacted_show_the_same_rows(
    session: SparkSession, bucket: BucketAddress, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_span, "EPOCHS", 4)
    LedgerDriver.started(S3ObjectStore(bucket), layout).run(12)
    before = rows_of(bucket, layout).spark(session)
    work = Compaction(S3ListingStore(bucket), layout, [GLOBAL_COUNTS])
    there = work.find()
    assert len(there.groups) == 2
    work.carry_out(there)
    expected = [(at, n) for _, at, n in global_counts(12)]
    for frame in (before, rows_of(bucket, layout).spark(session)):
        assert sorted(tuple(row) for row in frame.collect()) == expected


def test_a_column_that_came_later_is_null_before(session: SparkSession, bucket: BucketAddress, layout: Layout) -> None:
    store = S3ObjectStore(bucket)
    LedgerDriver.started(store, layout).run(6)
    republish(store, layout, 5, pa.table({"window_start_ms": [7], "count": [7], "share": [0.5]}))
    shares = [row["share"] for row in rows_of(bucket, layout).spark(session).orderBy("window_start_ms").collect()]
    assert sorted(shares, key=str) == [0.5, *[None] * (len(shares) - 1)]
    republish(store, layout, 5, pa.table({"window_start_ms": [7]}))
    with pytest.raises(Exception, match=r"columns of epochs differ: .*count.* are not in the newest"):
        rows_of(bucket, layout).spark(session).collect()


def test_damage_that_a_task_meets_keeps_its_name(session: SparkSession, bucket: BucketAddress, layout: Layout) -> None:
    store = S3ObjectStore(bucket)
    LedgerDriver.started(store, layout).run(6)
    rows = rows_of(bucket, layout)
    frame = rows.spark(session)
    name = rows.manifests[4]["files"][0]["name"]
    store.answer(Delete(name))
    with pytest.raises(Exception, match="missing") as failed:
        frame.collect()
    error = name_error(failed.value)
    assert isinstance(error, SinkError)
    assert error.where == name
    assert run(chain.read(layout), store).last_recorded == 5
