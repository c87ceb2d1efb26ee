"""A job that reads two topics, each with a transform of its own: for tests alone."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import ToKafka, Windowed
from tests.spark.trials import VALUES, parsed, with_rows

ORDERS, REFUNDS = "orders_of_topics", "refunds_of_topics"


def refunded(frame: DataFrame) -> DataFrame:
    """A refund takes away what it is of."""
    return parsed(frame).withColumn("n", -f.col("n"))


pipeline = with_rows(
    ToKafka("accepted", key="user"),
    transform={ORDERS: parsed, REFUNDS: refunded},
    windows=(Windowed("user", VALUES, ToKafka("per_user", key="user")),),
)
