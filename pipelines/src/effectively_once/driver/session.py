"""The Spark session of a pipeline, with the settings that exactly-once needs; each says which pitfall it closes."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, region

MANAGER = "org.effectivelyonce.checkpoint.ConditionalCheckpointFileManager"
TOKENS = "org.effectivelyonce.input.TaskTokens"
REFUSED_ROWS = "org.effectivelyonce.input.RefusedRows"
FILE_SYSTEM = "org.effectivelyonce.checkpoint.CheckpointFileSystem"
STORE = "effectivelyonce.s3"
KEYS = {"access.key": ACCESS_KEY, "secret.key": SECRET_KEY, "session.token": SESSION_TOKEN}
"""Names that Spark does not show: its pages and logs leave out keys, secrets and tokens."""
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
UNMEASURED, MEASURED = "2147483647", str(256 << 20)
"""Bytes of a batch on its way to Python. Measuring them after every row took a tenth of an executor's time."""

REQUIRED = {
    # Two attempts of one task at a time would write twice (pitfall 10).
    "spark.speculation": "false",
    # Partition = shard is asserted per row; adaptive execution would merge partitions (pitfall 12).
    "spark.sql.adaptive.enabled": "false",
    # Checkpoints: one conditional put per file, errors surface (pitfalls 1 to 3).
    "spark.sql.streaming.checkpointFileManagerClass": MANAGER,
    # Beside it Spark's state store copies files with Hadoop's file system of the scheme.
    "spark.hadoop.fs.s3.impl": FILE_SYSTEM,
    # A kill campaign must not make the driver give up (pitfall 19).
    "spark.task.maxFailures": "16",
    "spark.stage.maxConsecutiveAttempts": "32",
    "spark.deploy.maxExecutorRetries": "-1",
    # A hung Python worker is ended and its task repeated (pitfall 18). Two minutes: far above any step.
    "spark.sql.execution.pyspark.udf.idleTimeoutSeconds": "120",
    "spark.sql.execution.pyspark.udf.killOnIdleTimeout": "true",
    # A worker learns that its task has ended, and shows nothing any more (R13).
    # And a task that no repeat can mend is not repeated.
    "spark.plugins": f"{TOKENS},{REFUSED_ROWS}",
    # Folded state and producers live in the worker between epochs.
    "spark.python.worker.reuse": "true",
    # So many records of Kafka's usual limit of 1 MiB still fit the 2 GiB of an Arrow vector.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    BATCH_BYTES: UNMEASURED,
    "spark.sql.session.timeZone": "UTC",
}

QUICK = {
    # Dead executors are noticed by their closed connection; this bounds the case where it hangs (pitfall 25).
    "spark.network.timeout": "30s",
    "spark.network.timeoutInterval": "10s",
    "spark.executor.heartbeatInterval": "5s",
    # The job of an epoch is a second long: waiting for a local slot, or polling rarely, would be most of it.
    "spark.locality.wait": "0s",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # One line an epoch is logged by the pipeline itself.
    "spark.ui.showConsoleProgress": "false",
}


def measure_batches(spark: SparkSession, *, measured: bool) -> None:
    """Bound batches of rows by their bytes, or by their number alone, in the jobs from now on.

    A batch of larger records than 1 MiB may be more than an Arrow vector takes, and then its task fails. So a repeat of
    an epoch measures: what has failed for that reason does not fail for it again.
    """
    spark.conf.set(BATCH_BYTES, MEASURED if measured else UNMEASURED)


def session(settings: PipelineSettings, conf: dict[str, str] | None = None) -> SparkSession:
    """Build the session; `conf` adds what depends on where it runs (master, class path, memory)."""
    builder = SparkSession.builder.appName(settings.pipeline)
    for key, value in {**QUICK, **(conf or {}), **REQUIRED}.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    keep_checkpoints_at(settings.s3_endpoint, made)
    return made


def keep_checkpoints_at(s3_endpoint: str, spark: SparkSession) -> None:
    """Give the checkpoint manager of a session its object store, with the credentials of the environment.

    What a builder is given becomes an argument of the JVM, which everybody on the machine reads.
    """
    spark.conf.set(f"{STORE}.endpoint", s3_endpoint)
    spark.conf.set(f"{STORE}.region", region())
    for key, name in KEYS.items():
        # Without a pair of keys the JVM finds a pod's token in the same environment.
        if value := os.environ.get(name):
            spark.conf.set(f"{STORE}.{key}", value)
