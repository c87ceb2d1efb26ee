"""A run of optimisations passes as it should be, and each thing that can be wrong with it is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from tests.bench.optimisations_table import AS_IS, EPOCH, FUSION, QUERY
from tests.experiments.optimisations.fabricate import EXECUTORS, PLAN, log_of, logged, made
from tests.experiments.optimisations.figures import COUNTED, FACTS, Figures, answered_wrong, published_wrong
from tests.experiments.optimisations.page import html, markdown, plans
from tests.experiments.optimisations.plan import ACTORS, ARMS, ROUND
from tests.experiments.optimisations.results import Optimisations, judge, main, write
from tests.experiments.optimisations.signs import signs, verdict
from tests.harness.results import Verdict

QUERIES, PLAIN, UNFUSED, UNCOMBINED = ACTORS


def failing(results: Optimisations) -> list[str]:
    return [f"{one.part}, {one.arm} {one.says}" for one in results.signs if not one.holds]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made(tmp_path / "run")


def test_a_run_without_surprises_passes_and_shows_both_optimisations(run: Path) -> None:
    results = judge(run)
    assert (failing(results), results.unread, results.verdict) == ([], {}, Verdict.PASS)
    arms = {(one.part, one.arm): one for one in results.arms}
    assert [*arms] == [(part, arm) for part in ARMS for arm in ARMS[part]]
    query, epoch = arms[QUERY, AS_IS], arms[EPOCH, AS_IS]
    assert (query.stages, query.shuffled_records, query.shuffled_bytes) == (3, 480, 4_800)
    assert (query.tasks, query.elsewhere) == ({"exec-1@uid-1": 3, "exec-2@uid-2": 3}, 0)
    assert (query.windows, epoch.windows) == (len(PLAN.events.per_window(copies=True)), 11)


def of_query(run: Path, change: Callable[[list[list[int]]], None]) -> None:
    """Change what the query answered not fused."""
    history = run / QUERIES.name / "history.jsonl"
    events = [orjson.loads(line) for line in history.read_bytes().splitlines()]
    change(next(one for one in events if one.get("arm") == FUSION)["found"])
    history.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in events))


def test_a_query_with_other_counts_fails(run: Path) -> None:
    def one_less(found: list[list[int]]) -> None:
        found[0][1] -= 1

    of_query(run, one_less)
    assert failing(judge(run)) == [
        "query, not fused answers what was sent",
        "query, every variant gives the same answer",
    ]
    assert judge(run).verdict is Verdict.FAIL


def test_a_query_with_other_counts_of_users_fails_though_the_sums_are_right(run: Path) -> None:
    def another(found: list[list[int]]) -> None:
        found[0][3] += 1

    of_query(run, another)
    assert failing(judge(run)) == ["query, every variant gives the same answer"]
    assert judge(run).verdict is Verdict.FAIL


@pytest.mark.parametrize("damage", ["lost", "twice", "more", "invented"])
def test_a_pipeline_that_publishes_otherwise_fails(run: Path, damage: str) -> None:
    rows = run / UNCOMBINED.name / "observed" / f"{COUNTED}.jsonl"
    first, *others, _ = rows.read_bytes().splitlines()
    told = orjson.loads(first)
    changed = {
        "lost": [],
        "twice": [told, told],
        "more": [{**told, "count": told["count"] + 1}],
        "invented": [told, {**told, "user": "nobody"}],
    }[damage]
    lines = [*map(orjson.dumps, changed), *others]
    end = orjson.dumps({"end": True, "rows": len(lines)})
    rows.write_bytes(b"\n".join([*lines, end]) + b"\n")
    results = judge(run)
    assert "epoch, not combined answers what was sent" in failing(results)
    assert results.verdict is Verdict.FAIL


def test_what_is_switched_off_and_moves_no_more_refutes_what_is_claimed(run: Path) -> None:
    for actor in (UNFUSED, UNCOMBINED):
        log_of(run, actor).write_text(logged({"": AS_IS}))
    results = judge(run)
    assert failing(results) == [
        "epoch, not fused has more stages",
        "epoch, not fused shuffles at least 2 times the bytes",
        "epoch, not combined shuffles at least 1.3 times the records",
        "epoch, not combined shuffles at least 1.02 times the bytes",
    ]
    assert results.verdict is Verdict.FAIL


@pytest.mark.parametrize("hosts", [("10.0.0.1",), ("10.0.0.1", "10.0.0.2", "elsewhere"), ("a", "b")])
def test_tasks_in_one_pod_or_in_none_show_nothing(run: Path, hosts: tuple[str, ...]) -> None:
    log_of(run, PLAIN).write_text(logged({"": AS_IS}, hosts))
    results = judge(run)
    assert [one for one in failing(results) if not one.endswith("pod to pod")] == [
        "epoch, as it is ran its tasks in 2 pods of executors and nowhere else"
    ]
    assert ("epoch, as it is moved bytes from pod to pod" in failing(results)) is (len(hosts) == 1)
    assert results.verdict is Verdict.UNKNOWN
    assert "? epoch, as it is: not shown that it ran its tasks in 2 pods" in markdown(results)


def test_a_driver_that_broke_off_or_left_nothing_makes_it_unknown(run: Path) -> None:
    log_of(run, UNFUSED).unlink()
    facts = run / PLAIN.name / FACTS
    facts.write_bytes(orjson.dumps({**orjson.loads(facts.read_bytes()), "broke_off": "no driver came"}))
    (run / UNCOMBINED.name / FACTS).unlink()
    results = judge(run)
    assert [*results.unread] == [PLAIN.name, UNFUSED.name, UNCOMBINED.name]
    assert "no driver came" in results.unread[PLAIN.name]
    assert (failing(results), results.verdict) == ([], Verdict.UNKNOWN)


def test_a_query_that_is_not_in_the_log_makes_it_unknown(run: Path) -> None:
    log_of(run, QUERIES).write_text(logged({f"{arm}/{ROUND + 1}": arm for arm in ARMS[QUERY]}))
    assert [*judge(run).unread] == [QUERIES.name]


def test_no_window_compared_shows_nothing(run: Path) -> None:
    found = [one.model_copy(update={"windows": 0}) if one.part == EPOCH else one for one in judge(run).arms]
    assert verdict(found, signs(found)) is Verdict.UNKNOWN
    assert verdict([], signs([])) is Verdict.UNKNOWN


def test_rows_are_compared_by_user_and_window() -> None:
    due = {("a", 0): 2, ("b", 0): 1}
    assert published_wrong([("a", 0, 2)], due, [("a", 0)]) == [], "a window that is still open may be there or not"
    assert published_wrong([("a", 0, 2)], due, due) == ["b in 0: nothing"]
    assert published_wrong([("a", 0, 2), ("b", 0, 1), ("a", 0, 2)], due, due) == ["a in 0: [2, 2] and not 2"]
    assert published_wrong([("a", 0, 2), ("b", 0, 1), ("c", 0, 9)], due, due) == ["c in 0: [9] and not 0"]
    assert answered_wrong([[0, 3, 2, 5]], due) == []
    assert len(answered_wrong([[0, 3, 1, 5], [60, 1, 1, 5]], due)) == 2
    assert len(answered_wrong([], due)) == 1


def test_it_is_written_and_what_is_kept_is_whole(run: Path, tmp_path: Path) -> None:
    results = write(run)
    assert Optimisations.model_validate_json((run / "results.json").read_bytes()) == results
    assert main([str(run), "--to", str(tmp_path / "kept")]) == 0
    kept = {one.name for one in (tmp_path / "kept").iterdir()}
    assert kept == {"manifest.json", "results.json", "table.md", "plans.md", "page.html"}
    assert "## query, not fused, not combined" in plans(results)
    assert "| as it is | 3 | 4,800 | 30 | 480 | 2.40 | 3, 3 |" in markdown(results)
    assert all(Figures.model_validate(one) for one in orjson.loads((run / "results.json").read_bytes())["arms"])
    assert "pods of a cluster on it" in html(results)
    assert len(EXECUTORS) == 2
    assert main([str(tmp_path)]) == 2
