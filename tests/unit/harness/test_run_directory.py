"""Files of a run: what is written can be read, and what is damaged is refused with what, where, what to do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness.checkers import case as case_module
from tests.harness.checkers.case import Case
from tests.harness.evidence import EvidenceError, RowCountError
from tests.harness.history import History, read_history
from tests.harness.run_directory import LinesWriter, RunDirectory, new_run, point_latest, read_lines
from tests.unit.harness.tamper import change_json


def test_lines_are_read_as_written(tmp_path: Path) -> None:
    rows = [{"n": n, "text": "é|\n"} for n in range(5)]
    with LinesWriter(tmp_path / "deep" / "x.jsonl") as writer:
        for row in rows:
            writer.write(row)
    assert list(read_lines(writer.path)) == rows
    assert writer.path.read_text(encoding="utf-8").splitlines()[-1] == '{"end":true,"rows":5}'


def test_writer_that_was_interrupted_leaves_truncated_evidence(tmp_path: Path) -> None:
    def interrupted() -> None:
        with LinesWriter(tmp_path / "x.jsonl") as writer:
            writer.write({"n": 1})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(EvidenceError, match="no end line after 1 rows"):
        list(read_lines(tmp_path / "x.jsonl"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no end line after 0 rows"),
        ('{"a": 1}\n', "no end line after 1 rows"),
        ('{"a": 1}\n{"end": tr', "not JSON"),
        ('[1]\n{"end": true, "rows": 1}\n', "not a JSON object"),
        ('{"end": true, "rows": 0}\n{"a": 1}\n', "after the end line"),
        ('{"end": true}\n', "names no number"),
    ],
)
def test_damaged_lines_are_refused(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(EvidenceError, match=says) as caught:
        list(read_lines(path))
    assert str(path) in caught.value.where
    assert caught.value.todo


def test_wrong_count_is_raised_after_the_last_row(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"end": true, "rows": 2}\n', encoding="utf-8")
    rows = read_lines(path)
    assert next(rows) == {"a": 1}
    with pytest.raises(RowCountError, match="1 rows, but the end line says 2"):
        next(rows)


@pytest.mark.parametrize("kept", [1 << 20, 0])
def test_every_oracle_gets_all_rows_and_then_what_is_wrong_with_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(case_module, "KEPT_BYTES", kept)
    case, path = Case(tmp_path), tmp_path / "observed" / "accepted.jsonl"
    path.parent.mkdir()
    path.write_text('{"id":"a"}\n{"id":"b"}\n{"end":true,"rows":3}\n')
    for _ in range(2):
        rows = case.rows("accepted")
        assert [next(rows), next(rows)] == [{"id": "a"}, {"id": "b"}]
        with pytest.raises(RowCountError, match="2 rows, but the end line says 3"):
            next(rows)
        if kept:
            path.unlink(missing_ok=True)


def test_evidence_error_of_a_model_names_the_field(run: Path) -> None:
    change_json(run / "observed" / "chain.json", lambda chain: chain["epochs"][3]["counts"].pop("in"))
    with pytest.raises(EvidenceError, match=r"field epochs\.3\.counts\.in"):
        RunDirectory(run).chain()


def test_history_of_many_threads_has_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"

    def write(history: History) -> None:
        for n in range(50):
            history.record("sent", acknowledged=n, text="x" * 3000)

    with History(path) as one, History(path) as other, ThreadPoolExecutor(4) as pool:
        pool.map(write, (one, other, one, other))
    events = read_history(tmp_path / "history.jsonl")
    assert len(events) == 200
    assert all(event["event"] == "sent" and event["t"] > 0 for event in events)


def test_a_history_is_whole_when_its_end_counts_the_lines_before_it(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    with run.history() as history:
        for n in range(3):
            history.record("epoch", epoch=n)
        history.end()
    assert len(run.whole_events()) == 4
    assert run.whole_events()[-1]["lines"] == 3
    lines = run.history_path.read_bytes().splitlines(keepends=True)
    for number in range(4):
        run.history_path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        assert len(run.events()) == 3
        with pytest.raises(EvidenceError, match="does not come to its end"):
            run.whole_events()


def test_history_takes_a_time_and_refuses_when_closed(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    assert history.record("epoch", t=5, **{"in": 3}) == 5
    history.close()
    assert read_history(history.path) == [{"t": 5, "event": "epoch", "in": 3}]
    with pytest.raises(ValueError, match="history is closed"):
        history.record("epoch")


@pytest.mark.parametrize("content", ["", '{"t": 1, "event": "x"}', '{"t": "1", "event": "x"}\n', "[]\n", "{\n"])
def test_damaged_history_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(EvidenceError):
        read_history(path)


def test_runs_started_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = [*pool.map(lambda _: new_run(tmp_path / "runs", 7), range(8))]
    assert len({run.name for run in runs}) == 8
    assert all(run.is_dir() for run in runs)


def test_latest_is_replaced_and_never_points_at_a_control(tmp_path: Path) -> None:
    first, second = (new_run(tmp_path / "runs", seed) for seed in (1, 2))
    for run in (first, second):
        point_latest(run)
        assert (tmp_path / "runs" / "latest").resolve() == run.resolve()
    control = first / "controls" / "x"
    control.mkdir(parents=True)
    with pytest.raises(ValueError, match="negative control is not a run"):
        point_latest(control)
    assert not list((tmp_path / "runs").glob(".latest*"))
