"""Who exports which metrics: of drivers as they are, of servers as their versions of today answered."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from effectively_once.driver.metrics import LOOKUPS, PREFIX, WARNINGS, Metrics
from infra.values.generate import CHARTS
from tests.unit.ledger.samples import declaration, record_of

OF_STORE = frozenset(
    {
        "minio_cluster_capacity_usable_free_bytes",
        "minio_cluster_capacity_usable_total_bytes",
        "minio_cluster_drive_offline_total",
        "minio_cluster_drive_online_total",
        "minio_cluster_drive_total",
        "minio_cluster_health_status",
        "minio_cluster_nodes_offline_total",
        "minio_cluster_nodes_online_total",
        "minio_cluster_write_quorum",
        "minio_s3_requests_rejected_auth_total",
        "minio_s3_requests_waiting_total",
    }
)
"""Of what the wrapper's MinIO answered at /minio/v2/metrics/cluster on 2026-11-27."""
OF_OPERATOR = frozenset(
    {
        "spark_application_count",
        "spark_application_failed_submission_count",
        "spark_application_failure_count",
        "spark_application_running_count",
        "spark_application_submit_count",
        "spark_application_success_count",
    }
)
"""As operator 2.5.2 has them (pkg/common/metrics.go)."""
OF_KAFKA = frozenset(
    rule["name"] for rule in yaml.safe_load((CHARTS / "kafka" / "files" / "metrics.yaml").read_text())["rules"]
)
"""As the agent names beans; `tests/stack/test_kafka_metrics.py` asks a broker for all of them."""
OF_SERVERS = OF_STORE | OF_OPERATOR | OF_KAFKA
_NAME = re.compile(rf"\b(?:{PREFIX}|kafka_|minio_|spark_application_)[a-z0-9_]+\b")


@dataclass(frozen=True)
class Metric:
    """What a driver exports under a name; labels without `pipeline`, which all have."""

    kind: str
    labels: tuple[str, ...]
    says: str


def find_names(text: str) -> set[str]:
    """Return the metrics that a text names."""
    return {*_NAME.findall(text)}


def fed() -> Metrics:
    """Return the metrics of a driver that has told everything."""
    metrics = Metrics("uc")
    catalog = {**dict.fromkeys(LOOKUPS, 1), "expired": 1, "live": 1, "bytes": 1}
    record = record_of(declaration(4)).model_copy(update={"catalog": catalog, "filtered": {"bot": 1}})
    metrics.count_epoch(record, {"ids": 1, "total": 1}, {"late": 1}, repeat=False)
    metrics.show_warnings(WARNINGS)
    metrics.show_unread("events", {"0": (1, 1)})
    metrics.show_degraded(0)
    metrics.show_input(1, 1)
    metrics.show_certificate("kafka:9092", 1)
    return metrics


def of_drivers(metrics: Metrics | None = None) -> dict[str, Metric]:
    """Return what a driver exports by name, counters and histograms with the endings of their samples."""
    found: dict[str, Metric] = {}
    for family in (metrics or fed()).registry.collect():
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                labels = tuple(sorted(sample.labels.keys() - {"pipeline", "le"}))
                found[sample.name] = Metric(family.type, labels, family.documentation)
    return found
