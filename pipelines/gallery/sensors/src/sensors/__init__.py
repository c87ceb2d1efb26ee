"""Temperatures of devices: every reading in a lake table, extremes and averages of ten minutes in a topic."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Average, Count, Max, Min, Pipeline, ToIceberg, ToKafka, Windowed, json_records

MINUTE_MS = 60_000


def readings(frame: DataFrame) -> DataFrame:
    """Read a reading; leave those of test devices out, and refuse what no thermometer shows."""
    rows = json_records(frame, "id string, event_time_ms long, site string, device string, celsius double")
    impossible = f.when(~f.col("celsius").between(-90, 60), "impossible_celsius")
    return rows.withColumns(
        {
            "reason": f.coalesce("reason", impossible),
            "filtered": f.when(f.col("device").startswith("test-"), "test_device"),
        }
    )


pipeline = Pipeline(
    transform=readings,
    columns="site string, device string, celsius double",
    filtered=("test_device",),
    rows=(ToIceberg("readings"),),
    windows=(
        Windowed(
            # Devices are numbered by site: only both together name one.
            by=("site", "device"),
            values={
                "readings": Count(),
                "coldest": Min("celsius"),
                "warmest": Max("celsius"),
                "mean": Average("celsius"),
            },
            to=ToKafka("per_ten_minutes"),
        ),
    ),
    window_ms=10 * MINUTE_MS,
    lateness_ms=10 * MINUTE_MS,
    # A device whose clock is in the year 2100 would make all others late.
    ahead_ms=24 * 60 * MINUTE_MS,
)
