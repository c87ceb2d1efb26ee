"""Files that are made: schema and values of each chart, what charts share, the table of flows, the dashboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic.fields import FieldInfo

from infra.values import dashboard
from infra.values.common import Values
from infra.values.flows import with_table
from infra.values.history_server import HistoryServerValues
from infra.values.kafka import KafkaValues
from infra.values.minio import MinioValues
from infra.values.monitoring import MonitoringValues
from infra.values.postgres import PostgresValues
from infra.values.spark_operator import SparkOperatorValues
from infra.values.streaming_pipeline import StreamingPipelineValues

CHARTS: Final = Path(__file__).resolve().parents[2] / "charts"
MODELS: Final[dict[str, type[Values]]] = {
    "kafka": KafkaValues,
    "minio": MinioValues,
    "postgres": PostgresValues,
    "spark-operator": SparkOperatorValues,
    "history-server": HistoryServerValues,
    "monitoring": MonitoringValues,
    "streaming-pipeline": StreamingPipelineValues,
}
FLOWS: Final = "docs/how-to/network-policies.md"
SHARED: Final = {"network.tpl": tuple(MODELS), "clients.tpl": ("history-server", "streaming-pipeline")}
"""Template -> charts that have it. Helm has no way to share one but a chart in a chart; links are followed with a
warning each.
"""
NOTE = "# Made by `python -m infra.values` from infra/values. These have no default: {}.\n"


def schema(model: type[Values]) -> dict[str, Any]:
    """Return the JSON schema of a chart's values."""
    made = model.model_json_schema(by_alias=True)
    # Helm hands every chart this name, used or not.
    made["properties"]["global"] = {"type": "object"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def defaults(model: type[Values]) -> dict[str, Any]:
    """Return what a chart's values are where nothing else is said; fields without a default are missing."""
    found: dict[str, Any] = {}
    for field in model.model_fields.values():
        if not field.is_required():
            value = _plain(field)
            if value is not None:
                found[str(field.alias)] = value
    return found


def generate(charts: Path) -> dict[Path, str]:
    """Return the text of every file that is made, by path."""
    page = charts.parent / FLOWS
    files = {page: with_table(page.read_text()), charts / dashboard.FILE: dashboard.to_json()}
    for name, model in MODELS.items():
        needed = [str(field.alias) for field in model.model_fields.values() if field.is_required()]
        files[charts / name / "values.schema.json"] = json.dumps(schema(model), indent=2) + "\n"
        files[charts / name / "values.yaml"] = NOTE.format(", ".join(needed)) + yaml.safe_dump(
            defaults(model), sort_keys=False
        )
    for shared, users in SHARED.items():
        text = Path(__file__).with_name(shared).read_text()
        files |= {charts / name / "templates" / f"_{shared}": text for name in users}
    return files


def _plain(field: FieldInfo) -> Any:
    value = field.get_default(call_default_factory=True)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return list(value) if isinstance(value, tuple) else value
