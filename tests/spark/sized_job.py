"""A job whose sinks take less than its input may become: for tests alone."""

from __future__ import annotations

from dataclasses import replace

from effectively_once import ToKafka
from effectively_once.pipeline.sinks import RECORD_BYTES
from effectively_once_jobs.user_counts import pipeline as user_counts

rows = (ToKafka("accepted"), ToKafka("keyed", key="user", message_bytes_max=RECORD_BYTES))
pipeline = replace(user_counts, rows=rows)
"""Two topics with rows: the first is visible before the second is written."""
