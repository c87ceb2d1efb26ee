"""A table of the accepted rows is judged like the topic that holds them, where the run has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.harness.judge.verdict import judge
from tests.harness.results import Results, Verdict
from tests.harness.run_directory import RunDirectory
from tests.harness.sinks import ACCEPTED_ROWS
from tests.unit.harness.fabricated_files import SCHEMAS
from tests.unit.harness.tamper import rebind

Row = dict[str, Any]


def with_table(run: Path, change: Callable[[list[Row]], object] = lambda _: None) -> Results:
    """Judge a run whose table holds what its topic does, changed."""
    directory = RunDirectory(run)
    manifest = orjson.loads(directory.manifest_path.read_bytes())
    manifest["settings"]["sinks"].append(ACCEPTED_ROWS)
    fields = {name: type_ for name, type_ in SCHEMAS["accepted"]["fields"].items() if name != "epoch"}
    manifest["schemas"][ACCEPTED_ROWS] = {"kind": "table", "fields": fields}
    directory.write_json(directory.manifest_path, manifest)
    kept = ("id", "user", "event_time_ms", "payload", "crc", "source")
    rows = [{name: row[name] for name in kept} for row in directory.rows("accepted")]
    change(rows)
    with directory.observed_writer(ACCEPTED_ROWS) as writer:
        for row in rows:
            writer.write({"sink": ACCEPTED_ROWS, **row})
    chain = orjson.loads(directory.chain_path.read_bytes())
    for epoch in chain["epochs"]:
        epoch["sinks"][ACCEPTED_ROWS] = epoch["sinks"].get("accepted", {})
    directory.write_json(directory.chain_path, chain)
    epilogue = orjson.loads(directory.epilogue_path.read_bytes())
    for boundary in (epilogue["boundary"], *epilogue["closing"].values()):
        boundary[ACCEPTED_ROWS] = len(rows)
    directory.write_json(directory.epilogue_path, epilogue)
    rebind(directory.epilogue_path)
    return judge(run, write=False)


def test_a_table_that_holds_what_is_due_passes(run: Path) -> None:
    results = with_table(run)
    assert results.verdict is Verdict.PASS, results.reasons
    assert results.outputs[ACCEPTED_ROWS].observed == results.outputs["accepted"].observed > 0


@pytest.mark.parametrize(
    ("change", "sort"),
    [
        (lambda rows: rows.pop(3), "missing"),
        (lambda rows: rows.append(rows[3]), "duplicated"),
        (lambda rows: rows.append({**rows[3], "id": "nobody's"}), "phantom"),
        (lambda rows: rows[3].update(payload="other"), "corrupted"),
        (lambda rows: rows[3].update(source=rows[4]["source"]), "corrupted"),
    ],
    ids=["missing", "duplicated", "phantom", "altered", "of another copy"],
)
def test_a_table_that_holds_something_else_fails(run: Path, change: Callable[[list[Row]], object], sort: str) -> None:
    results = with_table(run, change)
    assert results.oracle("multiset").verdict is Verdict.FAIL
    assert getattr(results.outputs[ACCEPTED_ROWS], sort) == 1
    assert results.outputs["accepted"].exact


def test_a_table_with_a_column_more_fails(run: Path) -> None:
    results = with_table(run, lambda rows: [row.update(sum=-1) for row in rows])
    assert results.oracle("messages").verdict is Verdict.FAIL
    assert "accepted_rows: id p0-s0-000000" in results.oracle("messages").evidence[0]
    assert "with sum -1" in results.oracle("messages").evidence[0]


def test_a_table_that_was_not_read_is_unknown(run: Path) -> None:
    with_table(run)
    RunDirectory(run).observed_path(ACCEPTED_ROWS).unlink()
    assert judge(run, write=False).oracle("multiset").verdict is Verdict.UNKNOWN
