"""Names of the negative controls; each is a job in `job.py`."""

from __future__ import annotations

CONTROLS = ("spark_kafka_sink", "append_without_mark")
