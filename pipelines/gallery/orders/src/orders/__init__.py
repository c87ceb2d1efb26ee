"""Revenue of each shop and day, exact to the cent, in a table of PostgreSQL."""

from pyspark.sql import DataFrame

from effectively_once import Average, Count, Max, Pipeline, Sum, ToTable, Windowed, json_records

HOUR_MS = 3_600_000


def orders(frame: DataFrame) -> DataFrame:
    """Read an order. 12.345 is no amount of two digits: it is refused (bad_amount), not rounded."""
    return json_records(frame, "id string, event_time_ms long, shop string, amount decimal(10, 2)")


pipeline = Pipeline(
    transform=orders,
    columns="shop string, amount decimal(10, 2)",
    # Without a key rows are appended: every order once, with topic, partition and offset.
    rows=(ToTable("orders"),),
    windows=(
        Windowed(
            by="shop",
            values={
                "orders": Count(),
                "revenue": Sum("amount"),
                "mean": Average("amount"),
                "dearest": Max("amount"),
            },
            # With a key a row would replace the one of that shop and day. Each is published once, so the key
            # costs nothing, and readers have its index.
            to=ToTable("per_day", key=("shop", "window_start_ms")),
            length_ms=24 * HOUR_MS,
        ),
    ),
    window_ms=HOUR_MS,
    # A till that was offline sends its orders within six hours.
    lateness_ms=6 * HOUR_MS,
)
