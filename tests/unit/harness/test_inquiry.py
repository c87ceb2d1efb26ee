"""A run's product is asked while it goes on: which windows, what is kept of its answers, and what its log warned of."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from effectively_once.driver.metrics import Metrics
from effectively_once.ledger.clock import Clock
from tests.harness import asked, inquiry
from tests.harness.adapters.driver_metrics import ANY_PORT, gauges_in, read_metric
from tests.harness.asked import Certificate, Metric, Warned
from tests.harness.evidence import EvidenceError
from tests.harness.inquiry import Complete, Inquiry, document_in, find_closed, warnings_in
from tests.unit.ledger.samples import declaration, record_of

MINUTE = 60_000
WINDOWS = (MINUTE, 2 * MINUTE)
WARNS = {"source": "north", "time_ms": 7, "event": inquiry.WARNING, "level": "warning"}


def record(minutes: float | None, *released: str) -> dict[str, Any]:
    return {
        "watermark_ms": None if minutes is None else int(minutes * MINUTE),
        "clock": {"released": [*released]} if released else None,
    }


def test_windows_are_those_that_the_last_epochs_closed_the_newest_first() -> None:
    tail = [record(None), record(10.5), record(10.9), record(13.2, "north"), record(14, "north", "south")]
    assert [(start // MINUTE, gone) for start, gone in find_closed(tail, *WINDOWS)] == [
        (11, ("north", "south")),
        (10, ("north",)),
        (9, ("north",)),
        (8, ("north",)),
        (7, ()),
    ]
    assert [*find_closed([], *WINDOWS)] == [*find_closed(tail[:1], *WINDOWS)] == []


class Asking:
    """An inquiry in a run directory; what it asked for, and how it is answered."""

    def __init__(self, run: Path, tail: list[dict[str, Any]]) -> None:
        self.windows: list[int] = []
        self.answers = True
        self.metrics: list[Metric | None] = [None]
        (run / "logs").mkdir()
        self.inquiry = Inquiry(run, lambda: tail, self._ask, lambda: self.metrics[-1], WINDOWS)

    def _ask(self, window: int) -> Certificate:
        self.windows.append(window // MINUTE)
        return Certificate(1, window, 0, {"verdict": "complete"} if self.answers else None, "")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "ASK_S", 0.0)
    monkeypatch.setattr(inquiry, "LOOK_S", 10**6)


@pytest.mark.usefixtures("at_once")
def test_windows_closed_without_somebody_come_first_and_now_and_then_one_that_is_open(tmp_path: Path) -> None:
    tail = [record(9), record(11), record(13, "north")]
    one = Asking(tmp_path, tail)
    with one.inquiry:
        for _ in range(3):
            one.inquiry.look()
        tail += [record(14, "north"), record(16)]
        for _ in range(4):
            one.inquiry.look()
    # Closed without north, closed with everybody, the newest of the rest; the fourth is open.
    assert one.windows == [10, 8, 9, 14, 13, 12, 11]
    assert [each.window // MINUTE for each in asked.read(tmp_path).certificates] == one.windows


@pytest.mark.usefixtures("at_once")
def test_a_window_without_an_answer_is_asked_for_again(tmp_path: Path) -> None:
    one = Asking(tmp_path, [record(10), record(11)])
    one.answers = False
    with one.inquiry:
        one.inquiry.look()
        one.answers = True
        for _ in range(3):
            one.inquiry.look()
    assert one.windows == [8, 8]


def test_windows_are_asked_for_one_after_the_other_with_time_between(tmp_path: Path) -> None:
    one = Asking(tmp_path, [record(10), record(14)])
    with one.inquiry:
        one.inquiry.look()
        one.inquiry.look()
    assert len(one.windows) == 1


@pytest.mark.usefixtures("at_once")
def test_the_metric_is_noted_when_it_says_something_new(tmp_path: Path) -> None:
    one = Asking(tmp_path, [])
    with one.inquiry:
        for read in (None, Metric(1, 3, 0), Metric(2, 3, 0), Metric(3, 4, 0), None, Metric(4, 4, 1)):
            one.metrics.append(read)
            one.inquiry.look()
    assert asked.read(tmp_path).metrics == (Metric(1, 3, 0), Metric(3, 4, 0), Metric(4, 4, 1))


def test_what_drivers_warned_of_is_noted_at_the_end_also_of_one_that_was_killed(tmp_path: Path) -> None:
    one = Asking(tmp_path, [])
    with one.inquiry:
        lines = (json.dumps(WARNS), "WARNING: not json", json.dumps({**WARNS, "level": "info"}), json.dumps(WARNS)[:60])
        (tmp_path / "logs" / "driver-1.log").write_text("\n".join(lines))
        (tmp_path / "logs" / "driver-2.log").write_text(json.dumps({**WARNS, "time_ms": None}) + "\n")
    assert asked.read(tmp_path).warnings == (Warned("driver-1", "north", 7), Warned("driver-2", "north", None))
    assert not [*warnings_in(tmp_path / "asked.jsonl")]


def test_a_run_that_broke_off_has_no_end_of_answers(tmp_path: Path) -> None:
    one = Asking(tmp_path, [])
    with pytest.raises(InterruptedError), one.inquiry:
        raise InterruptedError
    with pytest.raises(EvidenceError, match="truncated"):
        asked.read(tmp_path)


def test_in_a_pod_a_warning_may_stand_behind_what_others_wrote(tmp_path: Path) -> None:
    one = Asking(tmp_path, [])
    with one.inquiry:
        (tmp_path / "logs" / "uc-1-driver-00000001.log").write_text(f"25/01/01 WARN x: {json.dumps(WARNS)}\n")
        (tmp_path / "logs" / "uc-1-exec-1-00000002.log").write_text(json.dumps(WARNS) + "\n")
    assert asked.read(tmp_path).warnings == (Warned("uc-1-driver-00000001", "north", 7),)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Complete]:
    """The command, of another product."""
    (tmp_path / "effectively_once").mkdir()
    (tmp_path / "effectively_once" / "__init__.py").touch()
    yield Complete(tmp_path / "settings.json", str(tmp_path), tmp_path / "complete.log")


def test_the_command_is_given_as_an_operator_does_and_its_document_and_code_are_kept(program: Complete) -> None:
    program.log.with_name("effectively_once").joinpath("__main__.py").write_text(
        "import json, sys\nprint('{\"a\": 1}')\nprint(json.dumps({'words': sys.argv[1:]}, indent=2))\nsys.exit(2)"
    )
    found = program(60_000)
    assert (found.window, found.code, found.words) == (60_000, 2, "")
    assert found.says == {"words": ["complete", str(program.settings), "--window", "60000", "--json"]}


def test_a_command_without_a_document_leaves_its_last_words(program: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    main = program.log.with_name("effectively_once").joinpath("__main__.py")
    main.write_text("import sys\nsys.exit('ObjectStoreError: away')")
    assert program(1)[2:] == (1, None, "ObjectStoreError: away")
    monkeypatch.setattr(inquiry, "COMMAND_S", 0.2)
    main.write_text("import time\ntime.sleep(60)")
    assert program(1)[2:] == (None, None, "")
    for said in ("", "}\n{", "{\n 1\n}", "{\n", "[\n1\n]"):
        assert document_in(said) is None, said


def test_the_metric_is_read_where_the_product_serves_it() -> None:
    metrics = Metrics("uc")
    metrics.serve(ANY_PORT)
    assert read_metric(os.getpid()) is None, "nothing is published yet"
    clock = Clock(sources={"north": 5}, released=("north",))
    record = record_of(declaration(4), generation=3).model_copy(update={"clock": clock})
    metrics.count_epoch(record, {"total": 1}, repeat=False)
    read = read_metric(os.getpid())
    assert read is not None
    assert read[1:] == (4, 1)
    assert read_metric(None) is read_metric(2**22 + 1) is None
    text = 'effectively_once_last_epoch{pipeline="u"} 7.0\nother 1\n# HELP effectively_once_last_epoch of\n'
    assert gauges_in(text) == {"effectively_once_last_epoch": 7.0}, "those of another name are none"
