"""What the judge says of changes of a pipeline that ran: with effect, gone on after, within their bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers import changes
from tests.harness.checkers.provenance import digest_of
from tests.harness.judge.verdict import judge
from tests.harness.report import page as report
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, oracle_of
from tests.unit.harness.tamper import change_json, change_lines, lines_of

WHEEL = "9" * 64
Change = Callable[[list[Row]], None]


def published(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["event"] == "epoch" and row["state"] == "published"]


def change_line(rows: list[Row], **fields: Any) -> Row:
    """A change that began with the third epoch and was seen just before the fifth."""
    epochs = published(rows)
    began, seen = epochs[2]["t"] + 1, epochs[4]["t"] - 1
    line = {"t": seen + 1, "event": "change", "name": "executors", "says": "3 executors", "bound_s": 60.0, "up_s": 40.0}
    return {**line, "began": began, "seen": seen, "lacks": "", "failed": "", "evidence": {}, **fields}


def make(run: Path, planned: int = 1, **fields: Any) -> Path:
    """Have a run tell of a change, and its manifest plan so many."""

    def add(rows: list[Row]) -> None:
        line = change_line(rows, **fields)
        end = rows.pop()
        rows.insert(next(at for at, row in enumerate(rows) if row["t"] > line["t"]), line)
        rows.append({**end, **({"lines": end["lines"] + 1} if "lines" in end else {})})

    change_lines(run / "history.jsonl", add)
    named = [{"name": "executors", "count": planned}] if planned else []
    change_json(run / "manifest.json", lambda it: it.update(changes=named))
    return run


def test_a_change_that_was_gone_on_after_passes_and_the_claim_says_so(run: Path) -> None:
    results = judge(make(run), write=False)
    (one,) = results.changes
    assert results.oracle("changes").verdict is PASS, results.reasons
    assert results.claim.endswith("Changed while it ran, with effect: executors 1.")
    times = [row["t"] for row in published(lines_of(run / "history.jsonl"))[2:5]]
    assert one.away_s == max(later - earlier for earlier, later in pairwise(times)) / 1000


def test_a_run_without_changes_is_not_asked_for_any(run: Path) -> None:
    with pytest.raises(KeyError):
        oracle_of(run, "changes")


@pytest.mark.parametrize(
    ("fields", "verdict", "says"),
    [
        ({"bound_s": 0.001}, FAIL, "s without an epoch, 0 s are allowed"),
        ({"failed": "the update failed: 255"}, FAIL, "executors (3 executors): the update failed: 255"),
        ({"lacks": "no effect", "seen": None}, UNKNOWN, "executors (3 executors): no effect"),
        ({"seen": 1 << 42}, FAIL, "no epoch was published after it"),
        ({"planned": 2}, UNKNOWN, "1 changes executors were made, 2 were planned"),
        ({"planned": 0}, UNKNOWN, "1 changes executors were made, 0 were planned"),
        (
            {"evidence": {"wheel_digest": WHEEL}},
            UNKNOWN,
            f"no epoch that was published after it is of wheel {WHEEL[:12]}",
        ),
    ],
)
def test_one_that_shows_nothing_is_unknown_and_one_that_broke_something_is_refuted(
    run: Path, fields: dict[str, Any], verdict: Any, says: str
) -> None:
    expect(make(run, **fields), verdict, "changes", says)


def test_a_change_that_nobody_told_of_is_missed(run: Path) -> None:
    change_json(run / "manifest.json", lambda it: it.update(changes=[{"name": "wheel", "count": 20}]))
    expect(run, UNKNOWN, "changes", "0 changes wheel were made, 20 were planned")


def write_other_settings(run: Path) -> Path:
    other = run / "settings-change-2.json"
    other.write_text(json.dumps({**json.loads((run / "settings.json").read_text()), "epoch_rows_max": 7}))
    return other


def test_settings_that_no_driver_started_with_are_not_believed(run: Path) -> None:
    write_other_settings(run)
    make(run, evidence={"settings": "settings-change-2.json"})
    expect(run, UNKNOWN, "changes", "no driver started with settings-change-2.json before it was seen")
    expect(run, UNKNOWN, "bound", "no driver was started with settings-change-2.json as it is")


def test_settings_of_before_do_not_speak_for_a_change(run: Path) -> None:
    """Drivers started with them, and none after the change began."""
    expect(
        make(run, evidence={"settings": "settings.json"}), UNKNOWN, "changes", "no driver started with settings.json"
    )


def test_versions_that_a_change_brought_are_those_of_the_run(run: Path) -> None:
    def bump(chain: Any) -> None:
        for one in chain["epochs"][4:]:
            one["wheel_digest"] = WHEEL

    change_json(run / "observed" / "chain.json", bump)
    assert "epochs have 2 different wheel_digests" in oracle_of(run, "bound").evidence
    make(run, evidence={"wheel_digest": WHEEL})
    assert oracle_of(run, "bound").verdict is PASS
    assert oracle_of(run, "changes").verdict is PASS


@pytest.mark.parametrize(
    ("times", "began", "seen", "away_s"),
    [
        ([1000, 5000, 9000], 5500, 6000, 4.0),
        ([1000, 2000, 3000, 9000], 1500, 2500, 1.0),
        ([1000, 8000, 9000], 1500, 8500, 7.0),
        ([9000], 4000, 5000, 5.0),
        ([1000], 2000, 3000, None),
        ([1000, 9000], 2000, None, None),
    ],
    ids=["restart", "aside", "before it was seen", "no epoch before", "none after", "not seen"],
)
def test_the_longest_time_without_an_epoch_counts(
    times: list[int], began: int, seen: int | None, away_s: float | None
) -> None:
    assert changes.away_s(times, began, seen) == away_s


def test_settings_that_a_change_gave_to_drivers_are_those_of_the_run(run: Path) -> None:
    """The driver that follows one that was killed announces them; without the change nobody knows whose they are."""
    other = write_other_settings(run)

    def give(rows: list[Row]) -> None:
        second = [row for row in rows if row.get("state") == "started"][1]
        second["settings"] = digest_of(other)

    change_lines(run / "history.jsonl", give)
    expect(run, UNKNOWN, "bound", "has other settings than the run's")
    started = [row for row in lines_of(run / "history.jsonl") if row.get("state") == "started"][1]["t"]
    make(run, t=started + 2, began=started - 1, seen=started + 1, evidence={"settings": other.name})
    assert oracle_of(run, "changes").verdict is PASS
    assert oracle_of(run, "bound").verdict is PASS


def test_the_page_has_a_line_for_each_change(run: Path) -> None:
    assert 'id="changes"' not in report.render(run)
    make(run, evidence={"driver": "the one of before"})
    judge(run)
    page = report.render(run)
    assert 'id="changes"' in page
    assert "driver: the one of before" in page
