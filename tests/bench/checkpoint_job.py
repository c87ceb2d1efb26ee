"""Batches of a few rows that nobody wants: what remains is what Spark does for a batch, and its checkpoint.

`python -m tests.bench.checkpoint_job SETTINGS.json` ends after the last batch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from effectively_once.session import STORE, keep_checkpoints_at
from tests.bench.spark_arm import plain_session, watched

ROWS = 10


def main(argv: list[str]) -> None:
    """Read the settings: conf (of Spark), checkpoint (a folder), batches."""
    asked = json.loads(Path(argv[0]).read_text())
    conf = dict(asked["conf"])
    endpoint = conf.pop(f"{STORE}.endpoint", None)
    spark = plain_session("checkpoint", conf)
    if endpoint is not None:
        keep_checkpoints_at(endpoint, spark)
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", str(ROWS))
        .option("numPartitions", "1")
        .load()
    )
    query = rows.writeStream.format("noop").option("checkpointLocation", asked["checkpoint"]).start()
    watched(query, asked["batches"])
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
