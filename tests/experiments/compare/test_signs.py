"""What a comparison is judged by: each promise, broken, comes out as fail; what shows nothing, as unknown."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from effectively_once_jobs.system_usage.settings import (
    ACKNOWLEDGED,
    ALL,
    AT_MOST_ONCE,
    CHECKPOINTED,
    EXACTLY_ONCE,
    Semantics,
)
from tests.experiments.compare.fabricate import PLAN, Rows, made
from tests.experiments.compare.figures import FACTS
from tests.experiments.compare.results import ended, judge, main, write
from tests.harness.results import Verdict


def failing(path: Path) -> list[tuple[str, bool]]:
    return [(f"{sign.semantics} {sign.says}", sign.promise) for sign in judge(path).signs if not sign.holds]


def test_a_play_without_surprises_passes_and_its_figures_are_what_happened(tmp_path: Path) -> None:
    results = judge(made(tmp_path / "run"))
    assert results.verdict is Verdict.PASS, failing(tmp_path / "run")
    most, acknowledged, checkpointed, exactly = results.arms
    assert (most.lost, most.doubled, most.error("transactions")) == (40, 0, -40)
    assert (acknowledged.lost, acknowledged.doubled, acknowledged.error("transactions")) == (0, 5, 5)
    assert (checkpointed.lost, checkpointed.doubled, checkpointed.out_of_order) == (0, 40, 0)
    assert acknowledged.out_of_order >= acknowledged.replayed_late > 0
    assert exactly.usage == exactly.due == exactly.counted
    assert exactly.delivered == {1: exactly.due.transactions}
    assert exactly.calm is not None
    assert (exactly.calm.p50_ms, exactly.calm.max_ms) == (500.0, 500.0)
    assert acknowledged.struck is not None
    assert (acknowledged.struck.p50_ms, acknowledged.struck.max_ms) == (500.0, 20_500.0)
    assert exactly.cpu_s_per_1000 == 5.0


@pytest.mark.parametrize(
    ("broken", "change", "says"),
    [
        (AT_MOST_ONCE, lambda rows: [*rows, *rows[:50]], "at_most_once never over-counts"),
        (AT_MOST_ONCE, lambda rows: [*rows, rows[0]], "at_most_once processes and counts no event twice"),
        (ACKNOWLEDGED, lambda rows: rows[:-50], "at_least_once_acknowledged never under-counts"),
        (CHECKPOINTED, lambda rows: rows[1:], "at_least_once_checkpointed loses no event"),
        (EXACTLY_ONCE, lambda rows: rows[1:], "exactly_once loses no event"),
        (EXACTLY_ONCE, lambda rows: [*rows, rows[7]], "exactly_once counts no event twice"),
        (EXACTLY_ONCE, lambda rows: [*rows[1:], rows[7]], "exactly_once loses no event"),
        (EXACTLY_ONCE, lambda rows: [*rows, rows[7]], "exactly_once equals"),
        (EXACTLY_ONCE, lambda rows: [{**rows[0], "fraud": 1 - rows[0]["fraud"]}, *rows[1:]], "exactly_once equals"),
        (
            CHECKPOINTED,
            lambda rows: [*rows, {**rows[0], "id": "never sent"}],
            "at_least_once_checkpointed counts nothing that was not sent, nor otherwise than the result store has it",
        ),
    ],
)
def test_a_broken_promise_fails(tmp_path: Path, broken: Semantics, change: object, says: str) -> None:
    def damage(semantics: Semantics, rows: Rows) -> Rows:
        changed: Rows = change(rows) if semantics == broken else rows  # type: ignore[operator]
        return changed

    path = made(tmp_path / "run", damage)
    assert (says, True) in failing(path)
    assert judge(path).verdict is Verdict.FAIL


@pytest.mark.parametrize("count", ["in", "accepted", "late", "duplicate", "malformed"])
def test_a_count_of_one_epoch_that_is_one_off_fails(tmp_path: Path, count: str) -> None:
    path = made(tmp_path / "run")
    history = path / EXACTLY_ONCE / "history.jsonl"
    lines = [orjson.loads(line) for line in history.read_bytes().splitlines()]
    next(line for line in lines if line.get("state") == "published")[count] += 1
    history.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    says = "exactly_once accounts for every record: in = on time + late + duplicate + malformed"
    assert failing(path) == [(says, True)]
    assert judge(path).verdict is Verdict.FAIL


def test_a_state_that_is_off_fails(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    facts = path / CHECKPOINTED / FACTS
    whole = orjson.loads(facts.read_bytes())
    whole["state"]["frauds"] += 1
    facts.write_bytes(orjson.dumps(whole))
    says = "at_least_once_checkpointed has the state of its operator right, whatever was done outside of it"
    assert failing(path) == [(says, True)]
    assert judge(path).verdict is Verdict.FAIL


def whole(semantics: Semantics, rows: Rows) -> Rows:
    """Every event once and in order, but for those that at most once has lost."""
    once = {row["id"]: row for row in rows}.values()
    return sorted(once, key=lambda row: (row["partition"], row["offset"]))


def test_without_anything_doubled_or_out_of_order_nothing_is_shown(tmp_path: Path) -> None:
    path = made(tmp_path / "run", whole)
    assert failing(path) == [
        ("at_least_once_acknowledged events were counted again", False),
        ("at_least_once_acknowledged replays came out of order", False),
        ("at_least_once_checkpointed events were counted again", False),
    ]
    assert judge(path).verdict is Verdict.UNKNOWN


def test_a_kill_that_missed_makes_it_unknown(tmp_path: Path) -> None:
    path = made(tmp_path / "run", kills_hit=PLAN.kills - 1)
    assert {says.partition(" ")[2] for says, _ in failing(path)} == {"every kill hit a running batch"}
    assert judge(path).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("file", ["observed/counted.jsonl", "sent.jsonl", FACTS, "history.jsonl"])
def test_an_arm_without_evidence_makes_it_unknown(tmp_path: Path, file: str) -> None:
    path = made(tmp_path / "run")
    (path / EXACTLY_ONCE / file).unlink()
    results = judge(path)
    assert [*results.unread] == [EXACTLY_ONCE]
    assert results.verdict is Verdict.UNKNOWN


def test_a_run_is_judged_again_from_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "run")
    results = write(path)
    assert main([str(path), "--to", str(tmp_path / "kept")]) == 0
    kept = {one.name for one in (tmp_path / "kept").iterdir()}
    assert {"manifest.json", "results.json", "table.md", "page.html", "latency.svg"} < kept
    assert (path / "results.json").read_text().startswith("{")
    told = capsys.readouterr().out
    assert "✓ at most once never over-counts: transactions -40" in told
    assert told.rstrip().endswith("PASS, seed 7")
    page = (path / "page.html").read_text()
    assert page.count("<svg") == 6
    assert "exactly once" in page
    assert results.verdict is Verdict.PASS
    assert main([str(tmp_path)]) == 2


def test_an_arm_that_broke_off_is_played_again_and_keeps_the_run_unknown(tmp_path: Path) -> None:
    path = made(tmp_path / "run")
    assert all(ended(path / semantics) for semantics in ALL)
    facts = path / ACKNOWLEDGED / FACTS
    facts.write_bytes(orjson.dumps({**orjson.loads(facts.read_bytes()), "broke_off": "nothing came"}))
    assert not ended(path / ACKNOWLEDGED)
    assert not ended(path / "never begun")
    assert judge(path).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("left_out", [-1, 1])
def test_a_history_that_lacks_a_line_is_none_to_judge(tmp_path: Path, left_out: int) -> None:
    """The end among them: a line in the middle was what is counted, and its lack lowers a figure."""
    path = made(tmp_path / "run")
    history = path / AT_MOST_ONCE / "history.jsonl"
    lines = history.read_bytes().splitlines(keepends=True)
    del lines[left_out]
    history.write_bytes(b"".join(lines))
    results = judge(path)
    assert "does not come to its end" in results.unread[AT_MOST_ONCE]
    assert results.verdict is Verdict.UNKNOWN
