"""Batches of a few rows that nobody wants: what remains is what Spark does for a batch, and its checkpoint.

`python -m tests.bench.checkpoint_job SETTINGS.json` ends after the last batch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from effectively_once.driver.session import MANAGER, keep_checkpoints_at
from tests.bench.spark_arm import plain_session, watch

ROWS = 10
SETTING = "spark.sql.streaming.checkpointFileManagerClass"


def main(argv: list[str]) -> None:
    """Read the settings: conf (of Spark), s3_endpoint (of our manager), checkpoint (a folder), batches."""
    asked = json.loads(Path(argv[0]).read_text())
    spark = plain_session("checkpoint", asked["conf"])
    if asked["conf"].get(SETTING) == MANAGER:
        keep_checkpoints_at(asked["s3_endpoint"], spark)
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", str(ROWS))
        .option("numPartitions", "1")
        .load()
    )
    query = rows.writeStream.format("noop").option("checkpointLocation", asked["checkpoint"]).start()
    watch(query, asked["batches"])
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
