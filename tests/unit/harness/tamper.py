"""Ways to tamper with a run directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.harness.fabricate import Row, write_json, write_lines


def lines_of(path: Path) -> list[Row]:
    """Rows of a file, without its end line."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if "end" not in row]


def change_lines(path: Path, change: Callable[[list[Row]], Any]) -> None:
    """Change the rows of a file in place and keep its end line true."""
    ended = '"end"' in path.read_text(encoding="utf-8").splitlines()[-1]
    rows = lines_of(path)
    change(rows)
    write_lines(path, rows, end=ended)


def change_json(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON document in place."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    write_json(path, document)


def name_of(row: Row) -> str:
    """How evidence names an observed row."""
    if row["sink"] == "user_counts":
        return f"user {row['user']} window {row['window_start_ms']}"
    if row["sink"] == "global_counts":
        return f"window {row['window_start_ms']}"
    topic, partition, offset = row["source"]
    return f"id {row['id']} from {topic}/{partition}@{offset}"
