"""The tables of fusion and combiner lifting: pure functions of the samples that were kept."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from tests.bench import event_log, table
from tests.bench.facts import spread

Sample = dict[str, Any]
QUERY, EPOCH = "query", "epoch"
HEADING = (
    "variant",
    "stages",
    "bytes shuffled",
    "records shuffled",
    "bytes a record read",
    "rows/s, median (from, to)",
    "CPU of tasks, s",
)
AS_IS, FUSION, COMBINER = "as it is", "not fused", "not combined"


def text(samples: Sequence[Sample], records: int) -> tuple[str, dict[str, list[float]]]:
    """Return tables in Markdown, and rows per second by what they are of."""
    parts, figures = [], {}
    for part, users in dict.fromkeys((one["part"], one["users"]) for one in samples):
        mine = [one for one in samples if (one["part"], one["users"]) == (part, users)]
        parts.append(_section(part, users, mine, records))
        for arm, found in _by_arm(mine).items():
            figures[f"{part}, {users:,} users, {arm}"] = [float(one["rows_per_s"]) for one in found]
    return "\n\n".join(parts), figures


def plans(samples: Sequence[Sample]) -> str:
    """Write the plan of each variant in its first round; plans do not depend on the number of users."""
    found = {(one["part"], one["arm"]): one["plan"] for one in reversed(samples) if "plan" in one}
    told = [f"## {part}, {arm}\n\n```\n{event_log.draw(plan)}\n```" for (part, arm), plan in sorted(found.items())]
    return "\n\n".join(["# Plans, from Spark's event log", *told])


def divide_by_round(ours: Sequence[Sample], theirs: Sequence[Sample], what: str) -> str:
    """Divide round by round: what made a round slow made both slow."""
    others = {one["round"]: one[what] for one in theirs}
    ratios = [one[what] / others[one["round"]] for one in ours if one["round"] in others]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _section(part: str, users: int, samples: Sequence[Sample], records: int) -> str:
    arms = _by_arm(samples)
    rows = [[arm, *_row(found, records)] for arm, found in arms.items()]
    title = {QUERY: "S1 as a query", EPOCH: "S1 as the pipeline, exactly once, sum of its epochs"}[part]
    rounds = min(map(len, arms.values()))
    lines = [
        f"{title}: {records:,} events of {users:,} users, {rounds} round{'s' if rounds > 1 else ''}",
        "",
        table.table(HEADING, rows),
        "",
    ]
    for name, arm in (("fusion", FUSION), ("combiner lifting", COMBINER)):
        if arm in arms:
            speed, cpu = (divide_by_round(arms[AS_IS], arms[arm], what) for what in ("rows_per_s", "cpu_s"))
            moved = divide_by_round(arms[arm], arms[AS_IS], "shuffled_bytes")
            lines.append(
                f"{name}, on / off by pairs of one round: rows/s {speed}, CPU {cpu}; bytes shuffled off / on {moved}"
            )
    loads = [one["load_before"] for one in samples]
    return "\n".join([*lines, f"load of the machine before a sample: {min(loads):.0f} to {max(loads):.0f}"])


def _row(found: Sequence[Sample], records: int) -> list[str]:
    size, moved = (statistics.median(one[what] for one in found) for what in ("shuffled_bytes", "shuffled_records"))
    return [
        str(found[0]["stages"]),
        f"{size:,.0f}",
        f"{moved:,.0f}",
        f"{size / records:,.2f}",
        spread([one["rows_per_s"] for one in found]),
        spread([one["cpu_s"] for one in found], 1),
    ]


def _by_arm(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for one in sorted(samples, key=lambda one: one["round"]):
        found.setdefault(one["arm"], []).append(one)
    # The order of the first section, whichever arm was first in a round.
    return {arm: found[arm] for arm in sorted(found, key=lambda arm: (arm != AS_IS, len(arm), arm))}
