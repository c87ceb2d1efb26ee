"""The output of both ways to effectively-once, on a real PostgreSQL: writing twice is as writing once, and is told."""

from __future__ import annotations

from pathlib import Path

from effectively_once.operate.create.needs import Needs, make_schema
from effectively_once_jobs.two_ways.running import Record
from effectively_once_jobs.two_ways.table import ResultTable, schema_of
from tests.database import postgres
from tests.experiments.two_ways.figures import RESULTS
from tests.experiments.two_ways.outputs import Outputs
from tests.harness.run_directory import RunDirectory


def make(database: str) -> None:
    make_schema(database, Needs(schema=schema_of("ways_test")), patience_s=10, say=print)


def test_a_record_stays_as_it_was_first_written_and_every_writing_is_counted(tmp_path: Path) -> None:
    with postgres(tmp_path) as server:
        outputs = Outputs(server)
        try:
            table = ResultTable(server.url, "ways_test")
            make(server.url)
            once, same, other = (Record(id_, "u", 5, amount) for id_, amount in (("a", 1), ("b", 2), ("c", 3)))
            table.write([once, same, other])
            table.write([same, Record("c", "u", 5, 4)])
            table.write([same, same])  # without a catalog a turn may hold copies
            table.write([])
            assert outputs.count("ways_test") == 3
            run = RunDirectory(tmp_path / "run")
            outputs.write(run, "ways_test")
            rows = {row["id"]: (row["amount"], row["times"], row["same"]) for row in run.rows(RESULTS)}
            assert rows == {"a": (1, 1, True), "b": (2, 4, True), "c": (3, 2, False)}
            make(server.url)
            assert outputs.count("ways_test") == 3, "what is there stays"
            outputs.drop("ways_test")
            make(server.url)
            assert outputs.count("ways_test") == 0
        finally:
            outputs.close()
