"""What a fraud model asks of a card: merchants, sums, and what came first and last in an hour."""

from pyspark.sql import DataFrame

from effectively_once import (
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Pipeline,
    Sum,
    ToKafka,
    Windowed,
    json_records,
)


def payments(frame: DataFrame) -> DataFrame:
    """Read a payment."""
    fields = "id string, event_time_ms long, card string, merchant string, country string, amount decimal(10, 2)"
    return json_records(frame, fields)


pipeline = Pipeline(
    transform=payments,
    columns="card string, merchant string, country string, amount decimal(10, 2)",
    windows=(
        Windowed(
            by="card",
            values={
                "payments": Count(),
                "spent": Sum("amount"),
                "dearest": Max("amount"),
                # Beyond 1,000 there is no number, but a dead letter (too_many_distinct): a card that does that is
                # one to look at.
                "merchants": CountDistinct("merchant", most=1_000),
                # First and last by event time, in whatever order they arrive.
                "first_country": First("country"),
                "last_country": Last("country"),
                "first_merchants": Collect("merchant", most=5),
            },
            to=ToKafka("features", key="card"),
            length_ms=3_600_000,
        ),
    ),
    window_ms=300_000,
    lateness_ms=300_000,
)
