"""A run directory of a comparison as a play without surprises leaves it, made by hand; tests damage it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from effectively_once_jobs.system_usage.settings import (
    ACKNOWLEDGED,
    ALL,
    AT_MOST_ONCE,
    CHECKPOINTED,
    EXACTLY_ONCE,
    Semantics,
)
from tests.experiments.compare.figures import ASKED, COUNTED, USAGE, Counts, Facts
from tests.experiments.compare.plan import BURST, CALM, STRUCK, Plan
from tests.experiments.fabricate import Rows, manifest, write_observed, write_sent
from tests.experiments.fabricate import sends as sent_rows
from tests.experiments.figures import FACTS
from tests.harness.run_directory import RunDirectory

PLAN = Plan(7, rate=0.01, kills=1, driver_kills=0, warm_up=20, burst=100, calm=100, struck=1_000, pace=100)
PARTITIONS = 2
Damage = Callable[[Semantics, Rows], Rows]
"""Changes the rows of the table of counted events of one semantics."""
STRUCK_ONES = slice(300, 340)
"""Places of events that a failure concerned, all of the struck part."""


def no_damage(_: Semantics, rows: Rows) -> Rows:
    """Leave them as they are."""
    return rows


def fabricate_run(path: Path, damage: Damage = no_damage, kills_hit: int = 1) -> Path:
    """Make a run with all four; returns its folder."""
    manifest(path, "compare", "make compare SEED=7", PLAN)
    for semantics in ALL:
        _arm(RunDirectory(path / semantics), semantics, damage, kills_hit)
    return path


def _arm(run: RunDirectory, semantics: Semantics, damage: Damage, kills_hit: int) -> None:
    sends = [{**row, "sent_at": 1_000 + 10 * row["n"]} for row in sent_rows(PLAN.stream(), PARTITIONS)]
    rows = damage(semantics, _count(semantics, [row for row in sends if row["kind"] == "fresh"]))
    write_sent(run, sends)
    write_observed(run, COUNTED, rows)
    start_ms = {row["id"]: row["event_time_ms"] // 60_000 * 60_000 for row in sends if row["event_time_ms"]}
    windows = Counter(start_ms.get(row["id"], 0) for row in rows)
    frauds = Counter(start_ms.get(row["id"], 0) for row in rows if row["fraud"])
    usage = [
        {"window_start_ms": start, "transactions": number, "frauds": frauds[start]} for start, number in windows.items()
    ]
    write_observed(run, USAGE, usage)
    struck = {row["id"] for row in sends[STRUCK_ONES]}
    again = set() if semantics == AT_MOST_ONCE else struck
    asked = [{"id": row["id"], "times": 1 + (row["id"] in again)} for row in sends if row["id"]]
    write_observed(run, ASKED, asked)
    write_observed(run, "calls", [{"calls": 60, "failed": 2}])
    with run.history() as history:
        for epoch, t in enumerate((0, 10_000, 30_000)):
            history.record("epoch", t=t, epoch=epoch, state="declared")
            if semantics == EXACTLY_ONCE:
                read = sends[epoch::3]
                malformed = sum(row["kind"] == "malformed" for row in read)
                told = {"in": len(read), "accepted": len(read) - malformed, "malformed": malformed}
                history.record("epoch", t=t + 1, epoch=epoch, state="published", late=0, duplicate=0, **told)
        for number in range(PLAN.kills):
            history.record("fault", t=1, hit=number < kills_hit, recovered_s=1.5)
        history.end()
    run.write_json(
        run.path / FACTS,
        Facts(
            semantics=semantics,
            cpu_s={BURST: 1.0, CALM: 2.0, STRUCK: 3.0},
            object_store_bytes=2048,
            objects=3,
            tables_bytes=4096,
            load=(0.1, 2.0),
            state=_state(sends) if semantics == CHECKPOINTED else None,
        ),
    )


def _state(sends: Rows) -> Counts:
    ids = [row["id"] for row in sends if row["kind"] == "fresh"]
    return Counts(transactions=len(ids), frauds=sum(map(PLAN.is_fraud, ids)))


def _count(semantics: Semantics, sends: Rows) -> Rows:
    """Rows as each semantics leaves them: at most once lost some, at least once has some twice."""
    names = ("id", "user", "partition", "offset")
    rows = [
        {
            **{name: row[name] for name in names},
            "fraud": int(PLAN.is_fraud(row["id"])),
            "at_ms": row["sent_at"] + 500.0,
        }
        for row in sends
    ]
    struck = rows[STRUCK_ONES]
    before, after = rows[: STRUCK_ONES.start], rows[STRUCK_ONES.stop :]
    if semantics == AT_MOST_ONCE:
        return before + after
    if semantics == CHECKPOINTED:
        return before + struck + struck + after
    if semantics == ACKNOWLEDGED:
        late = [{**row, "at_ms": row["at_ms"] + 20_000} for row in struck]
        return before + after + late + late[:5]
    return rows
