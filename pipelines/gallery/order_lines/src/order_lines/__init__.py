"""One order, many lines: how many of each product are sold in each hour."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Count, Explode, Pipeline, Sum, ToKafka, Windowed, json_records

LINES = "lines array<struct<product string, quantity long>>"


def order_lines(frame: DataFrame) -> DataFrame:
    """Read an order: one row, with its lines as an array. A line may be refused alone."""
    orders = json_records(frame, "id string, event_time_ms long, customer string")
    lines = f.from_json(f.col("value").cast("string"), LINES)["lines"]
    judged = f.transform(lines, lambda line: line.withField("reason", f.when(line["quantity"] < 1, "no_quantity")))
    return orders.withColumn("lines", judged)


pipeline = Pipeline(
    transform=order_lines,
    columns="customer string, product string, quantity long",
    # The line at place 2 of order-7 has the id order-7#2: a copy of the order brings no line again.
    explode=Explode("lines", rows_max=100),
    rows=(ToKafka("lines", key="product"),),
    windows=(
        Windowed(
            by="product",
            values={"lines": Count(), "quantity": Sum("quantity")},
            to=ToKafka("per_hour", key="product"),
        ),
    ),
    window_ms=3_600_000,
    lateness_ms=1_800_000,
)
