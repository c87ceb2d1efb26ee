"""Oracle 3: what a reader saw during the faults is there at the end, unchanged, and nothing slipped in behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.evidence import SINKS
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, expect_run, oracle_of
from tests.unit.harness.tamper import change_lines, lines_of, manifest, observed, watch


@pytest.fixture
def watched(run: Path) -> Path:
    """Return a clean run that a reader watched from its first event to its last."""
    return watch(run)


def concurrent(run: Path, sink: str = "accepted") -> Path:
    return run / "observed" / f"{sink}.concurrent.jsonl"


def test_a_run_that_was_watched_passes(watched: Path) -> None:
    records = sum(len(lines_of(watched / "observed" / f"{sink}.jsonl")) for sink in SINKS)
    assert expect_run(watched, PASS, "monotone", f" {records} records").oracle("monotone").number == 3


def test_a_run_without_a_reader_is_not_judged_by_it(run: Path) -> None:
    for sink in SINKS:
        concurrent(run, sink).unlink()
    manifest(lambda told: told.update(concurrent_reader=False))(run)
    with pytest.raises(KeyError):
        oracle_of(run, "monotone")


@pytest.mark.parametrize("sink", SINKS)
def test_a_record_that_was_seen_and_is_gone_is_a_retraction(watched: Path, sink: str) -> None:
    observed(sink, lambda rows: rows.pop(0))(watched)
    expect(watched, FAIL, "monotone")


@pytest.mark.parametrize(
    ("sink", "name", "value"),
    [("accepted", "payload", "other"), ("user_counts", "count", 99), ("global_counts", "count", 99)],
)
def test_a_record_that_has_changed_since_it_was_seen_fails(watched: Path, sink: str, name: str, value: object) -> None:
    observed(sink, lambda rows: rows[0].update({name: value}))(watched)
    assert expect(watched, FAIL, "monotone").oracle("monotone").evidence[0].startswith(sink)


def _two(rows: list[Row]) -> Row:
    """The first observation of two records."""
    return next(row for row in rows if len(row.get("offsets", ())) == 2)


def _skip_one(rows: list[Row]) -> None:
    first = _two(rows)
    first["offsets"], first["crcs"] = first["offsets"][1:], first["crcs"][1:]


def _swap(rows: list[Row]) -> None:
    first = _two(rows)
    first["offsets"].reverse()
    first["crcs"].reverse()


@pytest.mark.parametrize(
    ("sink", "change", "says"),
    [
        ("accepted", _skip_one, "behind a reader"),
        ("accepted", _swap, ""),
        ("global_counts", lambda rows: rows.insert(2, rows[1]), ""),
    ],
    ids=["turned up behind the reader", "seen out of order", "a manifest seen twice"],
)
def test_what_no_reader_of_an_append_only_sink_sees_fails(
    watched: Path, sink: str, change: Callable[[list[Row]], Any], says: str
) -> None:
    change_lines(concurrent(watched, sink), change)
    expect(watched, FAIL, "monotone", says)


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
    expect_run(watched, UNKNOWN, "monotone")


@pytest.mark.parametrize("sink", SINKS)
def test_missing_observations_are_unknown(watched: Path, sink: str) -> None:
    concurrent(watched, sink).unlink()
    expect(watched, UNKNOWN, "monotone")


def test_truncated_observations_are_unknown(watched: Path) -> None:
    path = concurrent(watched)
    path.write_bytes(path.read_bytes()[:-20])
    expect(watched, UNKNOWN, "monotone")
