"""A run directory as a drill without surprises leaves it, made by hand; tests damage it."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

from tests.experiments.drill.claims import REFUSED, STARTS
from tests.experiments.drill.figures import ACCEPTED, AFTER, USER_COUNTS, WINDOW_MS, Facts
from tests.experiments.drill.plan import CLUSTER, PARTS, Plan
from tests.experiments.fabricate import Rows, manifest, sends, write_observed, write_sent
from tests.experiments.figures import FACTS
from tests.harness.run_directory import RunDirectory

PLAN = Plan(7, pace=10)
PARTITIONS, NUMBER, RECORDED, DESTROYED = 2, 600, 300, 450
"""Records of a part: all, those that the backup has, those that were sent before the destruction."""
MS = 10
"""From one record to the next."""


def fabricate_run(path: Path) -> Path:
    """Make a run with all parts; returns its folder."""
    manifest(path, "drill", "make drill SEED=7", PLAN)
    for part in PARTS:
        _part(RunDirectory(path / part), part)
    return path


def _part(run: RunDirectory, part: str) -> None:
    rows = [*sends(islice(PLAN.stream(), NUMBER), PARTITIONS)]
    for row in rows:
        row["sent_at"] = MS * row["n"]
    recorded, before, later = rows[:RECORDED], rows[:DESTROYED], rows[DESTROYED:]
    if part == CLUSTER:
        # Windows are closed behind the last record that epochs had.
        closed = max(row["event_time_ms"] for row in recorded) - WINDOW_MS
        _show(run, recorded, before, closed)
        after = RunDirectory(run.path / AFTER)
        for row in later:
            row["offset"] -= DESTROYED // PARTITIONS
        write_sent(after, later)
        _show(after, later, later, None)
        write_sent(run, before)
    else:
        write_sent(run, rows)
        _show(run, rows, rows, None)
    with run.history() as history:
        history.end()
    facts = Facts(
        part=part,
        load=(0.1, 0.2),
        taken_ms=MS * RECORDED,
        recorded=5,
        ends={str(p): 1 + max(row["offset"] for row in recorded if row["partition"] == p) for p in range(PARTITIONS)},
        copied={ACCEPTED: len({row["id"] for row in recorded})},
        published=8,
        destroyed_ms=MS * DESTROYED,
        stopped_ms=MS * DESTROYED + 1_000,
        restored_ms=MS * DESTROYED + 3_500,
        first_ms=MS * DESTROYED + 9_500,
        code=REFUSED if part == CLUSTER else STARTS,
        says="start: a driver would start",
        renamed=part == CLUSTER,
    )
    run.write_json(run.path / FACTS, facts)


def _show(run: RunDirectory, accepted: Rows, sent: Rows, closed_ms: int | None) -> None:
    """Show each id once, and the counts of windows: all, or those that had ended by then."""
    ids = dict.fromkeys(row["id"] for row in accepted)
    write_observed(run, ACCEPTED, [{"id": one} for one in ids])
    first = {row["id"]: (row["user"], row["event_time_ms"] // WINDOW_MS * WINDOW_MS) for row in sent}
    counts = Counter(first.values())
    rows = [
        {"user": user, "window_start_ms": at, "count": number}
        for (user, at), number in counts.items()
        if closed_ms is None or at + WINDOW_MS <= closed_ms
    ]
    write_observed(run, USER_COUNTS, rows)
