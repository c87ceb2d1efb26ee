"""What Spark's own triggers hold: the cheapest decision there is, by a plan without Python and without state.

`python -m tests.experiments.fraud.spark_job SETTINGS.json`: one arm after the other, each until its gate file is there.
A transaction above an amount is declined; the decision goes to a topic with the time at which the transaction arrived.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once.kafka_client import Access
from effectively_once.progress import VARIABLE, announce
from tests.bench.spark_arm import plain_session
from tests.experiments.fraud.plan import BATCH_S, REAL_TIME

FIELDS = "id string, amount_cents long"
POLL_S = 0.2


def main(argv: list[str]) -> None:
    """Read the settings: bootstrap, arms (name -> its topic and that of its decisions), checkpoints (a folder)."""
    asked = json.loads(Path(argv[0]).read_text())
    spark = plain_session("fraud_triggers", {})
    announce("driver", state="started")
    for name, (topic, output) in asked["arms"].items():
        _arm(spark, name, topic, output, asked)


def _arm(spark: SparkSession, name: str, topic: str, output: str, asked: dict[str, Any]) -> None:
    real_time = name == REAL_TIME
    options = {
        "kafka.bootstrap.servers": asked["bootstrap"],
        "kafka.linger.ms": "0",
        "topic": output,
        "checkpointLocation": f"{asked['checkpoints']}/{output}",
        **Access.of(os.environ).spark(),
    }
    rows = _decisions(spark, topic, asked).writeStream.format("kafka").options(**options).queryName(output)
    writer = rows.outputMode("update" if real_time else "append")
    trigger = {"realTime": f"{BATCH_S} seconds"} if real_time else {"processingTime": "0 seconds"}
    gate = Path(os.environ[VARIABLE]).with_name(f"{output}.go")
    try:
        query = writer.trigger(**trigger).start()
        announce("arm", arm=name, state="running")
        while not gate.exists():
            if query.awaitTermination(POLL_S):
                raise RuntimeError("the query ended by itself")
        query.stop()
    except Exception as error:
        announce("arm", arm=name, state="failed", says=str(error).splitlines()[0][:500])
        while not gate.exists():
            time.sleep(POLL_S)


def _decisions(spark: SparkSession, topic: str, asked: dict[str, Any]) -> DataFrame:
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", asked["bootstrap"])
        .options(**Access.of(os.environ).spark())
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = source.select(
        f.unix_millis("timestamp").alias("arrived_ms"), f.from_json(f.col("value").cast("string"), FIELDS).alias("r")
    )
    outcome = f.when(f.col("r.amount_cents") >= 10_000, "declined").otherwise("approved")
    return rows.select(f.to_json(f.struct("r.id", "arrived_ms", outcome.alias("outcome"))).alias("value"))


if __name__ == "__main__":
    main(sys.argv[1:])
