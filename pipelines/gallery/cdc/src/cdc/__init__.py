"""Changes of customers, as a database tells them: a table of the newest state of each, whatever came first."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once import Last, Max, Pipeline, ToTable, Windowed, json_records

FIELDS = "id string, event_time_ms long, op string, customer string, email string, tier string"


def changes(frame: DataFrame) -> DataFrame:
    """Read a change: c (created), u (updated) or d (deleted). A deleted customer has no email and no tier."""
    rows = json_records(frame, FIELDS)
    unknown = f.when(~f.col("op").isin("c", "u", "d"), "unknown_op")
    deleted = f.col("op") == "d"
    kept = {name: f.when(deleted, "").otherwise(f.col(name)) for name in ("email", "tier")}
    return rows.withColumns({**kept, "deleted": deleted, "reason": f.coalesce("reason", unknown)})


pipeline = Pipeline(
    transform=changes,
    columns="customer string, email string, tier string, deleted boolean",
    windows=(
        Windowed(
            by="customer",
            # Last is that of the largest event time, and of equal ones that which stands last in its partition. All
            # of these are of one change. A change that arrives after a newer one alters nothing.
            values={
                "email": Last("email"),
                "tier": Last("tier"),
                "deleted": Last("deleted"),
                "changed_ms": Max("event_time_ms"),
            },
            # A row replaces the one of equal key, whichever of them is newer. So the key has the minute too (without
            # it the import refuses the table), and a reader takes the newest minute of each customer.
            to=ToTable("states", key=("customer", "window_start_ms")),
        ),
    ),
    window_ms=60_000,
    lateness_ms=300_000,
)
