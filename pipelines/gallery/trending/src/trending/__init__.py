"""How often each page was seen in the last hour, every five minutes."""

from pyspark.sql import DataFrame

from effectively_once import Count, CountDistinct, Pipeline, ToKafka, Windowed, json_records

MINUTE_MS = 60_000


def views(frame: DataFrame) -> DataFrame:
    """Read a view of a page."""
    return json_records(frame, "id string, event_time_ms long, page string, visitor string")


pipeline = Pipeline(
    transform=views,
    columns="page string, visitor string",
    windows=(
        Windowed(
            by="page",
            values={"views": Count(), "visitors": CountDistinct("visitor", most=10_000)},
            to=ToKafka("last_hour", key="page"),
            length_ms=60 * MINUTE_MS,
            slide_ms=5 * MINUTE_MS,
        ),
    ),
    # The grain of lateness. Slide and length are made of whole windows of this length.
    window_ms=5 * MINUTE_MS,
    lateness_ms=5 * MINUTE_MS,
)
