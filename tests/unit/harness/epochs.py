"""Records of epochs, as a chain that is judged holds them."""

from __future__ import annotations

from typing import Any

from tests.harness.evidence import EpochRecord

COUNTS = ("in", "accepted", "duplicate", "late", "malformed")


def record_of(number: int, watermark_ms: int | None = None, **fields: Any) -> EpochRecord:
    """An epoch that read nothing, or what its fields say."""
    told: dict[str, Any] = {
        "epoch": number,
        "generation": 1,
        "ranges": {},
        "topic_ids": {},
        "watermark_ms": watermark_ms,
        "shards": 1,
        "settings_digest": "",
        "counts": dict.fromkeys(COUNTS, 0),
        "max_event_time_ms": None,
    }
    return EpochRecord.model_validate({**told, **fields})
