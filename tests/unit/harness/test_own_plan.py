"""What is sent to a pipeline that is not one of ours, and where it is struck."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.harness.mixture import EMBEDDED, NoFaultError, asked_for
from tests.harness.own_plan import plan, steps_of, subject_of

SETTINGS = {"window_ms": 60_000, "lateness_ms": 120_000}
SAID: dict[str, Any] = {
    "declaration": {"attached": True, "aggregates": {"per_minute": {}}},
    "rows": ["accepted", "events"],
    "tables": ["events"],
}


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
    subject = subject_of(file, "key", "at", asked_for("executor-kill", 1), SETTINGS)
    first = list(islice(subject.records(), 7))
    assert (first[0].key, orjson.loads(first[0].value)) == (b"k0", {"id": "0", "at": 0, "key": "k0", "amount": 0})
    assert first[5].value == b"row-6: {broken"
    assert orjson.loads(first[6].value) == {"id": "6", "key": "a", "at": "no time"}


def test_each_fault_has_a_portion_and_those_undone_while_records_flow_have_more(file: Path) -> None:
    one = subject_of(file, "key", "at", asked_for("executor-kill", 1), SETTINGS)
    more = subject_of(file, "key", "at", asked_for("executor-kill,zombie", 1), SETTINGS)
    assert (one.portion, more.portion) == (600 // 4, 600 // 7)
    assert one.epoch_rows_max * 2 == one.portion
    assert (one.window_ms, one.lateness_ms) == (60_000, 120_000)


def test_a_seed_is_a_plan_at_steps_that_the_pipeline_announces() -> None:
    strikes = tuple(EMBEDDED.values())
    planned = plan(7, strikes, 2, SAID)
    assert planned == plan(7, strikes, 2, SAID) != plan(8, strikes, 2, SAID)
    assert {one.sink for one in planned} <= {"accepted", "events", None}
    assert sorted(one.strike.kind for one in planned) == sorted(one.kind for one in strikes)


def test_faults_of_a_transaction_come_while_one_of_their_own_server_is_open() -> None:
    assert steps_of(EMBEDDED["broker-restart"], SAID) == (("transaction_open", "accepted"),)
    assert steps_of(EMBEDDED["database-kill"], SAID) == (("transaction_open", "events"), ("committed", "events"))


def test_a_pipeline_without_ids_and_windows_announces_neither() -> None:
    plain = {**SAID, "declaration": {"attached": False, "aggregates": {}}}
    assert {step for step, _ in steps_of(EMBEDDED["worker-kill"], plain)} == {"transaction_open", "committed"}
    assert ("declared", None) in steps_of(EMBEDDED["driver-kill"], plain)
    assert ("declared", None) not in steps_of(EMBEDDED["worker-kill"], plain)


def test_a_fault_without_a_step_to_come_at_is_refused() -> None:
    files = {**SAID, "rows": [], "tables": []}
    with pytest.raises(
        NoFaultError, match=r"restart of the broker needs a transaction of rows.*leave it out of FAULTS"
    ):
        plan(1, asked_for("broker-restart", 1), 2, files)
