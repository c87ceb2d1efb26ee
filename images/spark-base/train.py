"""Loads the classes that drivers and executors load, so that the JVM writes them into an archive when it ends.

JVMs that map the archive (-XX:SharedArchiveFile) start in half the time. Run while the image is built, without network:
a stream of Spark's own rate source stands for Kafka's, whose classes are loaded by name.
"""

import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

BY_NAME = (
    "io.fabric8.kubernetes.client.KubernetesClientBuilder",
    "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "org.apache.kafka.clients.admin.KafkaAdminClient",
    "org.apache.kafka.clients.consumer.KafkaConsumer",
    "org.apache.spark.scheduler.cluster.k8s.ExecutorPodsAllocator",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesClusterManager",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesClusterSchedulerBackend",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "software.amazon.awssdk.services.s3.S3Client",
)
BATCHES = 3


def same(batches: Iterator[Any]) -> Iterator[Any]:
    """Rows as they are, by way of Arrow and a Python worker."""
    yield from batches


spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
for name in BY_NAME:
    spark._jvm.java.lang.Class.forName(name)
spark.range(1_000).repartition(2, "id").mapInArrow(same, "id long").groupBy("id").count().collect()
seen: list[int] = []


def batch(rows: Any, number: int) -> None:
    """One epoch in small: a shuffle, a Python step, a second shuffle."""
    halves = rows.selectExpr("value", "value % 2 as shard").repartition(2, "shard")
    halves.mapInArrow(same, halves.schema).groupBy("shard").count().collect()
    seen.append(number)


with tempfile.TemporaryDirectory() as checkpoint:
    stream = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    query = stream.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint).start()
    while len(seen) < BATCHES and query.isActive:
        query.awaitTermination(1)
    query.stop()
if len(seen) < BATCHES:
    sys.exit("train.py: the stream ended before its batches")
gateway = spark.sparkContext._gateway
spark.stop()
# The JVM ends by itself when its input closes; killed, it would write no archive.
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait(timeout=120)
