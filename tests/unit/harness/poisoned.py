"""A run directory of a user's file, made up like that of `fabricate`: what the demo does with INPUT=."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.harness.subject import Subject
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import closers, settler
from tests.unit.harness.fabricate import Simulation
from tests.unit.harness.fabricated_drivers import GIT
from tests.unit.harness.fabricated_files import FIELDS, WINDOW_MS, Row, raw
from tests.unit.harness.tamper import bind, change_json, watch

FAULTS = {3: "executor", 6: "driver"}


class _OfFile(Simulation):
    """A run of a file; `settled`: whether its epilogue begins once all is closed that its last records end."""

    def __init__(self, run: Path, subject: Subject, *, settled: bool) -> None:
        super().__init__(run, 7)
        self.subject, self.settled, self.lateness_ms = subject, settled, subject.lateness_ms

    def play_file(self) -> None:
        """Send all of it under two kills; then the epilogue, as tests/harness/epilogue.py has it."""
        self._start()
        self._tell("phase", phase="warm-up", git=GIT)
        self._tell("phase", phase="steady")
        records = list(self.subject.records())
        for number, portion in enumerate(_portions(records, self.subject.epoch_rows_max)):
            self._send_all(portion, FAULTS.get(number))
        self._tell("phase", phase="drain")
        latest = max(one.event_time_ms or 0 for one in records if one.moves_watermark)
        last = closers(latest, len(records) + 1, self.subject.window_ms, self.subject.lateness_ms)
        settle = partial(self._send_all, [settler(latest, len(records))]) if self.settled else None
        self._finish(lambda _: -len(records) // 10, lambda number: self._send_all([last[number]]), settle)

    def _send_all(self, records: list[Planned], fault: str | None = None) -> None:
        for one in records:
            self._send(_row(one), one.kind)
        self._epoch(fault=fault)


def run_of(run: Path, subject: Subject, *, settled: bool = True) -> Path:
    """Write a run of a file, with its own lateness."""
    assert subject.window_ms == WINDOW_MS
    _OfFile(run, subject, settled=settled).play_file()
    change_json(run / "manifest.json", lambda manifest: manifest["workload"].update(kind="file"))
    return bind(watch(run))


def _portions(records: list[Planned], length: int) -> Iterator[list[Planned]]:
    return (records[first : first + length] for first in range(0, len(records), length))


def _row(one: Planned) -> Row:
    row: Row = {name: getattr(one, name) for name in (*FIELDS, "reason")}
    return row if one.reason is None else {**row, **raw(one.value)}
