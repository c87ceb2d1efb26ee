"""What is sent to a pipeline that is not one of ours, and where it is struck."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from infra.embedded.job import Job
from tests.harness.cluster_sorts import CLUSTER
from tests.harness.conditions import USUAL
from tests.harness.definition.asked import Definition
from tests.harness.mixture import EMBEDDED, NoFaultError, parse_faults, steps_of
from tests.harness.play.planned import planned_faults
from tests.harness.portions import rows_of
from tests.harness.schedule import PlannedFault, Strike
from tests.harness.stall_sorts import READING, Steps

NONE: Any = None
SETTINGS = {"window_ms": 60_000, "lateness_ms": 120_000}
SAID: dict[str, Any] = {
    "declaration": {"attached": True, "aggregates": {"per_minute": {}}},
    "rows": ["accepted", "events"],
    "tables": ["events"],
    "lake": [],
    "defaults": {},
}


def plan(seed: int, strikes: Sequence[Strike], said: dict[str, Any], *, early: bool = False) -> list[PlannedFault]:
    return planned_faults(seed, strikes, USUAL, Definition(Job({}), NONE, said), early=early)


def steps(strike: Strike, said: dict[str, Any], *, early: bool = False) -> Steps:
    return steps_of(strike, **Definition(Job({}), NONE, said).steps(early=early))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    rows = [{"id": str(n), "at": 1_000 * n, "key": f"k{n % 7}", "amount": n} for n in range(600)]
    lines = [orjson.dumps(row).decode() for row in rows]
    lines[5] = "{broken"
    lines[6] = '{"id": "6", "key": "a", "at": "no time"}'
    path.write_text("\n".join(lines) + "\n")
    return path


def test_rows_are_sent_as_they_are_with_their_key(file: Path) -> None:
    subject = rows_of(file, "key", "at", parse_faults("executor-kill", 1), SETTINGS)
    first = list(islice(subject.records(), 7))
    assert (first[0].key, orjson.loads(first[0].value)) == (b"k0", {"id": "0", "at": 0, "key": "k0", "amount": 0})
    assert first[5].value == b"row-6: {broken"
    assert orjson.loads(first[6].value) == {"id": "6", "key": "a", "at": "no time"}


def test_each_fault_has_a_portion_and_those_undone_while_records_flow_have_more(file: Path) -> None:
    one = rows_of(file, "key", "at", parse_faults("executor-kill", 1), SETTINGS)
    more = rows_of(file, "key", "at", parse_faults("executor-kill,zombie", 1), SETTINGS)
    assert (one.portion, more.portion) == (600 // 4, 600 // 7)
    assert one.epoch_rows_max * 2 == one.portion
    assert (one.window_ms, one.lateness_ms) == (60_000, 120_000)


def test_a_seed_is_a_plan_at_steps_that_the_pipeline_announces() -> None:
    strikes = tuple(EMBEDDED.values())
    planned = plan(7, strikes, SAID)
    assert planned == plan(7, strikes, SAID) != plan(8, strikes, SAID)
    assert {one.sink for one in planned} <= {"accepted", "events", None}
    assert sorted(one.strike.kind for one in planned) == sorted(one.kind for one in strikes)


def test_faults_of_a_transaction_come_while_one_of_their_own_server_is_open() -> None:
    assert steps(EMBEDDED["broker-restart"], SAID) == (("transaction_open", "accepted"),)
    assert steps(EMBEDDED["database-kill"], SAID) == (("transaction_open", "events"), ("committed", "events"))


def test_a_pipeline_without_ids_and_windows_announces_neither() -> None:
    plain = {**SAID, "declaration": {"attached": False, "aggregates": {}}}
    assert {step for step, _ in steps(EMBEDDED["worker-kill"], plain)} == {"transaction_open", "committed"}
    assert ("declared", None) in steps(EMBEDDED["driver-kill"], plain)
    assert ("declared", None) not in steps(EMBEDDED["worker-kill"], plain)


def test_a_fault_without_a_transaction_to_come_at_is_refused() -> None:
    """There is none without topics and tables of rows, and none in topics that are at least once."""
    job = Job({"semantics": "at_least_once"})
    own = Definition(job, NONE, SAID).steps()
    assert {sink for _, sink in own["steps"] if sink} == set(SAID["tables"])
    assert own["opens"] == ()
    for definition in (Definition(job, NONE, SAID), Definition(Job({}), NONE, {**SAID, "rows": [], "tables": []})):
        with pytest.raises(NoFaultError, match=r"restart of the broker needs a transaction of rows.*leave it out"):
            planned_faults(1, parse_faults("broker-restart", 1), USUAL, definition)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("name", CLUSTER)
def test_every_sort_of_a_cluster_has_a_step_of_the_pipelines_own_to_come_at(name: str, early: bool) -> None:
    own = steps(CLUSTER[name], SAID, early=early)
    known = {("declared", None), ("ids_decided", None), ("windows_decided", None), *READING}
    commits = {(step, sink) for step in ("transaction_open", "committed") for sink in SAID["rows"]}
    assert own
    assert set(own) <= known | commits
    assert not early or ("windows_decided", None) not in own


def test_a_cut_comes_where_one_of_user_counts_does_in_topics_of_rows_of_any_name() -> None:
    said = {**SAID, "rows": ["clicks", "events"]}
    found = steps(CLUSTER["executor-broker-cut"], said)
    assert set(found) == {("declared", None), ("ids_decided", None), ("transaction_open", "clicks")}
    assert steps(EMBEDDED["database-cut"], said) == (("transaction_open", "events"),)
