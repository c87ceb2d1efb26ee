"""The dashboard for Grafana, made from its queries: `charts/monitoring/files/dashboard.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

FILE: Final = "monitoring/files/dashboard.json"
WIDTH, HEIGHT, COLUMNS = 12, 8, 24
"""In Grafana's grid."""
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_CHOSEN: Final = '{pipeline=~"$pipeline"}'


@dataclass(frozen=True)
class Query:
    """What Prometheus is asked, and how Grafana names the lines."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """A graph.

    Attributes:
        title: says what it shows.
        unit: of its values, by Grafana's name.
        queries: its lines.
    """

    title: str
    unit: str
    queries: tuple[Query, ...]


def _own(name: str) -> str:
    return f"effectively_once_{name}{_CHOSEN}"


def _rate(name: str) -> str:
    return f"rate({_own(name)}[5m])"


def _by(how: str, expression: str, *labels: str, names: str = "") -> Query:
    """Return a line for each pipeline, and each of its `labels`; `names` says more of it in the legend."""
    shown = " ".join(["{{pipeline}}", *(f"{{{{{label}}}}}" for label in labels), *filter(None, [names])])
    return Query(f"{how} by ({', '.join(['pipeline', *labels])}) ({expression})", shown)


_EPOCHS: Final = f"sum by (pipeline) ({_rate('epochs_total')})"
PANELS: Final = (
    Panel(
        "Alerts that fire",
        "none",
        (Query('sum by (alertname, pipeline) (ALERTS{alertstate="firing"})', "{{alertname}} {{pipeline}}"),),
    ),
    Panel("Records a second, by what became of them", "ops", (_by("sum", _rate("rows_total"), "outcome"),)),
    Panel(
        "Age of the oldest unread record, by partition", "s", (_by("max", _own("input_unread_seconds"), "partition"),)
    ),
    Panel("Unread offsets, by partition", "short", (_by("max", _own("input_unread_offsets"), "partition"),)),
    Panel(
        "Time of an epoch",
        "s",
        tuple(
            Query(
                f"histogram_quantile({share}, sum by (pipeline, le) ({_rate('epoch_seconds_bucket')}))",
                f"{{{{pipeline}}}} p{share * 100:.0f}",
            )
            for share in (0.5, 0.99)
        ),
    ),
    Panel(
        "Time of an epoch, by step",
        "s",
        (
            Query(
                f"sum by (pipeline, step) ({_rate('step_seconds_total')}) / on (pipeline) group_left {_EPOCHS}",
                "{{pipeline}} {{step}}",
            ),
        ),
    ),
    Panel("Dead letters a second, by reason", "ops", (_by("sum", _rate("dead_letters_total"), "reason"),)),
    Panel(
        "Share of records that are refused",
        "percentunit",
        (
            Query(
                'sum by (pipeline) (rate(effectively_once_rows_total{pipeline=~"$pipeline",'
                f'outcome=~"late|malformed"}}[5m])) / sum by (pipeline) ({_rate("rows_total")})',
                "{{pipeline}}",
            ),
        ),
    ),
    Panel("Ids in the dedup catalog", "short", (_by("max", _own("catalog_ids")),)),
    Panel("Memory of the dedup catalog", "bytes", (_by("max", _own("catalog_bytes")),)),
    Panel(
        "Generation, and drivers that live",
        "none",
        (
            _by("max", _own("generation"), names="generation"),
            _by("count", _own("generation"), names="drivers"),
        ),
    ),
    Panel(
        "How far the watermark is behind the clock",
        "s",
        (Query(f"time() - max by (pipeline) ({_own('watermark_seconds')} > 0)", "{{pipeline}}"),),
    ),
    Panel(
        "Retention that the oldest unread record has left",
        "percentunit",
        (_by("min", _own("input_retention_left_ratio")),),
    ),
    Panel("Partitions of the input without all copies", "none", (_by("max", _own("input_degraded_partitions")),)),
    Panel(
        "Time that certificates have left",
        "s",
        (
            Query(
                f"min by (server) ({_own('certificate_expiry_timestamp_seconds')}) - time()",
                "{{server}}",
            ),
        ),
    ),
    Panel(
        "Kafka: partitions that lack copies, a leader, or the end of a transaction",
        "none",
        tuple(
            Query(f'max(kafka_{name}{{job="kafka"}})', legend)
            for name, legend in (
                ("under_replicated_partitions", "lack a copy"),
                ("under_min_isr_partitions", "are not written"),
                ("offline_partitions", "without a leader"),
                ("late_transaction_partitions", "with a late transaction"),
            )
        ),
    ),
    Panel(
        "Kafka: bytes on disk, by node",
        "bytes",
        (Query('sum by (instance) (kafka_log_bytes{job="kafka"})', "{{instance}}"),),
    ),
    Panel(
        "Kafka: time of requests (99th percentile)",
        "s",
        (Query('max by (request) (kafka_request_seconds{job="kafka"})', "{{request}}"),),
    ),
    Panel(
        "Object store: drives that are away, share that is free",
        "none",
        (
            Query('max(minio_cluster_drive_offline_total{job="minio"})', "drives away"),
            Query(
                'min(minio_cluster_capacity_usable_free_bytes{job="minio"}'
                ' / minio_cluster_capacity_usable_total_bytes{job="minio"})',
                "free",
            ),
        ),
    ),
    Panel(
        "Spark operator: submissions within an hour, applications that run",
        "none",
        (
            Query(
                'sum by (application) (increase(spark_application_submit_count{job="spark-operator"}[1h]))',
                "{{application}} submissions",
            ),
            Query(
                'sum by (application) (spark_application_running_count{job="spark-operator"})',
                "{{application}} runs",
            ),
        ),
    ),
)


def to_json() -> str:
    """Return the dashboard as Grafana imports it, or finds it in a ConfigMap."""
    made = {
        "uid": "effectively-once",
        "title": "effectively-once",
        "tags": ["effectively-once"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": _variables()},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }
    return json.dumps(made, indent=2) + "\n"


def _variables() -> list[dict[str, Any]]:
    names = "label_values(effectively_once_generation, pipeline)"
    every = {"includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}
    chosen = {"refresh": 2, "multi": True, **every}
    return [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {"name": "pipeline", "type": "query", "datasource": SOURCE, "query": names, "definition": names, **chosen},
    ]


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    across = COLUMNS // WIDTH
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": number % across * WIDTH, "y": number // across * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for place, query in enumerate(panel.queries)
        ],
    }
