"""Series of a deployment, as Prometheus would have scraped them: of one that is well, and of faults.

A world is what each series is at a time (seconds since the beginning, which is 1970 for rules); None: it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from effectively_once.driver.metrics import PREFIX

STEP_S = 15
Line = Callable[[float], float | None]
World = Mapping[str, Line]
PIPELINE, APPLICATION = "user_counts", "user-counts"
DAY_S = 86_400.0


def driver(name: str, instance: str = "10.244.0.7:9404", **labels: str) -> str:
    """Name a series of a driver."""
    own = {"pipeline": PIPELINE, "application": APPLICATION, "instance": instance, "job": "drivers"}
    return series(PREFIX + name, **own, **labels)


def series(name: str, **labels: str) -> str:
    """Name a series."""
    named = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{named}}}"


def operator(name: str) -> str:
    """Name a series of the operator about the application."""
    return series(name, job="spark-operator", instance="10.244.0.3:8080", application=APPLICATION)


def store(name: str, **labels: str) -> str:
    """Name a series of the object store."""
    return series(name, job="minio", instance="minio:9000", server="minio-0", **labels)


def kafka(name: str, node: int = 0, **labels: str) -> str:
    """Name a series of a node of Kafka."""
    return series(name, job="kafka", instance=f"kafka-{node}.kafka-nodes:9404", **labels)


UNREAD = driver("input_unread_offsets", topic="events", partition="0")
UNREAD_S = driver("input_unread_seconds", topic="events", partition="0")
GENERATION, PUBLISHED_AT = driver("generation"), driver("published_timestamp_seconds")
SEEN_AT, ALIVE_AT = driver("input_seen_timestamp_seconds"), driver("alive_timestamp_seconds")
PAUSED = driver("paused")
RUNNING, SUBMITTED = operator("spark_application_running_count"), operator("spark_application_submit_count")
OPERATOR_UP = series("up", job="spark-operator", instance="10.244.0.3:8080")
STORE_UP = series("up", job="minio", instance="minio:9000")
KAFKA_UP, SECOND_KAFKA_UP = kafka("up"), kafka("up", 1)


def rows(outcome: str) -> str:
    """Name the counter of rows with an outcome."""
    return driver("rows_total", outcome=outcome)


def always(value: float) -> Line:
    """Return a line that never changes."""
    return lambda _: value


WELL: World = {
    GENERATION: always(7),
    PUBLISHED_AT: lambda t: max(0, t - 2),
    SEEN_AT: lambda t: 30 * (t // 30),
    ALIVE_AT: lambda t: max(0, t - 2),
    PAUSED: always(0),
    driver("standby"): always(0),
    driver("takeovers_total", why="silent"): always(0),
    UNREAD: lambda t: 900 if t % 60 else 0,
    UNREAD_S: lambda t: 1.5 if t % 60 else 0,
    rows("accepted"): lambda t: 950 * t,
    rows("duplicate"): lambda t: 45 * t,
    rows("late"): lambda t: 2 * t,
    rows("malformed"): lambda t: 3 * t,
    driver("dead_letters_total", reason="late"): lambda t: 2 * t,
    driver("dead_letters_total", reason="bad_time"): lambda t: 3 * t,
    driver("epochs_total", repeat="false"): lambda t: t // 2,
    driver("step_seconds_total", step="ids"): lambda t: 0.1 * t,
    **{driver("epoch_seconds_bucket", le=le): lambda t: t // 2 for le in ("1.0", "+Inf")},
    driver("catalog_ids"): always(2e6),
    driver("catalog_bytes"): always(3e7),
    driver("watermark_seconds"): lambda t: max(0, t - 180),
    driver("input_retention_left_ratio"): always(1),
    driver("input_retention_seconds"): always(3600),
    driver("input_degraded_partitions"): always(0),
    driver("start_warning", warning="retention"): always(0),
    driver("sources_released"): always(0),
    driver("left_behind"): always(0),
    driver("certificate_expiry_timestamp_seconds", server="kafka:9092"): always(90 * DAY_S),
    OPERATOR_UP: always(1),
    RUNNING: always(1),
    SUBMITTED: always(2),
    KAFKA_UP: always(1),
    SECOND_KAFKA_UP: always(1),
    kafka("kafka_active_controllers"): always(1),
    kafka("kafka_active_controllers", 1): always(0),
    kafka("kafka_offline_partitions"): always(0),
    kafka("kafka_under_min_isr_partitions"): always(0),
    kafka("kafka_under_replicated_partitions"): always(0),
    kafka("kafka_late_transaction_partitions"): always(0),
    kafka("kafka_log_bytes", topic="events", partition="0"): lambda t: 1e5 * t,
    kafka("kafka_request_seconds", request="Produce", quantile="0.99"): always(0.01),
    STORE_UP: always(1),
    store("minio_cluster_drive_offline_total"): always(0),
    store("minio_cluster_nodes_offline_total"): always(0),
    store("minio_cluster_health_status"): always(1),
    store("minio_cluster_capacity_usable_free_bytes"): always(60e9),
    store("minio_cluster_capacity_usable_total_bytes"): always(100e9),
}
DRIVER_SERIES = tuple(name for name in WELL if name.startswith(PREFIX))


def without(*names: str) -> Callable[[float, float], World]:
    """Return the fault that series are not there."""
    return lambda begin, end: {name: between(begin, end, lambda _: None, WELL[name]) for name in names}


def instead(changes: World) -> Callable[[float, float], World]:
    """Return the fault that series are otherwise; a line gets the seconds since the fault began."""

    def fault(begin: float, end: float) -> World:
        return {
            name: between(begin, end, lambda t, line=line: line(t - begin), WELL.get(name, lambda _: None))  # type: ignore[misc]
            for name, line in changes.items()
        }

    return fault


def between(begin: float, end: float, during: Line, else_: Line) -> Line:
    """Return a line that is another one for a time."""
    return lambda t: during(t) if begin <= t < end else else_(t)


def to_values(line: Line, length_s: float) -> str:
    """Write a line as promtool reads it: a series that ends is marked, as when its target is gone."""
    told, before = [], None
    for number in range(round(length_s / STEP_S) + 1):
        value = line(number * STEP_S)
        told.append(f"{value:.10g}" if value is not None else "stale" if before is not None else "_")
        before = value
    return " ".join(told)
