"""The judge of a declared pipeline: a whole run passes, and each offence is found by the oracle that should."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers.case import Case
from tests.harness.checkers.declared_run import is_declared
from tests.harness.judge.again import differences, place_to_judge
from tests.harness.judge.verdict import judge
from tests.harness.results import OWN_PIPELINE
from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.fabricated_files import LATENESS_MS, WINDOW_MS, write_json, write_lines
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, expect_run
from tests.unit.harness.tamper import bind, document, history, lines_of, manifest, observed, watch
from tests.unit.harness.test_check import checked
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
        {"name": "visits", "kind": "lake", "of": "rows", "columns": COLUMNS, "totals": False},
    ],
    "aggregates": {"user_counts": {"by": "user", "values": {"count": ["sum", None]}}},
    "left_out": {"raw": "no JSON"},
}
Lines = list[dict[str, Any]]


def visit_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a topic as a lake table has it."""
    place = dict(zip(("topic", "partition", "offset"), row["source"], strict=True))
    return {"sink": "visits", **place, **{name: row[name] for name in COLUMNS}}


def declare(told: dict[str, Any]) -> None:
    """Say that the pipeline is somebody else's, and has a lake table."""
    told["settings"].update(campaign=OWN_PIPELINE)
    fields = told["schemas"]["accepted"]["fields"]
    place = {"topic": "text", "partition": "integer", "offset": "integer"}
    told["schemas"]["visits"] = {"kind": "lake", "fields": {**place, **{name: fields[name] for name in COLUMNS}}}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    accepted = lines_of(made / "observed" / "accepted.jsonl")
    write_lines(made / "observed" / "visits.jsonl", [visit_of(row) for row in accepted])
    manifest(declare)(made)
    return bind(made)


def test_a_kept_run_is_judged_again_by_its_own_judge(run: Path, tmp_path: Path) -> None:
    judge(run)
    kept = keep(run, tmp_path / KEPT)
    with place_to_judge(kept) as place:
        assert is_declared(Case(place))
        assert judge(place).verdict is PASS
        assert differences(kept, place) == []


def test_a_whole_run_passes_and_says_what_was_left_out(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = judge(run)
    assert is_declared(Case(run))
    assert results.verdict is PASS, results.reasons
    assert set(results.outputs) == {"accepted", "dead_letter", "user_counts", "global_counts", "visits"}
    assert all(output.observed and output.exact for output in results.outputs.values())
    assert results.workload.acknowledged == results.workload.sent > 0
    assert "not judged: raw" in results.oracle("multiset").says
    assert [one.number for one in results.oracles] == [1, 3, 4, 5, 7, *[0] * 10]
    assert results.oracles[-1].name == "minimum"
    assert checked(monkeypatch, run) == 0
    assert "PASS" in capsys.readouterr().out


OFFENCES: list[tuple[str, Callable[[Lines], object], str]] = [
    ("accepted", lambda rows: rows.pop(), "1 missing"),
    ("accepted", lambda rows: rows.append(rows[0]), "1 duplicated"),
    ("accepted", lambda rows: rows[0].update(source=["events", 0, 10**6]), "1 phantom"),
    ("accepted", lambda rows: rows[0].update(payload="another"), "1 corrupted"),
    ("accepted", lambda rows: rows[0].update(epoch=99), "1 corrupted"),
    ("accepted", lambda rows: rows[0]["message"].update(value='{"id":"x"}'), "1 phantom"),
    ("user_counts", lambda rows: rows[0].update(count=rows[0]["count"] + 1), "1 corrupted"),
    ("user_counts", lambda rows: rows[0].update(count=float(rows[0]["count"])), "1 corrupted"),
    ("global_counts", lambda rows: rows.pop(), "1 missing"),
    ("dead_letter", lambda rows: rows.pop(), "1 missing"),
    ("visits", lambda rows: rows.pop(), "1 missing"),
    ("visits", lambda rows: rows.append(rows[0]), "1 duplicated"),
    ("visits", lambda rows: rows[0].update(offset=10**6), "1 phantom"),
    ("visits", lambda rows: rows[0].update(payload="another"), "1 corrupted"),
    ("dead_letter", lambda rows: [row.update(encoding="base64") for row in rows], "is 'base64', due is 'utf-8'"),
]


def test_a_transform_that_says_something_else_now_fails(run: Path) -> None:
    observed("given", lambda rows: rows[0]["row"].update(payload="drawn by chance"))(run)
    results = expect_run(run, FAIL, "multiset", "payload is")
    assert [one.name for one in results.oracles if one.verdict is FAIL] == ["multiset"]


@pytest.mark.parametrize(("name", "change", "said"), OFFENCES)
@pytest.mark.thinned(3)
def test_an_offence_in_a_sink_fails(run: Path, name: str, change: Callable[[Lines], object], said: str) -> None:
    observed(name, change)(run)
    expect_run(run, FAIL, "multiset", said)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("accepted", lambda row: row["message"].update(key="x"), "key b'x', due is b'u"),
        ("accepted", lambda row: row["message"].update(headers=[["a", None]]), "headers [['a', None]]"),
        ("user_counts", lambda row: row.update(sum=-1), "with sum -1"),
        ("global_counts", lambda row: row.update(sum=-1), "with sum -1"),
    ],
)
def test_a_message_that_is_not_as_declared_fails(
    run: Path, name: str, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    observed(name, lambda rows: [change(row) for row in rows])(run)
    expect_run(run, FAIL, "messages", said)


def only_payloads(run: Path) -> None:
    """Let messages of accepted rows show nothing that key and partition depend on."""
    fields = {"payload": "text", "epoch": "integer", "source": "source"}
    manifest(lambda told: told["schemas"]["accepted"].update(fields=fields))(run)
    document("declaration", lambda told: told["sinks"][0].update(columns=["payload"]))(run)
    kept = ("sink", "payload", "epoch", "source", "message", "partition", "offset")
    observed("accepted", lambda rows: rows.__setitem__(slice(None), [{n: row[n] for n in kept} for row in rows]))(run)
    watch(run)


def test_key_and_partition_are_judged_by_columns_that_the_message_does_not_show(run: Path) -> None:
    only_payloads(run)
    assert "nothing tells" not in expect_run(run, PASS, "messages").oracle("messages").says
    observed("accepted", lambda rows: rows[0]["message"].update(key="x"))(run)
    expect(run, FAIL, "messages", "key b'x', due is b'u")


def test_a_key_that_nothing_tells_is_said_not_to_be_judged(run: Path) -> None:
    """What a recorded step adds is in no record, and only in messages that show it."""
    manifest(lambda told: told["schemas"]["accepted"].update(key="looked_up"))(run)
    expect(run, PASS, "messages", "nothing tells looked_up of accepted")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told.pop("schemas"), "recorded before messages were looked at whole"),
        (lambda told: told["schemas"].pop("accepted"), "schemas are not of the declared sinks"),
    ],
)
def test_without_schemas_messages_are_unknown(run: Path, change: Callable[[dict[str, Any]], object], said: str) -> None:
    manifest(change)(run)
    expect_run(run, UNKNOWN, "messages", said)


@pytest.mark.parametrize("count", ["in", "accepted", "late", "duplicate", "malformed"])
def test_a_count_that_is_one_off_does_not_add_up_and_is_not_the_references(run: Path, count: str) -> None:
    def change(chain: Any) -> None:
        chain["epochs"][2]["counts"][count] += 1

    document("chain", change)(run)
    expect(run, FAIL, "chain", "epoch 2: in is")
    expect(run, FAIL, "chain", f"epoch 2: counts.{count}")


def leave_out(run: Path) -> tuple[int, int]:
    """Let the transform leave out the last refused record, as if it had been so; return its epoch and its offset."""
    letter = [row for row in lines_of(run / "observed" / "dead_letter.jsonl") if row["reason"] != "late"][-1]
    place, number = letter["source"], letter["epoch"]

    def mark(rows: Lines) -> None:
        (row,) = (row for row in rows if row["source"] == place)
        row.update(reason=None, filtered="bot")

    def count(chain: Any) -> None:
        chain["epochs"][number]["counts"]["malformed"] -= 1
        chain["epochs"][number]["filtered"] = {"bot": 1}

    def tell(events: Lines) -> None:
        for event in events:
            if (event["event"], event.get("state"), event.get("epoch")) == ("epoch", "published", number):
                event.update(malformed=event["malformed"] - 1, filtered={"bot": 1})

    document("declaration", lambda told: told.update(filtered=["bot"]))(run)
    observed("given", mark)(run)
    observed("dead_letter", lambda rows: rows.remove(next(row for row in rows if row["source"] == place)))(run)
    document("chain", count)(run)
    history(tell)(run)
    return number, place[2]


def test_records_that_are_left_out_are_judged_by_their_number_and_are_due_nowhere(run: Path) -> None:
    number, _ = leave_out(run)
    results = judge(run, write=False)
    judged = [results.oracle(name) for name in ("multiset", "chain", "coverage")]
    assert {one.verdict for one in judged} == {PASS}, [one.says for one in judged]
    document("chain", lambda chain: chain["epochs"][number].update(filtered={"probe": 1}))(run)
    expect(run, FAIL, "chain", f"epoch {number}: filtered is {{'probe': 1}}, the reference says {{'bot': 1}}")
    expect(run, FAIL, "chain", f"epoch {number}: published with filtered {{'bot': 1}}")


def test_records_of_several_rows_are_judged_by_their_number(run: Path) -> None:
    def count(chain: Any) -> None:
        for record in chain["epochs"]:
            record["records"] = record["counts"]["in"]

    def tell(events: Lines) -> None:
        for event in events:
            if (event["event"], event.get("state")) == ("epoch", "published"):
                event["records"] = event["in"]

    document("declaration", lambda told: told.update(rows_max=2))(run)
    observed("given", lambda rows: [row.update(pos=0) for row in rows] and None)(run)
    expect(run, FAIL, "chain", "epoch 2: records is 0, the reference says")
    document("chain", count)(run)
    expect(run, FAIL, "chain", "epoch 2: published with records None")
    history(tell)(run)
    assert judge(run, write=False).oracle("chain").verdict == PASS
    expect(run, UNKNOWN, "coverage", "are not made of one record's")


def test_a_record_that_is_left_out_and_published_all_the_same_is_a_phantom(run: Path) -> None:
    _, offset = leave_out(run)
    observed("accepted", lambda rows: rows.append({**rows[-1], "source": [*rows[-1]["source"][:2], offset]}))(run)
    expect_run(run, FAIL, "multiset", "1 phantom")


def test_a_count_of_what_nobody_left_out_does_not_add_up(run: Path) -> None:
    document("chain", lambda chain: chain["epochs"][2].update(filtered={"bot": 1}))(run)
    expect(run, FAIL, "chain", "epoch 2: in is")
    expect(run, FAIL, "chain", "epoch 2: filtered is {'bot': 1}, the reference says {}")


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (lambda epochs: epochs[2].update(lineage="another"), "epoch 3: lineage"),
        (lambda epochs: [one.update(shards=3) for one in epochs], "epochs have 3 shards, set were 2"),
    ],
)
def test_what_no_chain_may_show_is_found_of_any_pipeline(
    run: Path, alter: Callable[[Lines], object], said: str
) -> None:
    document("chain", lambda chain: alter(chain["epochs"]))(run)
    expect(run, FAIL, "chain", said)


def test_an_acknowledged_record_that_the_topic_does_not_hold_leaves_it_unknown(run: Path) -> None:
    observed("given", lambda rows: rows.pop(0))(run)
    expect(run, UNKNOWN, "coverage", "which was acknowledged")


def test_a_run_that_broke_off_is_unknown_with_the_drivers_last_words(run: Path) -> None:
    ended_of_a_sink(run, 1)
    results = judge(run, broke_off="WaitTimedOutError: 5 drivers ended", write=False)
    told = results.oracle("history")
    assert (told.verdict, "5 drivers ended" in told.says) == (UNKNOWN, True), told.says
    assert "SinkError: no" in " ".join(told.evidence)


def test_a_pipeline_whose_drivers_are_all_refused_has_stopped_for_good(run: Path) -> None:
    ended_of_a_sink(run, 1, 2)
    results = judge(run, broke_off="2 drivers ended as a sink refused their rows", write=False)
    assert results.verdict is FAIL
    assert results.oracle("goes on").says == "the pipeline stopped for good: 2 drivers were refused"


def ended_of_a_sink(run: Path, *pids: int) -> None:
    """Drivers that a sink refused, in lines that the history does not count."""
    with (run / "history.jsonl").open("a") as file:
        for pid in pids:
            told = {"t": 1, "event": "driver", "state": "ended", "pid": pid, "says": "SinkError: no"}
            file.write(json.dumps(told) + "\n")


@pytest.mark.parametrize("name", ["given.jsonl", "declaration.json", "accepted.jsonl", "chain.json", "quiet.json"])
def test_evidence_that_is_not_there_leaves_it_unknown(run: Path, name: str) -> None:
    (run / "observed" / name).unlink()
    results = judge(run, write=False)
    assert results.verdict is UNKNOWN
    assert name in " ".join(results.reasons)


def test_a_run_without_its_declaration_is_not_taken_for_one_of_user_counts(run: Path) -> None:
    (run / "observed" / "declaration.json").unlink()
    bind(run)
    assert "declaration.json" in judge(run, write=False).oracle("multiset").says


def test_damaged_evidence_leaves_it_unknown(run: Path) -> None:
    observed("given", lambda rows: rows[0].pop("source"))(run)
    assert judge(run, write=False).verdict is UNKNOWN
    write_json(run / "observed" / "declaration.json", {"sinks": []})
    assert judge(run, write=False).verdict is UNKNOWN


def _alter_unbound(run: Path) -> None:
    path = run / "observed" / "given.jsonl"
    path.write_text(path.read_text() + "\n")


def _unread(run: Path) -> None:
    (run / "observed" / "user_counts.concurrent.jsonl").unlink()
    bind(run)


UNSTRUCK = history(lambda rows: [row.update(hit=False) for row in rows if row["event"] == "fault"])


@pytest.mark.parametrize(
    ("alter", "oracle", "said"),
    [
        (_alter_unbound, "bound", "given.jsonl is not as it was bound"),
        (_unread, "minimum", "there is none of user_counts"),
        (UNSTRUCK, "minimum", "a fault that hit, and 0 did"),
    ],
)
def test_what_a_run_is_worth_is_not_the_manifests_to_say(
    run: Path, alter: Callable[[Path], None], oracle: str, said: str
) -> None:
    alter(run)
    expect(run, UNKNOWN, oracle, said)
