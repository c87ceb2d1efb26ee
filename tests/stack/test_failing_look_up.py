"""The look-up of system usage on a real PostgreSQL: it fails at the set rate, and everything asked is logged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from effectively_once.sinks.database import DatabaseAddress
from effectively_once.sinks.tables import make
from effectively_once_jobs.system_usage import declare
from effectively_once_jobs.system_usage.store import LookUpError, ResultStore
from infra.embedded.postgres import PostgresServer
from tests.database import postgres
from tests.experiments.compare.figures import ASKED, COUNTED
from tests.experiments.compare.outputs import Outputs
from tests.harness.run_directory import RunDirectory

pytestmark = pytest.mark.stack
IDS = [f"i{n}" for n in range(40)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with postgres(tmp_path_factory.mktemp("postgres")) as started:
        Outputs(started).make((one, one.endswith("7")) for one in IDS)
        for who in ("one", "other", "counts"):
            for name, shape in declare().tables.items():
                make(DatabaseAddress(started.url), who, name, shape, 2)
        yield started


def answers(store: ResultStore, calls: int) -> list[bool]:
    """Ask so often; which calls were answered."""
    found = []
    for _ in range(calls):
        try:
            store.frauds(IDS[:2])
            found.append(True)
        except LookUpError as error:
            assert "gives no answer to call" in str(error)
            found.append(False)
    return found


def test_frauds_are_told_and_unknown_ids_left_out(server: PostgresServer) -> None:
    store = ResultStore(server.url, "one")
    assert store.frauds(["i7", "i8", "nobody"]) == {"i7": True, "i8": False}
    assert store.frauds(["nobody"]) == {}


def test_the_same_calls_fail_for_everybody_who_asks(server: PostgresServer, tmp_path: Path) -> None:
    outputs, found = Outputs(server), {}
    for who in ("one", "other"):
        outputs.fails(who, seed=7, rate=0.1)
        found[who] = answers(ResultStore(server.url, who), 200)
    outputs.fails("one", seed=8, rate=0.1)
    assert found["one"] == found["other"] != answers(ResultStore(server.url, "one"), 200)
    assert 8 <= found["one"].count(False) <= 35
    outputs.fails("other", seed=7, rate=0.0)
    assert all(answers(ResultStore(server.url, "other"), 50))
    run = RunDirectory(tmp_path)
    outputs.write(run, "other")
    # What failed was asked as well.
    assert {row["id"]: row["times"] for row in run.rows(ASKED)} == {"i0": 250, "i1": 250}
    assert [*run.rows("calls")] == [{"calls": 250, "failed": found["other"].count(False)}]


def test_what_is_counted_twice_is_there_twice_in_the_order_of_commits(server: PostgresServer, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": ["i2", "i7"],
            "user": ["u", "u"],
            "system": ["payments"] * 2,
            "event_time_ms": [61_000, 59_000],
            "partition": pa.array([0, 0], pa.int32()),
            "offset": [2, 7],
            "fraud": [0, 1],
        }
    )
    store = ResultStore(server.url, "counts")
    for _ in range(2):
        store.count(rows, 60_000)
    run = RunDirectory(tmp_path)
    Outputs(server).write(run, "counts")
    counted = [*run.rows(COUNTED)]
    assert [(row["id"], row["fraud"]) for row in counted] == [("i2", 0), ("i7", 1)] * 2
    assert counted[0]["at_ms"] == counted[1]["at_ms"] < counted[2]["at_ms"]
    usage = sorted((row["window_start_ms"], row["transactions"], row["frauds"]) for row in run.rows("usage"))
    assert usage == [(0, 1, 1), (0, 1, 1), (60_000, 1, 0), (60_000, 1, 0)]


def test_a_session_that_was_cut_off_is_followed_by_another(server: PostgresServer) -> None:
    store = ResultStore(server.url, "one")
    assert store.frauds(["i7"]) == {"i7": True}
    with server.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'system_usage one'"
        )
    with pytest.raises(LookUpError):
        store.frauds(["i7"])
    assert store.frauds(["i7"]) == {"i7": True}
