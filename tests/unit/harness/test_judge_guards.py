"""Missing, truncated or unreadable evidence, and a run that shows nothing, are unknown: never pass, never fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.checkers.epilogue import completeness
from tests.harness.evidence import Epilogue
from tests.harness.judge.verdict import judge
from tests.harness.results import Results, Verdict
from tests.unit.command import call
from tests.unit.harness.fabricate import CONTROLS
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.tamper import change_json, change_lines, lines_of

FILES = [
    "manifest.json",
    "sent.jsonl",
    "history.jsonl",
    "observed/accepted.jsonl",
    "observed/dead_letter.jsonl",
    "observed/user_counts.jsonl",
    "observed/global_counts.jsonl",
    "observed/chain.json",
    "observed/quiet.json",
    "observed/epilogue.json",
    "controls/spark_kafka_sink/manifest.json",
    "controls/spark_kafka_sink/sent.jsonl",
    "controls/spark_kafka_sink/history.jsonl",
    "controls/spark_kafka_sink/observed/accepted.jsonl",
]


def unknown(run: Path, *names: str) -> Results:
    results = judge(run, write=False)
    assert results.verdict is Verdict.UNKNOWN, (results.verdict, results.reasons)
    for name in names:
        assert results.oracle(name).verdict is Verdict.UNKNOWN, results.reasons
    assert results.reasons
    return results


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_unknown(run: Path, name: str) -> None:
    (run / name).unlink()
    assert unknown(run).verdict.exit_code == 2


@pytest.mark.parametrize("name", FILES)
def test_file_cut_half_way_is_unknown(run: Path, name: str) -> None:
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[: len(content) // 2])
    unknown(run)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".jsonl")])
def test_file_without_its_last_line_is_unknown(run: Path, name: str) -> None:
    lines = (run / name).read_bytes().splitlines(keepends=True)
    (run / name).write_bytes(b"".join(lines[:-1]))
    unknown(run)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".jsonl")])
def test_unparsable_line_is_unknown_and_located(run: Path, name: str) -> None:
    lines = (run / name).read_bytes().splitlines(keepends=True)
    (run / name).write_bytes(b"".join([lines[0], b"{not json\n", *lines[1:]]))
    results = unknown(run)
    assert any(f"{run / name}:2" in reason for reason in results.reasons), results.reasons


def test_history_cut_between_two_lines_is_unknown(run: Path) -> None:
    change_lines(run / "history.jsonl", lambda rows: rows.__delitem__(slice(len(rows) // 2, None)))
    unknown(run, "history", "epochs")


def test_damaged_ground_truth_is_unknown(run: Path) -> None:
    change_lines(run / "sent.jsonl", lambda rows: rows[0].__setitem__("payload", "another"))
    results = unknown(run, "multiset")
    assert f"{run / 'sent.jsonl'}:1" in results.reasons[0]


def test_empty_workload_is_unknown(run: Path) -> None:
    change_lines(run / "sent.jsonl", lambda rows: rows.clear())
    assert judge(run, write=False).oracle("workload").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("field", ["sent", "duplicates_sent", "late_sent", "malformed_sent"])
def test_other_numbers_than_planned_are_unknown(run: Path, field: str) -> None:
    change_json(run / "manifest.json", lambda m: m["workload"].__setitem__(field, m["workload"][field] + 1))
    unknown(run, "workload")


def test_sinks_left_out_of_the_manifest_are_unknown(run: Path) -> None:
    change_json(run / "manifest.json", lambda m: m["settings"].__setitem__("sinks", ["accepted"]))
    unknown(run, "multiset")


def test_unacknowledged_send_is_unknown(run: Path) -> None:
    change_lines(run / "history.jsonl", lambda rows: rows.insert(1, {"t": 1, "event": "unacknowledged", "id": "x"}))
    unknown(run, "acknowledged")


def test_no_partition_looked_at_is_unknown(run: Path) -> None:
    change_json(run / "observed" / "quiet.json", lambda quiet: quiet["partitions"].clear())
    unknown(run, "quiet")


@pytest.mark.parametrize(
    "change",
    [
        lambda epilogue: epilogue["steps"].pop(),
        lambda epilogue: epilogue["steps"].pop(0),
        lambda epilogue: epilogue["steps"][0].__setitem__("resent", 7),
        lambda epilogue: epilogue["steps"][0].__setitem__("after_epoch", epilogue["steps"][1]["after_epoch"]),
        lambda epilogue: epilogue["steps"][1].__setitem__("after_epoch", epilogue["steps"][0]["after_epoch"]),
        lambda epilogue: epilogue["steps"][1].__setitem__("after_epoch", 10_000),
        lambda epilogue: epilogue["boundary"].pop("accepted"),
    ],
)
def test_epilogue_not_gone_through_is_unknown(run: Path, change: Callable[[Any], Any]) -> None:
    change_json(run / "observed" / "epilogue.json", change)
    unknown(run, "epilogue")


def _sent_again(sent: int, copies: Iterable[int]) -> str | None:
    """Why an epilogue is incomplete that sent these of so many records again once windows were closed."""
    again = [*copies]
    steps = [
        {"step": step, "checkpoint": checkpoint, "resent": resent, "after_epoch": after}
        for after, (step, checkpoint, resent) in enumerate(
            (("restart", "kept", 1), ("restart", "deleted", 1), ("closed", None, len(again)))
        )
    ]
    closing: dict[str, Any] = {"before": {}, "after": {}}
    epilogue = Epilogue.model_validate({"boundary": {}, "closing": closing, "steps": steps})
    kinds = [*(("unique", number) for number in range(sent)), *(("resent", number) for number in (sent - 1, sent - 1))]
    sends: Any = [SimpleNamespace(kind=kind, id=f"i{n}") for kind, n in [*kinds, *(("resent", n) for n in again)]]
    return completeness(epilogue, sends, {0: "a", 1: "a", 2: "b", 3: "b"}, sent)


def test_once_windows_are_closed_all_is_sent_again_or_many_of_a_long_run() -> None:
    few = "{} of {} records were sent again when the windows were closed"
    assert _sent_again(300, range(300)) is None
    assert _sent_again(300, range(299)) == few.format(299, 300)
    assert _sent_again(200_000, range(0, 200_000, 4)) is None
    assert _sent_again(200_000, range(4, 200_000, 4)) == few.format(49_999, 200_000)


@pytest.mark.parametrize("copies", [range(50_000), [*range(20)] * 2_500, [*range(170_000, 200_000), *range(20_000)]])
def test_what_is_sent_again_is_of_all_of_a_run(copies: Iterable[int]) -> None:
    assert "of the workload" in (_sent_again(200_000, copies) or "")


def _fault(rows: list[Row]) -> Row:
    return next(row for row in rows if row["event"] == "fault")


@pytest.mark.parametrize(
    "change",
    [
        lambda fault: fault.__setitem__("injected_at", fault["injected_at"] - 10_000),
        lambda fault: fault.__setitem__("injected_at", fault["injected_at"] + 10_000),
        lambda fault: fault.__setitem__("epoch", 9),
        lambda fault: fault.__setitem__("epoch", None),
        lambda fault: fault.__setitem__("process_after", fault["process_before"]),
        lambda fault: fault.__setitem__("process_after", None),
        lambda fault: fault.__setitem__("process_before", ""),
        lambda fault: fault.__setitem__("hit", False),
        lambda fault: fault.__delitem__("injected_at"),
    ],
    ids=["before", "after", "other epoch", "no epoch", "survived", "not replaced", "nameless", "missed", "incomplete"],
)
def test_fault_that_the_history_does_not_confirm_is_unknown(run: Path, change: Callable[[Row], None]) -> None:
    change_lines(run / "history.jsonl", lambda rows: change(_fault(rows)))
    results = unknown(run, "faults")
    assert sum(fault.hit for fault in results.faults) < 2


def test_one_kill_is_not_counted_twice(run: Path) -> None:
    def change(rows: list[Row]) -> None:
        first, second = (row for row in rows if row["event"] == "fault")
        second.update(first)

    change_lines(run / "history.jsonl", change)
    unknown(run, "faults")


def test_missed_fault_does_not_matter_once_enough_hit(run: Path) -> None:
    def change(rows: list[Row]) -> None:
        rows.insert(5, {**_fault(rows), "hit": False, "process_after": None, "epoch": None})

    change_lines(run / "history.jsonl", change)
    results = judge(run, write=False)
    assert results.verdict is Verdict.PASS, results.reasons
    assert [fault.hit for fault in results.faults] == [False, True, True]


def test_planned_fault_that_never_happened_is_unknown(run: Path) -> None:
    change_json(run / "manifest.json", lambda manifest: manifest.__setitem__("faults_planned", 3))
    unknown(run, "faults")


def test_control_that_passed_is_unknown(run: Path) -> None:
    path = run / "controls" / CONTROLS[0] / "observed" / "accepted.jsonl"
    change_lines(path, lambda rows: rows.__delitem__(slice(40, None)))
    results = unknown(run, "controls")
    assert [control.verdict for control in results.controls] == [Verdict.PASS, Verdict.FAIL]


def test_missing_control_is_unknown(run: Path) -> None:
    shutil.rmtree(run / "controls" / CONTROLS[1])
    assert CONTROLS[1] in unknown(run, "controls").oracle("controls").says


def test_control_without_a_hit_is_unknown_even_with_duplicates(run: Path) -> None:
    path = run / "controls" / CONTROLS[0] / "history.jsonl"
    change_lines(path, lambda rows: _fault(rows).__setitem__("hit", False))
    assert unknown(run, "controls").controls[0].verdict is Verdict.UNKNOWN


def test_control_that_only_lost_records_does_not_show_duplicates(run: Path) -> None:
    path = run / "controls" / CONTROLS[0] / "observed" / "accepted.jsonl"
    change_lines(path, lambda rows: rows.__delitem__(slice(30, None)))
    assert unknown(run, "controls").controls[0].verdict is Verdict.UNKNOWN


def test_control_whose_file_was_added_to_is_unknown(run: Path) -> None:
    path = run / "controls" / CONTROLS[0] / "observed" / "accepted.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines]))
    assert unknown(run, "controls").controls[0].verdict is Verdict.UNKNOWN


def test_control_directory_of_another_control_is_unknown(run: Path) -> None:
    controls = run / "controls"
    shutil.rmtree(controls / CONTROLS[0])
    shutil.copytree(controls / CONTROLS[1], controls / CONTROLS[0])
    unknown(run, "controls")


def test_open_window_is_unknown(run: Path) -> None:
    """A run without closers: nothing moved the watermark over the last windows, so they have no count to judge."""
    change_lines(
        run / "sent.jsonl", lambda rows: [row.update(kind="resent") for row in rows if row["kind"] == "closer"]
    )
    assert judge(run, write=False).oracle("aggregates").verdict is Verdict.UNKNOWN
    assert judge(run, write=False).oracle("windows").verdict is Verdict.UNKNOWN


def test_crash_of_a_checker_is_unknown_with_its_reason(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_: Any) -> Any:
        raise ZeroDivisionError("by design")

    monkeypatch.setattr("tests.harness.checkers.quiet.judge", crash)
    assert "ZeroDivisionError: by design" in unknown(run, "quiet").reasons[0]


def test_exit_codes_and_files(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(path: Path) -> int:
        return call(monkeypatch, "check", "--run", str(path))

    assert check(run) == 0
    written = json.loads((run / "results.json").read_text(encoding="utf-8"))
    assert written["verdict"] == "pass"
    assert (
        json.loads((run / "controls" / CONTROLS[0] / "results.json").read_text(encoding="utf-8"))["verdict"] == "fail"
    )
    whole = (run / "observed" / "accepted.jsonl").read_bytes()
    change_lines(run / "observed" / "accepted.jsonl", lambda rows: rows.pop())
    assert check(run) == 1
    (run / "observed" / "accepted.jsonl").write_bytes(whole)
    (run / "observed" / "chain.json").unlink()
    assert check(run) == 2
    assert check(run / "nowhere") == 2


def test_file_workload_leaves_lateness_to_the_reference(run: Path) -> None:
    def own(rows: list[Row]) -> None:
        for row in rows:
            if row["kind"] in {"late", "duplicate"}:
                row["kind"] = "fresh"

    change_lines(run / "sent.jsonl", own)
    sent = sum(row["kind"] in {"fresh", "malformed"} for row in lines_of(run / "sent.jsonl"))
    change_json(
        run / "manifest.json", lambda manifest: manifest.__setitem__("workload", {"kind": "file", "sent": sent})
    )
    results = judge(run, write=False)
    assert results.verdict is Verdict.PASS, results.reasons
