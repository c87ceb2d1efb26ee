"""A run directory of a reconciliation as a play without surprises leaves it, made by hand; tests damage it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from effectively_once_jobs.reconcile.difference import Cell
from tests.experiments.fabricate import manifest, write, write_observed, write_sent
from tests.experiments.fabricate import sends as sent_rows
from tests.experiments.reconcile.figures import BATCH, CELLS, DEAD_LETTER, REPORT
from tests.experiments.reconcile.plan import AT_LEAST_ONCE, EXACTLY_ONCE, Plan
from tests.harness.run_directory import RunDirectory
from tests.harness.workload.record import Planned, window_end
from tests.harness.workload.seeded import closers

PLAN = Plan(7, records=1_000, kills=2)
OWN, BESIDE = "reconcile_exactly_once.user_counts", "reconcile_at_least_once.user_counts"
AGAIN = slice(100, 140)
"""Places of records that a repeat of the second stream counted again."""
PARTITIONS = 4
Row = dict[str, Any]


@dataclass
class Made:
    """What is written; a test changes it before.

    Attributes:
        sends: rows of `sent.jsonl`.
        cells: by key and window.
        epochs: publications of the first stream.
        hits: kills that hit, of each stream.

    """

    sends: list[Row]
    cells: dict[tuple[str, int], Cell]
    epochs: list[Row]
    dead: list[Row]
    hits: dict[str, int] = field(default_factory=lambda: dict.fromkeys((EXACTLY_ONCE, AT_LEAST_ONCE), PLAN.kills))
    repeats: dict[str, int] = field(default_factory=lambda: dict.fromkeys((EXACTLY_ONCE, AT_LEAST_ONCE), 1))

    def again(self, times: int) -> None:
        """Have a repeat of the second stream count something again; 0 for nothing."""
        for at, cell in self.cells.items():
            once = cell.timely + cell.late + cell.copies
            counted = cell.streams[BESIDE] - once
            self.cells[at] = replace(cell, streams={**cell.streams, BESIDE: once + times * counted})


def play() -> Made:
    """Play it in plain Python."""
    sends = sent_rows(_records(), PARTITIONS)
    lates = [row for row in sends if row["kind"] == "late"]
    malformed = [row for row in sends if row["kind"] == "malformed"]
    copies = [row for row in sends if row["kind"] == "duplicate"]
    accepted = len(sends) - len(lates) - len(malformed) - len(copies)
    whole = {"accepted": accepted, "late": len(lates), "duplicate": len(copies), "malformed": len(malformed)}
    first = {name: number // 2 for name, number in whole.items()}
    epochs = [first, {name: number - first[name] for name, number in whole.items()}]
    dead = [
        {"reason": "late" if row["kind"] == "late" else row["reason"], "source": _place(row)}
        for row in (*lates, *malformed)
    ]
    told = [{"epoch": number, "in": sum(parts.values()), **parts} for number, parts in enumerate(epochs)]
    return Made(sends, _cells(sends), told, dead)


def write_run(path: Path, what: Made) -> Path:
    """Write it as a run; returns its folder."""
    run = RunDirectory(path)
    manifest(path, "reconcile", "make reconcile SEED=7", PLAN)
    write_sent(run, what.sends)
    write_observed(RunDirectory(path / EXACTLY_ONCE), DEAD_LETTER, what.dead)
    for name in (EXACTLY_ONCE, AT_LEAST_ONCE):
        _history(RunDirectory(path / name), what, name)
    batch = RunDirectory(path / BATCH)
    batch.write_json(batch.path / REPORT, {"closed_by_ms": _closed_by_ms(what.sends), "lines": {OWN: [], BESIDE: []}})
    write(batch.path / CELLS, [*map(asdict, what.cells.values()), {"end": True, "rows": len(what.cells)}])
    return path


def _history(run: RunDirectory, what: Made, name: str) -> None:
    with run.history() as history:
        for epoch in what.epochs:
            # How often it is declared: once more than it is repeated.
            for _ in range(1 + what.repeats[name] * (epoch["epoch"] == 1)):
                history.record("epoch", epoch=epoch["epoch"], state="declared")
            fields = epoch if name == EXACTLY_ONCE else {"epoch": epoch["epoch"], "reached": epoch["in"]}
            history.record("epoch", state="published", **fields)
        for number in range(PLAN.kills):
            history.record("fault", hit=number < what.hits[name], recovered_s=1.5)
        history.end()


def _records() -> Iterator[Planned]:
    subject = PLAN.subject
    latest, sent = 0, 0
    for record in subject.records():
        yield record
        sent += 1
        latest = max(latest, record.event_time_ms or 0)
    for attempt in PLAN.attempts(latest, sent):
        yield attempt.setter
        yield attempt.record
        latest = attempt.setter.event_time_ms or 0
    yield from closers(latest, sent + 6, subject.window_ms, subject.lateness_ms)


def _cells(sends: Iterable[Row]) -> dict[tuple[str, int], Cell]:
    subject = PLAN.subject
    bound = _closed_by_ms(sends := list(sends))
    numbers: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    seen: set[str] = set()
    good = [row for row in sends if row["reason"] is None]
    for at, row in enumerate(good):
        end = window_end(row["event_time_ms"], subject.window_ms)
        if end + subject.lateness_ms > bound:
            continue
        of = numbers[row["user"], end - subject.window_ms]
        of["copies" if row["id"] in seen else "late" if row["kind"] == "late" else "timely"] += 1
        seen.add(row["id"])
        of["again"] += at in range(AGAIN.start, AGAIN.stop)
    return {
        (user, start): Cell(
            user,
            start,
            "count",
            of["timely"],
            of["late"],
            of["copies"],
            {OWN: of["timely"], BESIDE: of["timely"] + of["late"] + of["copies"] + of["again"]},
        )
        for (user, start), of in numbers.items()
    }


def _closed_by_ms(sends: Iterable[Row]) -> int:
    return max(int(row["event_time_ms"]) for row in sends if row["kind"] == "closer")


def _place(row: Row) -> list[Any]:
    return [row["topic"], row["partition"], row["offset"]]
