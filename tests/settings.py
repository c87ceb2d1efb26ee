"""Settings of a pipeline for tests that need some; no server has these addresses."""

from __future__ import annotations

from typing import Any

from effectively_once.pipeline.settings import PipelineSettings

JOB = "effectively_once_jobs.user_counts"
REQUIRED: dict[str, Any] = {
    "pipeline": "clicks",
    "topic": "events",
    "kafka_bootstrap": "localhost:1",
    "s3_endpoint": "http://localhost:1",
    "s3_bucket": "data",
    "job": JOB,
}
"""Every field that has no default."""


def pipeline_settings(**changes: Any) -> PipelineSettings:
    """Return settings of the job of user counts, but for the changes."""
    return PipelineSettings(**{**REQUIRED, **changes})
