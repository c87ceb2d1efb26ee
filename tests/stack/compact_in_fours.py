"""Compact the manifests of a pipeline into spans of four epochs, to be killed on the way."""

from __future__ import annotations

import sys

from effectively_once.ledger.layout import Layout
from effectively_once.operate.retention.compaction import Compaction
from effectively_once.sinks import manifest_span
from effectively_once.store.listing import S3ListingStore
from effectively_once.store.object_store import BucketAddress
from tests.unit.library.names import GLOBAL_COUNTS

EPOCHS = 4


def main(endpoint: str, bucket: str, pipeline: str) -> None:
    """Find what there is to do, and do it."""
    manifest_span.EPOCHS = EPOCHS
    work = Compaction(S3ListingStore(BucketAddress(endpoint, bucket)), Layout(pipeline), [GLOBAL_COUNTS])
    work.carry_out(work.find())


if __name__ == "__main__":
    main(*sys.argv[1:])
