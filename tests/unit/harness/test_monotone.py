"""Oracle 3: what a reader saw during the faults is there at the end, unchanged, and nothing slipped in behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.evidence import SINKS
from tests.harness.judge.verdict import judge
from tests.harness.results import Oracle, Verdict
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.tamper import change_json, change_lines, lines_of, watch


@pytest.fixture
def watched(run: Path) -> Path:
    """Return a clean run that a reader watched from its first event to its last."""
    return watch(run)


def oracle_of(run: Path) -> Oracle:
    return judge(run, write=False).oracle("monotone")


def concurrent(run: Path, sink: str = "accepted") -> Path:
    return run / "observed" / f"{sink}.concurrent.jsonl"


def test_a_run_that_was_watched_passes(watched: Path) -> None:
    results = judge(watched, write=False)
    assert results.verdict is Verdict.PASS, results.reasons
    oracle = results.oracle("monotone")
    assert oracle.number == 3
    assert f" {sum(len(lines_of(watched / 'observed' / f'{sink}.jsonl')) for sink in SINKS)} records" in oracle.says


def test_a_run_without_a_reader_is_not_judged_by_it(run: Path) -> None:
    for sink in SINKS:
        concurrent(run, sink).unlink()
    change_json(run / "manifest.json", lambda manifest: manifest.update(concurrent_reader=False))
    with pytest.raises(KeyError):
        oracle_of(run)


@pytest.mark.parametrize("sink", ["accepted", "dead_letter", "user_counts", "global_counts"])
def test_a_record_that_was_seen_and_is_gone_is_a_retraction(watched: Path, sink: str) -> None:
    change_lines(watched / "observed" / f"{sink}.jsonl", lambda rows: rows.pop(0))
    assert oracle_of(watched).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("sink", "name", "value"),
    [("accepted", "payload", "other"), ("user_counts", "count", 99), ("global_counts", "count", 99)],
)
def test_a_record_that_has_changed_since_it_was_seen_fails(watched: Path, sink: str, name: str, value: object) -> None:
    change_lines(watched / "observed" / f"{sink}.jsonl", lambda rows: rows[0].update({name: value}))
    oracle = oracle_of(watched)
    assert oracle.verdict is Verdict.FAIL
    assert oracle.evidence[0].startswith(sink)


def _skip_one(rows: list[Row]) -> None:
    first = next(row for row in rows if len(row.get("offsets", ())) == 2)
    first["offsets"], first["crcs"] = first["offsets"][1:], first["crcs"][1:]


def test_a_record_that_turned_up_behind_the_reader_fails(watched: Path) -> None:
    change_lines(concurrent(watched), _skip_one)
    oracle = oracle_of(watched)
    assert oracle.verdict is Verdict.FAIL
    assert "behind a reader" in oracle.evidence[0]


def _swap(rows: list[Row]) -> None:
    first = next(row for row in rows if len(row.get("offsets", ())) == 2)
    first["offsets"].reverse()
    first["crcs"].reverse()


def test_records_seen_out_of_order_fail(watched: Path) -> None:
    change_lines(concurrent(watched), _swap)
    assert oracle_of(watched).verdict is Verdict.FAIL


def test_a_manifest_seen_twice_fails(watched: Path) -> None:
    change_lines(concurrent(watched, "global_counts"), lambda rows: rows.insert(2, rows[1]))
    assert oracle_of(watched).verdict is Verdict.FAIL


def _late_start(rows: list[Row]) -> None:
    for row in rows[:-1]:
        row["t"] = rows[-1]["t"]


def _one_look(rows: list[Row]) -> None:
    after = rows[-1]["t"] + 60_000
    for row in rows[1:]:
        row["t"] = after


CHANGES: dict[str, Callable[[list[Row]], Any]] = {
    "nothing seen of its last records": lambda rows: rows.pop(-2),
    "no word of its start": lambda rows: rows.pop(0),
    "no word of its end": lambda rows: rows.pop(),
    "begun after the faults": _late_start,
    "a single look, after everything": _one_look,
    "an observation without offsets": lambda rows: rows[1].pop("offsets"),
    "more offsets than checksums": lambda rows: rows[1]["crcs"].pop(),
    "a clock that went back": lambda rows: rows[-1].update(t=1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_reader_that_did_not_see_it_all_shows_nothing(watched: Path, what: str) -> None:
    change_lines(concurrent(watched), CHANGES[what])
    oracle = oracle_of(watched)
    assert oracle.verdict is Verdict.UNKNOWN, oracle
    assert judge(watched, write=False).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("sink", SINKS)
def test_missing_observations_are_unknown(watched: Path, sink: str) -> None:
    concurrent(watched, sink).unlink()
    assert oracle_of(watched).verdict is Verdict.UNKNOWN


def test_truncated_observations_are_unknown(watched: Path) -> None:
    path = concurrent(watched)
    path.write_bytes(path.read_bytes()[:-20])
    assert oracle_of(watched).verdict is Verdict.UNKNOWN
