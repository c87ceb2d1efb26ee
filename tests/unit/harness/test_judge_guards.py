"""Missing, truncated or unreadable evidence, and a run that shows nothing, are unknown: never pass, never fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.checkers.epilogue import completeness
from tests.harness.evidence import Epilogue
from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.fabricate import CONTROLS
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import PASS, UNKNOWN, expect, expect_run
from tests.unit.harness.tamper import Change, document, history, lines_of, manifest, observed, sent
from tests.unit.harness.test_check import checked

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


@pytest.mark.parametrize("name", FILES)
@pytest.mark.thinned(3)
def test_missing_file_is_unknown(run: Path, name: str) -> None:
    (run / name).unlink()
    results = judge(run, write=False)
    assert (results.verdict, results.verdict.exit_code) == (UNKNOWN, 2), results.reasons


@pytest.mark.parametrize("name", FILES)
@pytest.mark.thinned(3)
def test_file_cut_half_way_is_unknown(run: Path, name: str) -> None:
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[: len(content) // 2])
    assert judge(run, write=False).verdict is UNKNOWN


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".jsonl")])
@pytest.mark.thinned(3)
def test_file_without_its_last_line_or_with_one_that_is_no_json_is_unknown(run: Path, name: str) -> None:
    lines = (run / name).read_bytes().splitlines(keepends=True)
    (run / name).write_bytes(b"".join(lines[:-1]))
    assert judge(run, write=False).verdict is UNKNOWN
    (run / name).write_bytes(b"".join([lines[0], b"{not json\n", *lines[1:]]))
    results = judge(run, write=False)
    assert results.verdict is UNKNOWN
    assert any(f"{run / name}:2" in reason for reason in results.reasons), results.reasons


def _of_fault(change: Callable[[Row], object]) -> Change:
    return history(lambda rows: change(_fault(rows)))


def _fault(rows: list[Row]) -> Row:
    return next(row for row in rows if row["event"] == "fault")


def _one_more_planned(field: str) -> Change:
    return manifest(lambda told: told["workload"].update({field: told["workload"][field] + 1}))


def _first_one_twice(rows: list[Row]) -> None:
    first, second = (row for row in rows if row["event"] == "fault")
    second.update(first)


EPILOGUES: dict[str, Callable[[Any], object]] = {
    "no last step of the epilogue": lambda it: it["steps"].pop(),
    "no first step of the epilogue": lambda it: it["steps"].pop(0),
    "another number sent again": lambda it: it["steps"][0].update(resent=7),
    "no epoch between two restarts": lambda it: it["steps"][0].update(after_epoch=it["steps"][1]["after_epoch"]),
    "a second restart no later": lambda it: it["steps"][1].update(after_epoch=it["steps"][0]["after_epoch"]),
    "a restart after the last epoch": lambda it: it["steps"][1].update(after_epoch=10_000),
    "a sink without a boundary": lambda it: it["boundary"].pop("accepted"),
}
SHOW_NOTHING: dict[str, tuple[Change, str]] = {
    "a history cut between two lines": (history(lambda rows: rows.__delitem__(slice(len(rows) // 2, None))), "history"),
    "epochs that it does not hold": (history(lambda rows: rows.__delitem__(slice(len(rows) // 2, None))), "epochs"),
    **{
        f"another number of {field} than planned": (_one_more_planned(field), "workload")
        for field in ("sent", "duplicates_sent", "late_sent", "malformed_sent")
    },
    "sinks left out": (manifest(lambda told: told["settings"].update(sinks=["accepted"])), "multiset"),
    "a send that nobody acknowledged": (
        history(lambda rows: rows.insert(1, {"t": 1, "event": "unacknowledged", "id": "x"})),
        "acknowledged",
    ),
    "no partition looked at": (document("quiet", lambda quiet: quiet["partitions"].clear()), "quiet"),
    **{what: (document("epilogue", change), "epilogue") for what, change in EPILOGUES.items()},
    "one kill counted twice": (history(_first_one_twice), "faults"),
    "a planned fault that never happened": (manifest(lambda told: told.update(faults_planned=3)), "faults"),
}


@pytest.mark.parametrize("what", SHOW_NOTHING)
@pytest.mark.thinned(3)
def test_a_run_that_shows_nothing_of_it_is_unknown(run: Path, what: str) -> None:
    change, oracle = SHOW_NOTHING[what]
    change(run)
    expect_run(run, UNKNOWN, oracle)


def test_damaged_ground_truth_is_unknown_and_located(run: Path) -> None:
    sent(lambda rows: rows[0].update(payload="another"))(run)
    expect_run(run, UNKNOWN, "multiset", f"{run / 'sent.jsonl'}:1")


def test_empty_workload_is_unknown(run: Path) -> None:
    sent(lambda rows: rows.clear())(run)
    expect(run, UNKNOWN, "workload")


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
    copies_of = _sends("resent", sent)
    sends: Any = [*_sends("unique", sent), *(copies_of[n] for n in (sent - 1, sent - 1, *again))]
    return completeness(epilogue, sends, {0: "a", 1: "a", 2: "b", 3: "b"}, sent)


@cache
def _sends(kind: str, count: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(kind=kind, id=f"i{number}") for number in range(count)]


@pytest.mark.deep
def test_once_windows_are_closed_all_is_sent_again_or_many_of_a_long_run() -> None:
    few = "{} of {} records were sent again when the windows were closed"
    assert _sent_again(300, range(300)) is None
    assert _sent_again(300, range(299)) == few.format(299, 300)
    assert _sent_again(200_000, range(0, 200_000, 4)) is None
    assert _sent_again(200_000, range(4, 200_000, 4)) == few.format(49_999, 200_000)


@pytest.mark.parametrize(
    "copies",
    [
        range(50_000),
        [*range(20)] * 2_500,
        [*range(170_000, 200_000), *range(20_000)],
    ],
)
def test_what_is_sent_again_is_of_all_of_a_run(copies: Iterable[int]) -> None:
    assert "of the workload" in (_sent_again(200_000, copies) or "")


@pytest.mark.parametrize(
    "change",
    [
        lambda fault: fault.update(injected_at=fault["injected_at"] - 10_000),
        lambda fault: fault.update(injected_at=fault["injected_at"] + 10_000),
        lambda fault: fault.update(epoch=9),
        lambda fault: fault.update(epoch=None),
        lambda fault: fault.update(process_after=fault["process_before"]),
        lambda fault: fault.update(process_after=None),
        lambda fault: fault.update(process_before=""),
        lambda fault: fault.update(hit=False),
        lambda fault: fault.pop("injected_at"),
    ],
    ids=["before", "after", "other epoch", "no epoch", "survived", "not replaced", "nameless", "missed", "incomplete"],
)
def test_fault_that_the_history_does_not_confirm_is_unknown(run: Path, change: Callable[[Row], object]) -> None:
    history(lambda rows: change(_fault(rows)))(run)
    results = expect_run(run, UNKNOWN, "faults")
    assert sum(fault.hit for fault in results.faults) < 2


def test_missed_fault_does_not_matter_once_enough_hit(run: Path) -> None:
    missed = {"hit": False, "process_after": None, "epoch": None}
    history(lambda rows: rows.insert(5, {**_fault(rows), **missed}))(run)
    results = expect_run(run, PASS, "faults")
    assert [fault.hit for fault in results.faults] == [False, True, True]


def _observed_by(control: str, change: Callable[[list[Row]], object]) -> Change:
    return lambda run: observed("accepted", change)(run / "controls" / control)


def _line_more(run: Path) -> None:
    path = run / "controls" / CONTROLS[0] / "observed" / "accepted.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines]))


def _of_another(run: Path) -> None:
    first, second = (run / "controls" / name for name in CONTROLS)
    shutil.rmtree(first)
    shutil.copytree(second, first)


BROKEN_CONTROLS: dict[str, tuple[Change, Verdict]] = {
    "passed": (_observed_by(CONTROLS[0], lambda rows: rows.__delitem__(slice(40, None))), PASS),
    "missing": (lambda run: shutil.rmtree(run / "controls" / CONTROLS[0]), UNKNOWN),
    "without a hit, even with duplicates": (
        lambda run: _of_fault(lambda fault: fault.update(hit=False))(run / "controls" / CONTROLS[0]),
        UNKNOWN,
    ),
    "only lost records": (_observed_by(CONTROLS[0], lambda rows: rows.__delitem__(slice(30, None))), UNKNOWN),
    "its file was added to": (_line_more, UNKNOWN),
    "of another control": (_of_another, UNKNOWN),
}


@pytest.mark.parametrize("what", BROKEN_CONTROLS)
def test_a_control_that_does_not_show_duplicates_makes_the_run_unknown(run: Path, what: str) -> None:
    change, verdict = BROKEN_CONTROLS[what]
    change(run)
    results = expect_run(run, UNKNOWN, "controls", CONTROLS[0])
    assert [control.verdict for control in results.controls] == [verdict, Verdict.FAIL]


def test_open_window_is_unknown(run: Path) -> None:
    """A run without closers: nothing moved the watermark over the last windows, so they have no count to judge."""
    sent(lambda rows: [row.update(kind="resent") for row in rows if row["kind"] == "closer"])(run)
    for oracle in ("aggregates", "windows"):
        expect(run, UNKNOWN, oracle)


def test_crash_of_a_checker_is_unknown_with_its_reason(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_: Any) -> Any:
        raise ZeroDivisionError("by design")

    monkeypatch.setattr("tests.harness.checkers.quiet.judge", crash)
    assert "ZeroDivisionError: by design" in expect_run(run, UNKNOWN, "quiet").reasons[0]


def test_exit_codes_and_files(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(monkeypatch, run) == 0
    for path, verdict in ((run, "pass"), (run / "controls" / CONTROLS[0], "fail")):
        assert json.loads((path / "results.json").read_text(encoding="utf-8"))["verdict"] == verdict
    whole = (run / "observed" / "accepted.jsonl").read_bytes()
    observed("accepted", lambda rows: rows.pop())(run)
    assert checked(monkeypatch, run) == 1
    (run / "observed" / "accepted.jsonl").write_bytes(whole)
    (run / "observed" / "chain.json").unlink()
    assert checked(monkeypatch, run) == checked(monkeypatch, run / "nowhere") == 2


def test_file_workload_leaves_lateness_to_the_reference(run: Path) -> None:
    sent(lambda rows: [row.update(kind="fresh") for row in rows if row["kind"] in {"late", "duplicate"}])(run)
    count = sum(row["kind"] in {"fresh", "malformed"} for row in lines_of(run / "sent.jsonl"))
    manifest(lambda told: told.update(workload={"kind": "file", "sent": count}))(run)
    results = judge(run, write=False)
    assert results.verdict is PASS, results.reasons
