"""The judge of a declared pipeline: a whole run passes, and each offence is found by the oracle that should."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.case import Case
from tests.harness.checkers.declared_run import is_declared
from tests.harness.judge.again import differences, place_to_judge
from tests.harness.judge.verdict import judge
from tests.harness.results import OWN_PIPELINE, Results, Verdict
from tests.unit.command import call
from tests.unit.harness.fabricate import LATENESS_MS, WINDOW_MS, fabricate
from tests.unit.harness.fabricated_files import write_json, write_lines
from tests.unit.harness.tamper import bind, change_json, change_lines, lines_of, rebind, watch
from tests.unit.harness.test_rejudge import KEPT, keep

COLUMNS = ("id", "user", "event_time_ms", "payload", "crc")
DECLARATION = {
    "pipeline": "user_counts",
    "attached": True,
    "timed": True,
    "window_ms": WINDOW_MS,
    "lateness_ms": LATENESS_MS,
    "sinks": [
        {"name": "accepted", "kind": "kafka", "of": "rows", "columns": COLUMNS, "totals": False},
        {"name": "dead_letter", "kind": "kafka", "of": "dead_letter", "columns": [], "totals": False},
        {"name": "user_counts", "kind": "kafka", "of": "user_counts", "columns": ["user", "count"], "totals": False},
        {"name": "global_counts", "kind": "files", "of": "user_counts", "columns": ["count"], "totals": True},
    ],
    "aggregates": {"user_counts": {"by": "user", "values": {"count": ["sum", None]}}},
    "left_out": {"raw": "no JSON"},
}
Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `user_counts` as if it were somebody else's: with what its transform gave of every record."""
    made = watch(fabricate(tmp_path_factory.mktemp("own") / "run"))
    letters = {tuple(row["source"]): row for row in lines_of(made / "observed" / "dead_letter.jsonl")}
    given = []
    for row in lines_of(made / "sent.jsonl"):
        place = (row["topic"], row["partition"], row["offset"])
        reason = row["reason"] if row["reason"] not in (None, "late") else None
        columns = {name: row[name] for name in COLUMNS}
        value = {name: letters[place][name] if place in letters else "" for name in ("value", "encoding")}
        given.append({"source": place, "reason": reason, "row": columns, **value})
    write_lines(made / "observed" / "given.jsonl", given)
    write_json(made / "observed" / "declaration.json", DECLARATION)
    change_json(made / "manifest.json", lambda manifest: manifest["settings"].update(campaign=OWN_PIPELINE))
    return bind(made)


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be tampered with."""
    return Path(shutil.copytree(whole, tmp_path / whole.name))


def test_a_kept_run_is_judged_again_by_its_own_judge(run: Path, tmp_path: Path) -> None:
    judge(run)
    kept = keep(run, tmp_path / KEPT)
    with place_to_judge(kept) as place:
        assert is_declared(Case(place))
        assert judge(place).verdict is Verdict.PASS
        assert differences(kept, place) == []


def changed(run: Path, name: str, change: Callable[[Lines], object]) -> Results:
    path = run / "observed" / name
    rows = lines_of(path)
    change(rows)
    write_lines(path, rows)
    rebind(path)
    return judge(run, write=False)


def failed(results: Results) -> list[str]:
    return [one.name for one in results.oracles if one.verdict is Verdict.FAIL]


def test_a_whole_run_passes_and_says_what_was_left_out(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = judge(run)
    assert is_declared(Case(run))
    assert results.verdict is Verdict.PASS, results.reasons
    assert set(results.outputs) == {"accepted", "dead_letter", "user_counts", "global_counts"}
    assert all(output.observed and output.exact for output in results.outputs.values())
    assert results.workload.acknowledged == results.workload.sent > 0
    assert "not judged: raw" in results.oracle("multiset").says
    assert [one.number for one in results.oracles] == [1, 3, 4, 5, 7, *[0] * 10]
    assert results.oracles[-1].name == "minimum"
    assert call(monkeypatch, "check", "--run", str(run)) == 0
    assert "PASS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "change", "sort"),
    [
        ("accepted.jsonl", lambda rows: rows.pop(), "1 missing"),
        ("accepted.jsonl", lambda rows: rows.append(rows[0]), "1 duplicated"),
        ("accepted.jsonl", lambda rows: rows[0].update(source=["events", 0, 10**6]), "1 phantom"),
        ("accepted.jsonl", lambda rows: rows[0].update(payload="another"), "1 corrupted"),
        ("accepted.jsonl", lambda rows: rows[0].update(epoch=99), "1 corrupted"),
        ("accepted.jsonl", lambda rows: rows[0]["message"].update(value='{"id":"x"}'), "1 phantom"),
        ("user_counts.jsonl", lambda rows: rows[0].update(count=rows[0]["count"] + 1), "1 corrupted"),
        ("user_counts.jsonl", lambda rows: rows[0].update(count=float(rows[0]["count"])), "1 corrupted"),
        ("global_counts.jsonl", lambda rows: rows.pop(), "1 missing"),
        ("dead_letter.jsonl", lambda rows: rows.pop(), "1 missing"),
    ],
)
def test_an_offence_in_a_sink_fails(run: Path, name: str, change: Callable[[Lines], object], sort: str) -> None:
    results = changed(run, name, change)
    assert "multiset" in failed(results)
    assert sort in results.oracle("multiset").says


@pytest.mark.parametrize(
    ("name", "change", "oracle", "said"),
    [
        ("accepted", lambda row: row["message"].update(key="x"), "messages", "key b'x', due is b'u"),
        ("accepted", lambda row: row["message"].update(headers=[["a", None]]), "messages", "headers [['a', None]]"),
        ("user_counts", lambda row: row.update(sum=-1), "messages", "with sum -1"),
        ("global_counts", lambda row: row.update(sum=-1), "messages", "with sum -1"),
        ("dead_letter", lambda row: row.update(encoding="base64"), "multiset", "encoding is 'base64', due is 'utf-8'"),
    ],
)
def test_a_message_that_is_not_as_declared_fails(
    run: Path, name: str, change: Callable[[dict[str, Any]], object], oracle: str, said: str
) -> None:
    results = changed(run, f"{name}.jsonl", lambda rows: [change(row) for row in rows])
    assert oracle in failed(results)
    assert any(said in line for line in results.oracle(oracle).evidence)


def only_payloads(run: Path) -> None:
    """Let messages of accepted rows show nothing that key and partition depend on."""
    fields = {"payload": "text", "epoch": "integer", "source": "source"}
    change_json(run / "manifest.json", lambda document: document["schemas"]["accepted"].update(fields=fields))
    declaration = run / "observed" / "declaration.json"
    change_json(declaration, lambda document: document["sinks"][0].update(columns=["payload"]))
    kept = ("sink", "payload", "epoch", "source", "message", "partition", "offset")
    path = run / "observed" / "accepted.jsonl"
    write_lines(path, [{name: row[name] for name in kept} for row in lines_of(path)])
    watch(run)


def test_key_and_partition_are_judged_by_columns_that_the_message_does_not_show(run: Path) -> None:
    only_payloads(run)
    results = judge(run, write=False)
    assert results.verdict is Verdict.PASS, results.reasons
    assert "nothing tells" not in results.oracle("messages").says
    results = changed(run, "accepted.jsonl", lambda rows: rows[0]["message"].update(key="x"))
    assert "key b'x', due is b'u" in results.oracle("messages").evidence[0]


def test_a_key_that_nothing_tells_is_said_not_to_be_judged(run: Path) -> None:
    """What a recorded step adds is in no record, and only in messages that show it."""
    change_json(run / "manifest.json", lambda document: document["schemas"]["accepted"].update(key="looked_up"))
    oracle = judge(run, write=False).oracle("messages")
    assert oracle.verdict is Verdict.PASS
    assert oracle.says.endswith("nothing tells looked_up of accepted")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda document: document.pop("schemas"), "recorded before messages were looked at whole"),
        (lambda document: document["schemas"].pop("accepted"), "schemas are not of the declared sinks"),
    ],
)
def test_without_schemas_messages_are_unknown(run: Path, change: Callable[[dict[str, Any]], object], said: str) -> None:
    change_json(run / "manifest.json", change)
    results = judge(run, write=False)
    assert results.verdict is Verdict.UNKNOWN
    assert said in results.oracle("messages").says


def test_a_transform_that_says_something_else_now_fails(run: Path) -> None:
    results = changed(run, "given.jsonl", lambda rows: rows[0]["row"].update(payload="drawn by chance"))
    assert failed(results) == ["multiset"]
    assert "payload is" in results.oracle("multiset").evidence[0]


def test_numbers_of_an_epoch_that_are_not_the_references_fail(run: Path) -> None:
    path = run / "observed" / "chain.json"
    chain = json.loads(path.read_text())
    chain["epochs"][2]["counts"]["duplicate"] += 1
    write_json(path, chain)
    results = judge(run, write=False)
    assert "chain" in failed(results)
    assert "epoch 2: counts.duplicate" in " ".join(results.oracle("chain").evidence)


@pytest.mark.parametrize("count", ["in", "accepted", "late", "duplicate", "malformed"])
def test_a_count_that_is_one_off_does_not_add_up(run: Path, count: str) -> None:
    path = run / "observed" / "chain.json"
    chain = json.loads(path.read_text())
    chain["epochs"][2]["counts"][count] += 1
    write_json(path, chain)
    results = judge(run, write=False)
    assert "chain" in failed(results)
    assert "epoch 2: in is" in " ".join(results.oracle("chain").evidence)


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (lambda epochs: epochs[2].update(lineage="another"), "epoch 3: lineage"),
        (lambda epochs: [one.update(shards=3) for one in epochs], "epoch 0: 3 shards, of 2"),
    ],
)
def test_what_no_chain_may_show_is_found_of_any_pipeline(
    run: Path, alter: Callable[[Lines], object], said: str
) -> None:
    change_json(run / "observed" / "chain.json", lambda chain: alter(chain["epochs"]))
    oracle = judge(run, write=False).oracle("chain")
    assert oracle.verdict is Verdict.FAIL
    assert any(said in line for line in oracle.evidence), oracle.evidence


def test_an_acknowledged_record_that_the_topic_does_not_hold_leaves_it_unknown(run: Path) -> None:
    results = changed(run, "given.jsonl", lambda rows: rows.pop(0))
    assert results.oracle("coverage").verdict is Verdict.UNKNOWN
    assert "which was acknowledged" in results.oracle("coverage").says


def test_a_run_that_broke_off_is_unknown_with_the_drivers_last_words(run: Path) -> None:
    with (run / "history.jsonl").open("a") as history:
        history.write(
            json.dumps({"t": 1, "event": "driver", "state": "ended", "pid": 1, "says": "SinkError: no"}) + "\n"
        )
    results = judge(run, broke_off="WaitTimedOutError: 5 drivers ended", write=False)
    history_ = results.oracle("history")
    assert history_.verdict is Verdict.UNKNOWN
    assert "5 drivers ended" in history_.says
    assert "SinkError: no" in " ".join(history_.evidence)


def test_a_pipeline_whose_drivers_are_all_refused_has_stopped_for_good(run: Path) -> None:
    refusals = [{"t": 1, "event": "driver", "state": "ended", "pid": pid, "says": "SinkError: no"} for pid in (1, 2)]
    with (run / "history.jsonl").open("a") as history:
        history.writelines(json.dumps(one) + "\n" for one in refusals)
    results = judge(run, broke_off="2 drivers ended as a sink refused their rows", write=False)
    assert results.verdict is Verdict.FAIL
    assert results.oracle("goes on").says == "the pipeline stopped for good: 2 drivers were refused"


@pytest.mark.parametrize("name", ["given.jsonl", "declaration.json", "accepted.jsonl", "chain.json", "quiet.json"])
def test_evidence_that_is_not_there_leaves_it_unknown(run: Path, name: str) -> None:
    (run / "observed" / name).unlink()
    results = judge(run, write=False)
    assert results.verdict is Verdict.UNKNOWN
    assert name in " ".join(results.reasons)


def test_a_run_without_its_declaration_is_not_taken_for_one_of_user_counts(run: Path) -> None:
    (run / "observed" / "declaration.json").unlink()
    bind(run)
    assert "declaration.json" in judge(run, write=False).oracle("multiset").says


def test_damaged_evidence_leaves_it_unknown(run: Path) -> None:
    assert changed(run, "given.jsonl", lambda rows: rows[0].pop("source")).verdict is Verdict.UNKNOWN
    write_json(run / "observed" / "declaration.json", {"sinks": []})
    assert judge(run, write=False).verdict is Verdict.UNKNOWN


def _altered_unbound(run: Path) -> None:
    path = run / "observed" / "given.jsonl"
    path.write_text(path.read_text() + "\n")


def _unread(run: Path) -> None:
    (run / "observed" / "user_counts.concurrent.jsonl").unlink()
    bind(run)


def _unstruck(run: Path) -> None:
    change_lines(run / "history.jsonl", lambda rows: [row.update(hit=False) for row in rows if row["event"] == "fault"])


@pytest.mark.parametrize(
    ("alter", "oracle", "said"),
    [
        (_altered_unbound, "bound", "given.jsonl is not as it was bound"),
        (_unread, "minimum", "there is none of user_counts"),
        (_unstruck, "minimum", "a fault that hit, and 0 did"),
    ],
)
def test_what_a_run_is_worth_is_not_the_manifests_to_say(
    run: Path, alter: Callable[[Path], None], oracle: str, said: str
) -> None:
    alter(run)
    found = judge(run, write=False).oracle(oracle)
    assert (found.verdict, said in found.says) == (Verdict.UNKNOWN, True), found.says
