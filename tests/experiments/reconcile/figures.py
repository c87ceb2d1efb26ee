"""Figures of a reconciliation, computed from the evidence of its run and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from effectively_once_jobs.reconcile.difference import Cell, lines, total
from tests.experiments import figures as shared
from tests.experiments.figures import Model, faults_in
from tests.experiments.reconcile import left
from tests.experiments.reconcile.plan import ALONE, AT_LEAST_ONCE, EXACTLY_ONCE, Plan
from tests.harness.checkers import adding_up
from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import RunDirectory, read_lines
from tests.harness.workload.record import window_end

BATCH, CELLS, REPORT, DEAD_LETTER = "batch", "cells.jsonl", "report.json", "dead_letter"


class Window(Model):
    """One window of one stream beside the batch run; see effectively_once_jobs.reconcile.difference.Line."""

    window_start_ms: int
    value: str
    stream: int
    batch: int
    late: int
    over: int
    under: int
    copies: int
    wrong: int
    difference: int


class Attempted(Model):
    """What became of a record at the bound of lateness."""

    distance_ms: int
    became: str


class Stream(Model):
    """One stream.

    Attributes:
        windows: those that were closed, in order.
        whole: all of them together.
        kills_hit: of the planned ones.
        repeated: publications of an epoch or batch after a failure.
        recovered_s: from each kill to the next epoch that was published.

    """

    name: str
    windows: list[Window]
    whole: Window
    kills_hit: int
    repeated: int
    recovered_s: list[float]

    @property
    def added_again(self) -> int:
        """What is counted beyond the copies that the topic holds: a repeat did that."""
        return self.whole.over - self.whole.copies


class Figures(shared.Figures):
    """All of it.

    Attributes:
        streams: by name.
        records: what became of all records by the exactly-once stream: in, accepted, late, duplicate, malformed.
        complaints: sums of these that are off.
        batch_wrong: keys and windows of which the batch run has another count than what was acknowledged comes to.
        late_sent: records that were sent too late.
        late_otherwise: those that were not refused as late, and others that were.
        attempts: at the bound of lateness.

    """

    streams: dict[str, Stream]
    acknowledged: int
    records: dict[str, int]
    complaints: list[str]
    batch_wrong: int
    late_sent: int
    late_otherwise: int
    attempts: list[Attempted]


def figures(path: Path, plan: Plan, _: str) -> list[Figures]:
    """Compute them, from the folder of a run.

    Raises:
        EvidenceError: evidence is missing or damaged.

    """
    run = RunDirectory(path)
    sends = list(read_lines(run.sent_path))
    report, cells = left.report(path / BATCH / REPORT), left.cells(path / BATCH / CELLS)
    own, *beside = report["lines"]
    if len(beside) != 1:
        raise EvidenceError(
            f"{len(beside)} streams were held beside the first, due is 1", path / BATCH / REPORT, left.TODO
        )
    exactly = RunDirectory(path / EXACTLY_ONCE)
    events = exactly.whole_events()
    others = RunDirectory(path / AT_LEAST_ONCE).whole_events()
    dead = list(exactly.rows(DEAD_LETTER))
    late_sent = {_place(row) for row in sends if row["kind"] == "late"}
    refused = {tuple(row["source"]) for row in dead if row["reason"] == adding_up.LATE}
    found = Figures(
        streams={
            EXACTLY_ONCE: _stream(EXACTLY_ONCE, cells, own, events, refuses_late=True),
            AT_LEAST_ONCE: _stream(AT_LEAST_ONCE, cells, beside[0], others, refuses_late=False),
        },
        acknowledged=len(sends),
        records=dict(adding_up.sums(adding_up.published_epochs(events))),
        complaints=adding_up.complaints(adding_up.published_epochs(events), len(sends), dead),
        batch_wrong=batch_wrong(cells, sends, plan, report["closed_by_ms"]),
        late_sent=len(late_sent),
        late_otherwise=len(late_sent ^ refused),
        attempts=_attempts(sends, refused),
    )
    return [found]


def batch_wrong(cells: Iterable[Cell], sends: Iterable[Mapping[str, Any]], plan: Plan, closed_by_ms: int) -> int:
    """Count keys and windows where the batch run is not what was acknowledged comes to: each id once, late or not."""
    subject = plan.subject
    due: Counter[tuple[str, int]] = Counter()
    seen: set[str] = set()
    for row in sends:
        if row["reason"] is not None or row["id"] in seen:
            continue
        seen.add(row["id"])
        end = window_end(row["event_time_ms"], subject.window_ms)
        if end + subject.lateness_ms <= closed_by_ms:
            due[row["user"], end - subject.window_ms] += 1
    found: Counter[tuple[str, int]] = Counter()
    for cell in cells:
        found[cell.key, cell.window_start_ms] += cell.timely + cell.late
    return sum(due[at] != found[at] for at in due.keys() | found.keys())


def _stream(
    name: str, cells: Sequence[Cell], topic: str, events: Sequence[Mapping[str, Any]], *, refuses_late: bool
) -> Stream:
    found = lines(cells, topic, refuses_late=refuses_late)
    faults = faults_in(events)
    declared = [one["epoch"] for one in events if one["event"] == "epoch" and one.get("state") == "declared"]
    return Stream(
        name=name,
        windows=[Window(**asdict(one), difference=one.difference) for one in found],
        whole=Window(**asdict(total(found)), difference=total(found).difference),
        kills_hit=sum(one["hit"] for one in faults),
        repeated=len(declared) - len({*declared}),
        recovered_s=[one["recovered_s"] for one in faults],
    )


def _attempts(sends: Iterable[Mapping[str, Any]], refused: set[tuple[Any, ...]]) -> list[Attempted]:
    """Tell of the records at the bound; the one that has a number in its id."""
    return [
        Attempted(
            distance_ms=int(row["id"].removeprefix("bound")),
            became=adding_up.LATE if _place(row) in refused else adding_up.ON_TIME,
        )
        for row in sends
        if row["user"] == ALONE and row["id"].startswith("bound")
    ]


def _place(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]
