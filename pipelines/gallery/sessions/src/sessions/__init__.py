"""Sessions of users: views with less than half an hour between them, by Spark's own state."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Pipeline, Stateful, ToKafka, json_records


def views(frame: DataFrame) -> DataFrame:
    """Read a view of a page."""
    return json_records(frame, "id string, event_time_ms long, user string, page string")


def sessions(rows: DataFrame) -> DataFrame:
    """Put accepted views together. Rows have no copies here; `event_time` is theirs with Spark's watermark."""
    session = f.session_window("event_time", "30 minutes").alias("session")
    found = rows.groupBy("user", session).agg(f.count("*").alias("views"), f.max("event_time").alias("last_view"))
    return found.select("user", f.col("session.start").alias("began"), "last_view", "views")


pipeline = Pipeline(
    transform=views,
    columns="user string NOT NULL, page string",
    rows=(ToKafka("views", key="user"),),
    # A window has a fixed length, and a session has none: so Spark keeps this state, in its checkpoint.
    stateful=Stateful(
        sessions,
        schema="user string, began timestamp, last_view timestamp, views long",
        by="user",
        to=ToKafka("sessions", key="user"),
    ),
    # The grain of lateness only: Spark's watermark is eleven minutes behind the newest view.
    window_ms=60_000,
    lateness_ms=600_000,
)
