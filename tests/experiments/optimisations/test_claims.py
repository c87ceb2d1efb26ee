"""A run of optimisations passes as it should be, and each thing that can be wrong with it is found."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.bench.optimisations_table import AS_IS, EPOCH, FUSION, QUERY
from tests.experiments import fabricate, page
from tests.experiments.fabricate import Rows, change_facts, change_rows
from tests.experiments.figures import FACTS, verdict
from tests.experiments.optimisations.claims import claims
from tests.experiments.optimisations.experiment import EXPERIMENT
from tests.experiments.optimisations.fabricate import PLAN, fabricate_run, log_of, write_log
from tests.experiments.optimisations.figures import COUNTED, find_wrong_answers, find_wrong_rows
from tests.experiments.optimisations.page import PAGE, Optimisations
from tests.experiments.optimisations.plan import ACTORS, ARMS, ROUND
from tests.harness.results import Verdict

judge = EXPERIMENT.judge
QUERIES, PLAIN, UNFUSED, UNCOMBINED = ACTORS


def failing(results: Optimisations) -> list[str]:
    return [says for says, _ in fabricate.failing(results)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return fabricate_run(tmp_path / "run")


def test_a_run_without_surprises_passes_and_shows_both_optimisations(run: Path) -> None:
    results = judge(run)
    assert (failing(results), results.unread, results.verdict) == ([], {}, Verdict.PASS)
    arms = {(one.part, one.arm): one for one in results.arms}
    assert [*arms] == [(part, arm) for part in ARMS for arm in ARMS[part]]
    query, epoch = arms[QUERY, AS_IS], arms[EPOCH, AS_IS]
    assert (query.stages, query.shuffled_records, query.shuffled_bytes) == (3, 480, 4_800)
    assert (query.tasks, query.elsewhere) == ({"exec-1@uid-1": 3, "exec-2@uid-2": 3}, 0)
    assert (query.windows, epoch.windows) == (len(PLAN.events.per_window(copies=True)), 11)


DUE, SAME = "query, not fused answers what was sent", "query, every variant gives the same answer"


@pytest.mark.parametrize(
    ("at", "by", "broken"),
    [(1, -1, [DUE, SAME]), (3, 1, [SAME])],
    ids=["of a window", "of users alone"],
)
def test_a_query_with_other_counts_fails(run: Path, at: int, by: int, broken: list[str]) -> None:
    def change(events: Rows) -> None:
        next(one for one in events if one.get("arm") == FUSION)["found"][0][at] += by

    change_rows(run / QUERIES.name / "history.jsonl", change)
    results = judge(run)
    assert (failing(results), results.verdict) == (broken, Verdict.FAIL)


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
        log_of(run, actor).write_text(write_log({"": AS_IS}))
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
    log_of(run, PLAIN).write_text(write_log({"": AS_IS}, hosts))
    results = judge(run)
    assert [one for one in failing(results) if not one.endswith("pod to pod")] == [
        "epoch, as it is it ran its tasks in 2 pods of executors and nowhere else"
    ]
    assert ("epoch, as it is it moved bytes from pod to pod" in failing(results)) is (len(hosts) == 1)
    assert results.verdict is Verdict.UNKNOWN
    assert "? epoch, as it is: not shown that it ran its tasks in 2 pods" in page.markdown(PAGE, results)


def test_a_driver_that_broke_off_or_left_nothing_makes_it_unknown(run: Path) -> None:
    log_of(run, UNFUSED).unlink()
    change_facts(run / PLAIN.name, broke_off="no driver came")
    (run / UNCOMBINED.name / FACTS).unlink()
    results = judge(run)
    assert [*results.unread] == [PLAIN.name, UNFUSED.name, UNCOMBINED.name]
    assert "no driver came" in results.unread[PLAIN.name]
    assert (failing(results), results.verdict) == ([], Verdict.UNKNOWN)


def test_a_query_that_is_not_in_the_log_makes_it_unknown(run: Path) -> None:
    log_of(run, QUERIES).write_text(write_log({f"{arm}/{ROUND + 1}": arm for arm in ARMS[QUERY]}))
    assert [*judge(run).unread] == [QUERIES.name]


def test_no_window_compared_shows_nothing(run: Path) -> None:
    found = [one.model_copy(update={"windows": 0}) if one.part == EPOCH else one for one in judge(run).arms]
    assert verdict(claims(found, PLAN), whole=True) is Verdict.UNKNOWN
    assert verdict(claims([], PLAN), whole=True) is Verdict.UNKNOWN


def test_rows_are_compared_by_user_and_window() -> None:
    due = {("a", 0): 2, ("b", 0): 1}
    assert find_wrong_rows([("a", 0, 2)], due, [("a", 0)]) == [], "a window that is still open may be there or not"
    assert find_wrong_rows([("a", 0, 2)], due, due) == ["b in 0: nothing"]
    assert find_wrong_rows([("a", 0, 2), ("b", 0, 1), ("a", 0, 2)], due, due) == ["a in 0: [2, 2] and not 2"]
    assert find_wrong_rows([("a", 0, 2), ("b", 0, 1), ("c", 0, 9)], due, due) == ["c in 0: [9] and not 0"]
    assert find_wrong_answers([[0, 3, 2, 5]], due) == []
    assert len(find_wrong_answers([[0, 3, 1, 5], [60, 1, 1, 5]], due)) == 2
    assert len(find_wrong_answers([], due)) == 1
