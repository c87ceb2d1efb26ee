"""Reading an object-store sink of a real bucket, while it is published to and from a restored one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger.objects import Delete, Put
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.reader import PublishedRows, published
from tests.stack.clicks import Clicks
from tests.unit.library.ledger_driver import global_counts
from tests.unit.library.names import GLOBAL_COUNTS

pytestmark = pytest.mark.stack


def rows_of(clicks: Clicks, since: int | None = None) -> PublishedRows:
    return published(clicks.settings.bucket, clicks.layout.pipeline, GLOBAL_COUNTS, since=since)


def counts_of(rows: PublishedRows) -> list[tuple[int, int, int]]:
    return [(epoch, row["window_start_ms"], row["count"]) for epoch, table in rows for row in table.to_pylist()]


def test_arrow_pandas_and_epochs_give_the_same_rows(clicks: Clicks) -> None:
    clicks.start("first").run(10)
    rows, expected = rows_of(clicks), global_counts(10)
    assert counts_of(rows) == expected
    assert rows.arrow().to_pylist() == [{"window_start_ms": at, "count": n} for _, at, n in expected]
    frame = rows.pandas()
    assert (list(frame.columns), frame["count"].sum()) == (["window_start_ms", "count"], sum(n for _, _, n in expected))


def test_what_lies_in_the_bucket_and_was_not_published_is_not_read(clicks: Clicks) -> None:
    clicks.start("first").run(5)
    ManifestSink(clicks.store, clicks.layout, GLOBAL_COUNTS).publish(5, 1, pa.table({"count": [9]}))
    clicks.store.answer(Put(clicks.layout.staged_file(GLOBAL_COUNTS, 2, "orphan"), b"not even parquet", None))
    assert counts_of(rows_of(clicks)) == global_counts(5)


def test_a_consumer_that_follows_sees_each_epoch_once_and_never_half(clicks: Clicks) -> None:
    driver, seen, last = clicks.start("first"), list[tuple[int, int, int]](), -1
    with clicks.running(driver):
        while last < 15:
            newer = rows_of(clicks, since=last + 1)
            seen, last = seen + counts_of(newer), newer.last
    newer = rows_of(clicks, since=last + 1)
    assert seen + counts_of(newer) == global_counts(driver.held.head.last_recorded + 1)


def test_damage_is_named(clicks: Clicks) -> None:
    clicks.start("first").run(6)
    rows = rows_of(clicks)
    name = rows.manifests[5]["files"][0]["name"]
    clicks.store.answer(Delete(name))
    with pytest.raises(SinkError, match=f"a file that a manifest names is missing .{name}"):
        rows.arrow()
    clicks.store.answer(Delete(clicks.layout.manifest(GLOBAL_COUNTS, 5)))
    with pytest.raises(SinkError, match=r"a manifest is missing .*000000005\.json"):
        rows_of(clicks)
    clicks.store.answer(Delete(clicks.layout.head))
    with pytest.raises(ChainError, match="head is gone"):
        rows_of(clicks)
