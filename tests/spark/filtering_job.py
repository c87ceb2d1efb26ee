"""A job whose transform leaves records out, and marks some with a word that is not declared: for tests alone."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import ToKafka
from tests.spark.trials import PIPELINE, parsed

REASONS = ("bot", "probe")


def marked(frame: DataFrame) -> DataFrame:
    """Leave out records of bots and probes; `boot` is a slip of the pen."""
    user = f.col("user")
    mark = f.when(user.startswith("bot"), "bot").when(user.isin("probe", "boot"), user)
    return parsed(frame).withColumn("filtered", mark)


trial = replace(PIPELINE, transform=marked, filtered=REASONS)
pipeline = replace(trial, rows=(ToKafka("accepted", key="user"),), windows=())
