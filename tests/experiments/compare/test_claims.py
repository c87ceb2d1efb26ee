"""What a comparison is judged by: each promise, broken, comes out as fail; what shows nothing, as unknown."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import orjson
import pytest

from effectively_once_jobs.system_usage.settings import (
    ACKNOWLEDGED,
    AT_MOST_ONCE,
    CHECKPOINTED,
    EXACTLY_ONCE,
    Semantics,
)
from tests.experiments import fabricate
from tests.experiments.compare.experiment import EXPERIMENT
from tests.experiments.compare.fabricate import PLAN, fabricate_run
from tests.experiments.fabricate import Rows, change_facts, change_rows
from tests.experiments.figures import FACTS
from tests.harness.results import Verdict

judge = partial(fabricate.judge, EXPERIMENT)


def test_a_play_without_surprises_passes_and_its_figures_are_what_happened(tmp_path: Path) -> None:
    results = EXPERIMENT.judge(fabricate_run(tmp_path / "run"))
    assert results.verdict is Verdict.PASS, fabricate.failing(results)
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
@pytest.mark.thinned(3)
def test_a_broken_promise_fails(tmp_path: Path, broken: Semantics, change: object, says: str) -> None:
    def damage(semantics: Semantics, rows: Rows) -> Rows:
        changed: Rows = change(rows) if semantics == broken else rows  # type: ignore[operator]
        return changed

    failing, verdict = judge(fabricate_run(tmp_path / "run", damage))
    assert (says, True) in failing
    assert verdict is Verdict.FAIL


@pytest.mark.parametrize("count", ["in", "accepted", "late", "duplicate", "malformed"])
def test_a_count_of_one_epoch_that_is_one_off_fails(tmp_path: Path, count: str) -> None:
    path = fabricate_run(tmp_path / "run")

    def one_more(rows: Rows) -> None:
        next(row for row in rows if row.get("state") == "published")[count] += 1

    change_rows(path / EXACTLY_ONCE / "history.jsonl", one_more)
    says = "exactly_once accounts for every record: in = on time + late + duplicate + malformed"
    assert judge(path) == ([(says, True)], Verdict.FAIL)


def test_a_state_that_is_off_fails(tmp_path: Path) -> None:
    path = fabricate_run(tmp_path / "run")
    state = orjson.loads((path / CHECKPOINTED / FACTS).read_bytes())["state"]
    change_facts(path / CHECKPOINTED, state={**state, "frauds": state["frauds"] + 1})
    says = "at_least_once_checkpointed has the state of its operator right, whatever was done outside of it"
    assert judge(path) == ([(says, True)], Verdict.FAIL)


def whole(semantics: Semantics, rows: Rows) -> Rows:
    """Every event once and in order, but for those that at most once has lost."""
    once = {row["id"]: row for row in rows}.values()
    return sorted(once, key=lambda row: (row["partition"], row["offset"]))


def test_without_anything_doubled_or_out_of_order_nothing_is_shown(tmp_path: Path) -> None:
    unshown = [
        ("at_least_once_acknowledged events were counted again", False),
        ("at_least_once_acknowledged replays came out of order", False),
        ("at_least_once_checkpointed events were counted again", False),
    ]
    assert judge(fabricate_run(tmp_path / "run", whole)) == (unshown, Verdict.UNKNOWN)


def test_a_kill_that_missed_makes_it_unknown(tmp_path: Path) -> None:
    failing, verdict = judge(fabricate_run(tmp_path / "run", kills_hit=PLAN.kills - 1))
    assert {says.partition(" ")[2] for says, _ in failing} == {"every kill hit a running batch"}
    assert verdict is Verdict.UNKNOWN
