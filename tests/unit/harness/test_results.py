"""The verdict for machines and for CI."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from xml.etree import ElementTree as Tree

import pytest

from tests.harness.checkers.faults import running
from tests.harness.judge import junit
from tests.harness.judge.verdict import judge
from tests.harness.results import Oracle, Results, Verdict, worst
from tests.unit.harness.tamper import bind, change_lines

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


def test_the_worst_verdict_counts_and_of_no_oracle_it_is_unknown() -> None:
    order = [PASS, UNKNOWN, FAIL]
    for verdicts in product(order, repeat=2):
        assert worst(verdicts) is max(verdicts, key=order.index)
    assert worst([]) is UNKNOWN
    assert [verdict.exit_code for verdict in (PASS, FAIL, UNKNOWN)] == [0, 1, 2]


def test_results_survive_json(pristine: Path) -> None:
    results = judge(pristine, write=False)
    assert Results.model_validate_json(results.model_dump_json()) == results


def test_junit_has_one_case_per_oracle_guard_and_control(run: Path) -> None:
    change_lines(run / "observed" / "accepted.jsonl", lambda rows: rows.pop())
    (run / "observed" / "quiet.json").unlink()
    bind(run)
    results = judge(run)
    suite = Tree.fromstring((run / "junit.xml").read_bytes())  # noqa: S314
    assert len(suite) == int(suite.attrib["tests"]) == len(results.oracles) + len(results.controls)
    by_name = {case.attrib["name"]: case for case in suite}
    failure, error = by_name["multiset"].find("failure"), by_name["quiet"].find("error")
    assert failure is not None and "missing id" in (failure.text or "")
    assert error is not None and "quiet.json" in (error.text or "")
    assert suite.attrib["errors"] == "1"
    assert by_name["spark_kafka_sink"].find("system-out") is not None


def test_junit_holds_evidence_that_xml_cannot() -> None:
    oracle = Oracle(name="multiset", number=1, verdict=FAIL, says="bad\x00<\ud800", evidence=("\x1b[31m",))
    xml = junit.to_xml(Results(claim="c", verdict=FAIL, seed=1, duration_s=0, oracles=(oracle,)))
    assert Tree.fromstring(xml)[0].attrib["classname"] == "oracle 1"  # noqa: S314


def _epoch(t: int, state: str, driver: int) -> dict[str, object]:
    return {"t": t, "event": "epoch", "epoch": 3, "state": state, "driver": driver}


@pytest.mark.parametrize(
    ("events", "spans"),
    [
        ([_epoch(1, "declared", 1), _epoch(5, "published", 1)], [(1, 5)]),
        ([_epoch(1, "declared", 1), _epoch(9, "published", 2)], [(1, 9)]),
        ([_epoch(1, "declared", 1), _epoch(4, "published", 2), _epoch(6, "published", 1)], [(1, 6)]),
        ([_epoch(1, "declared", 1), _epoch(5, "published", 1), _epoch(7, "published", 1)], [(1, 5)]),
        ([_epoch(1, "declared", 1), _epoch(3, "declared", 2), _epoch(8, "published", 2)], [(1, 8), (3, 8)]),
        ([_epoch(1, "declared", 1)], []),
        ([_epoch(1, "published", 1)], []),
    ],
)
def test_an_epoch_runs_from_declared_to_published(
    events: list[dict[str, object]], spans: list[tuple[int, int]]
) -> None:
    assert running(events, 3) == spans
    assert running(events, 4) == []
