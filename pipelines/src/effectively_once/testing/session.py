"""A session of Spark for trials."""

from __future__ import annotations

from pyspark.sql import SparkSession


def trial_session() -> SparkSession:
    """Return a session of Spark that is good enough for trials: one thread, little memory, no user interface."""
    builder = SparkSession.builder.master("local[1]").appName("trial")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
