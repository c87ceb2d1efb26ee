"""Files of a run that is made by hand: lines, documents, bytes of messages, and the schemas of its sinks."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from effectively_once.ledger import digest

Row = dict[str, Any]
WINDOW_MS, LATENESS_MS, SHARDS = 60_000, 120_000, 2
FIELDS = ("id", "user", "event_time_ms", "payload", "crc")


def _schema(kind: str, fields: str, **more: Any) -> Row:
    """A sink's schema: `fields` are names with their types."""
    return {"kind": kind, **more, "fields": dict(one.split(" ", 1) for one in fields.split(", "))}


SCHEMAS: dict[str, Row] = {
    "accepted": _schema(
        "kafka",
        "id text, event_time_ms integer, user text, payload text or null, crc integer or null, "
        "epoch integer, source source",
        **{"key": "user", "shard_by": ["id"], "order": ["source"]},
    ),
    "dead_letter": _schema(
        "kafka",
        "reason text, id text or null, value text, encoding text, epoch integer, source source",
        **{"shard_by": ["id", "source"], "order": ["source"]},
    ),
    "user_counts": _schema(
        "kafka",
        "user text, window_start_ms integer, count integer, epoch integer",
        **{"key": "user", "shard_by": ["user"], "order": ["window_start_ms", "user"]},
    ),
    "global_counts": _schema("files", "window_start_ms integer, count integer, epoch integer"),
}


def write_lines(path: Path, rows: list[Row], *, end: bool = True) -> None:
    """Write JSON lines, with the end line for evidence that has one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [*rows, {"end": True, "rows": len(rows)}] if end else rows
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write one JSON document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def wire(fields: Row) -> bytes:
    """Bytes of a record or message: compact JSON in UTF-8."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def raw(content: bytes) -> Row:
    """As dead letters and the sender write raw bytes down."""
    try:
        return {"value": content.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"value": base64.b64encode(content).decode(), "encoding": "base64"}


def id_digest(ids: list[tuple[str, int]]) -> str:
    """Digest of an `ids` delta: ids and event times."""
    return digest.of_rows_in(pa.table({"id": [one for one, _ in ids], "event_time_ms": [time for _, time in ids]}))
