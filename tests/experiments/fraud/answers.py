"""What the presenter answered, against the tables, and how the result store was meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

UP, DOWN, BACK = "up", "down", "back"
"""How the result store was when the presenter was asked; back: killed before, and there again just afterwards."""
Row = Mapping[str, Any]


def count(asked: Sequence[Row]) -> dict[str, int]:
    """Answers by status and by how the store was."""
    return dict(sorted(Counter(f"{one['status']}, store {one['store']}" for one in asked).items()))


def wrong(asked: Sequence[Row], decisions: Sequence[Row], refusals: Sequence[Row]) -> Iterator[str]:
    """Where the presenter did not answer what the tables hold."""
    decided = {row["id"]: row for row in decisions}
    refused = {row["id"] for row in refusals if row["id"]}
    for one in asked:
        row = decided.get(one["id"])
        if one["store"] == BACK and one["status"] == 503:
            continue
        due_status = (
            503
            if one["store"] == DOWN
            else 400
            if "%" in one["id"]
            else 200
            if row is not None or one["id"] in refused
            else 404
        )
        if one["status"] != due_status:
            yield f"the presenter answered {one['status']} and not {due_status} about {one['id']}"
        elif due_status == 200 and row is not None and one["document"]["outcome"] != row["outcome"]:
            yield f"the presenter answered {one['document']['outcome']} about {one['id']}, which is {row['outcome']}"
