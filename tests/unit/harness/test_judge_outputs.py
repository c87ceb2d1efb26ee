"""A record removed, doubled, altered or invented in any sink is a failure that names the record."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.harness.evidence import SINKS
from tests.harness.judge.verdict import judge
from tests.harness.results import Verdict
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import FAIL, expect, expect_run
from tests.unit.harness.tamper import change_lines, lines_of, name_of, observed

ALTERED = [
    ("accepted", "user", "u99999"),
    ("accepted", "event_time_ms", 1),
    ("accepted", "payload", "another"),
    ("accepted", "crc", 1),
    ("accepted", "epoch", 99),
    ("accepted", "source", ["events", 0, 99_999]),
    ("accepted", "sink", "dead_letter"),
    ("dead_letter", "reason", "another"),
    ("dead_letter", "epoch", 99),
    ("dead_letter", "value", None),
    ("dead_letter", "encoding", "base64"),
    ("dead_letter", "encoding", "latin-1"),
    ("user_counts", "count", 99),
    ("user_counts", "count", True),
    ("user_counts", "epoch", 99),
    ("global_counts", "count", 99),
    ("global_counts", "count", None),
]


def expect_offence(run: Path, sink: str, sort: str, name: str) -> None:
    """The multiset of a sink fails with one offence of this sort, whose record it names first."""
    results = expect_run(run, FAIL, "multiset")
    assert f"{sink}: {sort} {name}" in results.oracle("multiset").evidence[0]
    assert getattr(results.outputs[sink], sort) == 1


def test_clean_run_passes_every_oracle_and_guard(pristine: Path) -> None:
    results = judge(pristine, write=False)
    assert results.reasons == ()
    assert results.verdict is Verdict.PASS
    assert {oracle.number for oracle in results.oracles} == set(range(8))
    assert all(output.exact and output.expected > 0 for output in results.outputs.values())
    assert set(results.outputs) == set(SINKS)
    letters = results.outputs["dead_letter"]
    assert sum(letters.causes.values()) == letters.expected
    assert all(letters.causes.values())


@pytest.mark.parametrize("repair_count", [True, False], ids=["count repaired", "count left"])
@pytest.mark.parametrize("sink", SINKS)
def test_removed_record_is_missing(run: Path, sink: str, repair_count: bool) -> None:
    path = run / "observed" / f"{sink}.jsonl"
    row = lines_of(path)[5]
    if repair_count:
        change_lines(path, lambda rows: rows.pop(5))
    else:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:5] + lines[6:]), encoding="utf-8")
    expect_offence(run, sink, "missing", name_of(row))


@pytest.mark.parametrize("sink", SINKS)
def test_doubled_record_is_duplicated(run: Path, sink: str) -> None:
    row = lines_of(run / "observed" / f"{sink}.jsonl")[5]
    observed(sink, lambda rows: rows.append({**row, "offset": 10_000, "partition": 1}))(run)
    expect_offence(run, sink, "duplicated", name_of(row))


@pytest.mark.parametrize(("sink", "field", "value"), ALTERED)
@pytest.mark.thinned(3)
def test_altered_record_is_corrupted(run: Path, sink: str, field: str, value: Any) -> None:
    row = lines_of(run / "observed" / f"{sink}.jsonl")[5]
    observed(sink, lambda rows: rows[5].update({field: value}))(run)
    expect_offence(run, sink, "corrupted", name_of(row))


@pytest.mark.parametrize(
    ("sink", "invented"),
    [
        ("accepted", {"id": "p9-s9-999999"}),
        ("dead_letter", {"id": "p9-s9-999999", "source": ["events", 9, 9]}),
        ("user_counts", {"user": "u99999"}),
        ("global_counts", {"window_start_ms": 60_000}),
    ],
)
def test_invented_record_is_phantom(run: Path, sink: str, invented: Row) -> None:
    row = {**lines_of(run / "observed" / f"{sink}.jsonl")[5], **invented}
    observed(sink, lambda rows: rows.append(row))(run)
    expect_offence(run, sink, "phantom", name_of(row))


def test_payload_of_a_late_record_must_be_the_one_sent(run: Path) -> None:
    def change(rows: list[Row]) -> None:
        row = next(row for row in rows if row["reason"] == "late")
        row["value"] = row["value"].replace("pay-", "pax-")

    observed("dead_letter", change)(run)
    expect_run(run, FAIL, "multiset", "value holds another payload than was sent")


def test_record_without_identity_is_phantom(run: Path) -> None:
    observed("user_counts", lambda rows: rows.append({"sink": "user_counts", "count": 1}))(run)
    expect_run(run, FAIL, "multiset", "row without identity")


def test_first_ten_offenders_are_named_and_the_rest_counted(run: Path) -> None:
    observed("accepted", lambda rows: rows.__delitem__(slice(0, 25)))(run)
    evidence = expect_run(run, FAIL, "multiset", "... and 15 more").oracle("multiset").evidence
    assert sum("missing id" in line for line in evidence) == 10


def test_offences_of_one_sink_are_not_hidden_by_missing_evidence_of_another(run: Path) -> None:
    (run / "observed" / "accepted.jsonl").unlink()
    observed("user_counts", lambda rows: rows.pop(5))(run)
    expect_run(run, FAIL, "multiset", "user_counts: missing")


def test_same_wrong_count_in_the_sums_is_found_without_the_chain(run: Path) -> None:
    for sink in ("user_counts", "global_counts"):
        observed(sink, lambda rows: rows[0].update(count=rows[0]["count"] + 1))(run)
    expect(run, FAIL, "aggregates", "user_counts without the chain")


def _mutations(row: Row) -> st.SearchStrategy[Row | None]:
    """Another row, or None to remove it. A sink's own offsets and objects have no ground truth."""
    fields = sorted(set(row) - {"offset", "object"})
    values = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.integers(), max_size=3))
    changed = st.tuples(st.sampled_from(fields), values).filter(
        lambda pair: type(row[pair[0]]) is not type(pair[1]) or row[pair[0]] != pair[1]
    )
    return st.one_of(st.none(), changed.map(lambda pair: {**row, pair[0]: pair[1]}))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), sink=st.sampled_from(SINKS))
def test_no_single_mutation_of_any_sink_passes(pristine: Path, tmp_path: Path, data: st.DataObject, sink: str) -> None:
    run = tmp_path / "mutated"
    if not run.exists():
        shutil.copytree(pristine, run)
    rows = lines_of(pristine / "observed" / f"{sink}.jsonl")
    at = data.draw(st.integers(0, len(rows) - 1))
    mutated = data.draw(_mutations(rows[at]))
    doubled = mutated is not None and data.draw(st.booleans())

    def change(now: list[Row]) -> None:
        if mutated is None:
            now.pop(at)
        elif doubled:
            now.append(copy.deepcopy(mutated))
        else:
            now[at] = mutated

    path = run / "observed" / f"{sink}.jsonl"
    try:
        change_lines(path, change)
        assert judge(run, write=False).verdict is not Verdict.PASS
    finally:
        shutil.copy(pristine / "observed" / f"{sink}.jsonl", path)
