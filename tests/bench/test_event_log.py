"""Spark's event log is read as Spark writes it: only what ran well counts, to the query that it was for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.bench import event_log
from tests.bench.event_log import Stage

SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"


def node(name: str, text: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"nodeName": name, "simpleString": text, "children": list(children), "metadata": {}, "metrics": []}


PLAN = node(
    "WholeStageCodegen (2)",
    "WholeStageCodegen (2)",
    node(
        "HashAggregate",
        "HashAggregate(keys=[user#7, start#9L], functions=[count(1)])",
        node(
            "InputAdapter",
            "InputAdapter",
            node(
                "Exchange",
                "Exchange hashpartitioning(user#7, start#9L, 2), ENSURE_REQUIREMENTS, [plan_id=31]",
                node(
                    "Project",
                    "Project [" + ", ".join(f"column{n}#{n}" for n in range(40)) + "]",
                    node("Scan", "Scan  kafka"),
                ),
            ),
        ),
    ),
)


def start_event(execution: int, plan: dict[str, Any]) -> dict[str, Any]:
    return {"Event": SQL, "executionId": execution, "sparkPlanInfo": plan}


def job(execution: int | None, stages: list[int], group: str = "") -> dict[str, Any]:
    told = {"spark.sql.execution.id": str(execution)} if execution is not None else {}
    return {
        "Event": "SparkListenerJobStart",
        "Job ID": 0,
        "Stage IDs": stages,
        "Properties": {**told, **({"spark.jobGroup.id": group} if group else {})},
    }


def task(stage: int, size: int, records: int, reason: str = "Success", host: str = "here") -> dict[str, Any]:
    written = {"Shuffle Bytes Written": size, "Shuffle Write Time": 1, "Shuffle Records Written": records}
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task End Reason": {"Reason": reason},
        "Task Metrics": {
            "Executor CPU Time": 500_000_000,
            "Shuffle Write Metrics": written,
            "Shuffle Read Metrics": {"Remote Bytes Read": 3},
        },
        "Task Info": {"Host": host},
    }


def lines(*events: dict[str, Any]) -> list[str]:
    return [json.dumps(event) for event in events]


def test_a_query_has_the_stages_of_its_jobs_and_what_their_tasks_wrote() -> None:
    first, second = event_log.queries(
        lines(
            {"Event": "SparkListenerLogStart", "Spark Version": "4"},
            start_event(0, PLAN),
            job(0, [0, 1], "a/0"),
            task(0, 100, 7),
            task(0, 50, 3, host="there"),
            task(1, 0, 0),
            start_event(1, node("Scan", "Scan")),
            job(1, [2, 3], "b/0"),
            task(3, 9, 1),
        )
    )
    assert (first.group, first.shuffled, first.cpu_s) == ("a/0", (150, 10), 1.5)
    each, alone = Counter(here=1, there=1), Counter(here=1)
    assert first.stages == {0: Stage(2, 150, 10, 1.0, each, 6), 1: Stage(1, 0, 0, 0.5, alone, 3)}
    assert (first.hosts, first.remote_bytes) == (Counter(here=2, there=1), 9)
    assert (second.group, list(second.stages)) == ("b/0", [3]), "a stage that was skipped ran no task"


def test_failed_tasks_and_jobs_of_no_query_are_not_counted() -> None:
    (query,) = event_log.queries(
        lines(
            start_event(0, PLAN),
            job(0, [0]),
            task(0, 100, 7, reason="ExceptionFailure"),
            task(0, 40, 4),
            job(None, [1]),
            task(1, 1_000, 1_000),
            {**job(None, [2]), "Properties": None},
            task(2, 1_000, 1_000),
        )
    )
    assert query.shuffled == (40, 4)


def test_a_log_that_was_cut_off_tells_what_came_before(tmp_path: Path) -> None:
    whole = lines(start_event(0, PLAN), job(0, [0]), task(0, 40, 4))
    (tmp_path / "app-1.inprogress").write_text("\n".join([*whole, whole[-1][:30]]))
    (query,) = event_log.read(tmp_path)
    assert query.shuffled == (40, 4)


def test_a_plan_is_told_from_the_source_on_without_numbers_and_cut_into_stages() -> None:
    (query,) = event_log.queries(lines(start_event(0, PLAN)))
    scan, project, exchange, aggregate = query.plan
    assert (scan, exchange) == ("Scan kafka", "Exchange hashpartitioning(user, start, 2)")
    assert aggregate == "HashAggregate(keys=[user, start], functions=[count(1)])"
    assert (project[:24], project[-1], len(project)) == ("Project [column0, column", "…", 100)
    assert query.exchanges == 1
    assert [*event_log.cut_into_stages(query.plan)] == [[scan, project], [exchange, aggregate]]
    assert event_log.draw([scan, exchange]) == f"stage 1\n    {scan}\nstage 2\n    {exchange}"
