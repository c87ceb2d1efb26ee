"""A wrong row leads to its record, to copies of it, to its epoch and what struck it, and to the log."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.harness.judge.verdict import judge
from tests.harness.report import render
from tests.harness.report.recording import read
from tests.harness.report.trail import Trails
from tests.harness.results import Verdict
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.recorded_run import RECORDED, unpacked
from tests.unit.harness.tamper import change_lines, lines_of
from tests.unit.report.parsed_page import parse


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A real run of whose accepted rows one was lost."""
    return unpacked(RECORDED[-1], tmp_path)


def lose(run: Path, row: Row) -> None:
    change_lines(run / "observed" / "accepted.jsonl", lambda rows: rows.remove(row))
    assert judge(run).verdict is Verdict.FAIL


def row_with_a_copy(run: Path) -> tuple[Row, Row]:
    """An accepted row, and the copy of it that was sent."""
    copies = {send["id"]: send for send in lines_of(run / "sent.jsonl") if send["kind"] == "duplicate"}
    row = next(row for row in lines_of(run / "observed" / "accepted.jsonl") if row["id"] in copies)
    return row, copies[row["id"]]


def test_a_lost_row_leads_to_its_record_its_copies_its_epoch_and_the_log(run: Path) -> None:
    row, copy = row_with_a_copy(run)
    logs = run / "logs"
    logs.mkdir()
    log = [b"WARN", orjson.dumps({"epoch": row["epoch"], "event": "epoch published"}).replace(b":", b": ")]
    (logs / "driver-1.log").write_bytes(b"\n".join(log))
    lose(run, row)
    found = [" ".join(one.text.split()) for one in parse(render(run)).all("li")]
    topic, partition, offset = row["source"]
    assert any(one.startswith(f"{topic}/{partition}@{offset}: id {row['id']}, user {row['user']}") for one in found)
    assert any(one.startswith(f"the same id at {topic}/{copy['partition']}@{copy['offset']}, dupl") for one in found)
    assert any(one.startswith(f"epoch {row['epoch']}: declared at ") for one in found)
    assert "logs/driver-1.log:2: epoch published" in found


def test_a_row_of_an_epoch_that_was_struck_leads_to_the_fault(run: Path) -> None:
    struck = next(one["epoch"] for one in lines_of(run / "history.jsonl") if one["event"] == "fault" and one["hit"])
    lose(run, next(row for row in lines_of(run / "observed" / "accepted.jsonl") if row["epoch"] == struck))
    assert "fault 1 struck it: " in render(run)


def test_what_was_not_recorded_leads_nowhere_and_breaks_nothing(run: Path) -> None:
    row, _ = row_with_a_copy(run)
    lose(run, row)
    for name in ("sent.jsonl", "observed/chain.json", "history.jsonl"):
        (run / name).unlink()
        assert "First offending records" in render(run)
    assert "no record of it in sent.jsonl" in render(run)


def test_a_coordinate_of_a_sink_is_none_of_the_source(run: Path) -> None:
    trails = Trails(run, read(run), [], [], lines := ["accepted: phantom id x at accepted/0@7"])
    assert trails.of(lines[0]) == []
