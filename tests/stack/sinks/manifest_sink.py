"""The object-store sink under the conformance suite."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import count, takewhile
from typing import ClassVar

import pyarrow as pa
import urllib3
from minio import Minio

from effectively_once.ledger.layout import Layout
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from tests.stack.faulty_link import Fault
from tests.stack.sinks.adapter import PATIENCE_S, Adapter, Announce, Place, silent

ANSWER_S = 1.0


def make_bucket(place: Place) -> None:
    """Make one of the pipeline's name."""
    client = Minio(
        place.s3.removeprefix("http://"),
        access_key=os.environ[ACCESS_KEY],
        region="us-east-1",
        secret_key=os.environ[SECRET_KEY],
        secure=False,
    )
    client.make_bucket(place.pipeline)


class ManifestAdapter(Adapter):
    """Rows are rows of a table an epoch."""

    points: ClassVar = {
        "before": {"point": "ids_decided"},
        "inside": {"point": "put", "key": ".*/manifests/.*"},
        "after": {"point": "put_done", "key": ".*/manifests/.*"},
    }
    fences = False
    without: ClassVar = {
        "fencing": "a manifest is created once: a driver that was replaced can create the declared epoch's, "
        "identically, and the newer one finds it; there is nothing to refuse it",
        "other_partitioning": "it has no shards: the driver publishes one table an epoch, however rows were spread",
        "other_columns": "every file has its own columns, and there is no table for them to contradict",
    }

    def _store(self) -> S3ObjectStore:
        store = S3ObjectStore(BucketAddress(self.place.s3, self.place.pipeline), PATIENCE_S)
        store._http.connection_pool_kw["timeout"] = urllib3.Timeout(connect=ANSWER_S, read=ANSWER_S)
        return store

    def make(self) -> None:
        """Make a bucket."""
        make_bucket(self.place)

    def sink(self, announce: Announce = silent) -> ManifestSink:
        """Open a publisher; the store itself comes by the points."""
        return ManifestSink(self._store(), Layout(self.place.pipeline), "global_counts")

    def rows(self, ids: Sequence[str], country: str | None = None) -> pa.Table:
        """Return a table."""
        more = {} if country is None else {"country": [country] * len(ids)}
        return pa.table({"id": pa.array(ids, pa.string()), **more})

    def visible(self) -> list[tuple[str, str | None]]:
        """Follow the manifests."""
        sink = self.sink()
        last = len(list(takewhile(sink.has, count()))) - 1
        return sorted(((row["id"], row.get("country")) for _, _, row in sink.rows(last)), key=str)

    def missing(self) -> tuple[ManifestSink, str]:
        """Open a publisher without a bucket."""
        nowhere = S3ObjectStore(BucketAddress(self.place.s3, f"no-{self.place.pipeline}"), PATIENCE_S)
        return ManifestSink(nowhere, Layout(self.place.pipeline), "global_counts"), "the bucket does not exist"

    def heal_after_s(self, fault: Fault) -> float:
        """The store asks again by itself."""
        return ANSWER_S + 0.5 if fault is Fault.LOSE else 0.5

    def at_commit(self, begin: Callable[[bytes], None]) -> Announce:
        """The commit is the put of the manifest."""
        begin(b"/manifests/")
        return silent

    def add_column(self) -> None:
        """Nothing: a file has its own columns."""
