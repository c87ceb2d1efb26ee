"""Oracle 3: what a reader saw during the faults is there at the end, unchanged, and nothing slipped in behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.evidence import SINKS, crc_of_row
from tests.harness.judge import judge
from tests.harness.results import Oracle, Verdict
from tests.unit.harness.fabricate import Row, write_lines
from tests.unit.harness.tamper import change_json, change_lines, lines_of


def seen_of(run: Path, sink: str, from_ms: int, to_ms: int) -> list[Row]:
    """What a reader that is always up to date writes of a sink, in observations of two rows."""
    rows = lines_of(run / "observed" / f"{sink}.jsonl")
    found: list[Row] = [{"t": from_ms, "reader": "started"}]
    if sink == "global_counts":
        named: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            named[row["epoch"]].append(row)
        for epoch, of_epoch in named.items():
            crcs = [crc_of_row(row) for row in of_epoch]
            found.append({"t": from_ms, "epoch": epoch, "object": f"m{epoch}", "crcs": crcs})
    for partition in sorted({row["partition"] for row in rows if "partition" in row}):
        mine = [row for row in rows if row["partition"] == partition]
        for start in range(0, len(mine), 2):
            part = mine[start : start + 2]
            offsets, crcs = [row["offset"] for row in part], [crc_of_row(row) for row in part]
            found.append({"t": from_ms + 1, "partition": partition, "offsets": offsets, "crcs": crcs})
    return [*found, {"t": to_ms, "reader": "stopped"}]


@pytest.fixture
def watched(run: Path) -> Path:
    """Return a clean run that a reader watched from its first event to its last."""
    times = [event["t"] for event in lines_of(run / "history.jsonl")]
    for sink in SINKS:
        write_lines(run / "observed" / f"{sink}.concurrent.jsonl", seen_of(run, sink, min(times), max(times)))
    change_json(run / "manifest.json", lambda manifest: manifest.update(concurrent_reader=True))
    return run


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


CHANGES: dict[str, Callable[[list[Row]], Any]] = {
    "nothing seen of its last records": lambda rows: rows.pop(-2),
    "no word of its start": lambda rows: rows.pop(0),
    "no word of its end": lambda rows: rows.pop(),
    "begun after the faults": _late_start,
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
