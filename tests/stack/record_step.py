"""Run a recorded step whose answer is this process's own, to be killed on the way; print the answer that counts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa

from effectively_once.epoch.recorded import add_recorded
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.store.object_store import BucketAddress, S3ObjectStore

LAYOUT = Layout("orders")
ADDS = pa.schema([("by", pa.string())])
ROWS = pa.table({"id": ["a", "b"], "offset": [7, 8]})
EPOCH, SHARD = 3, 1


def by(store: S3ObjectStore, name: str, calls: Path) -> tuple[str, bool]:
    """Run the step; every call of its function is a line in `calls`, and its answer is `name`."""

    def answer(rows: pa.Table) -> pa.Table:
        with calls.open("a") as file:
            file.write(f"{name}\n")
        return pa.table({"by": [name] * rows.num_rows})

    step = RecordedStep("signed", answer, ADDS)
    added, another = add_recorded(step, store, LAYOUT, epoch=EPOCH, shard=SHARD, rows=ROWS)
    (one,) = set(added["by"].to_pylist())
    return one, another


if __name__ == "__main__":
    endpoint, bucket, calls = sys.argv[1:]
    print(*by(S3ObjectStore(BucketAddress(endpoint, bucket)), str(os.getpid()), Path(calls)))  # noqa: T201
