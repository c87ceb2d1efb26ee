"""A run as a play without surprises leaves it, made by hand and small; tests damage it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.bench.optimisations_table import AS_IS, COMBINER, FUSION, QUERY
from tests.experiments.fabricate import manifest
from tests.experiments.figures import FACTS
from tests.experiments.optimisations.figures import COUNTED, LOG, Facts
from tests.experiments.optimisations.plan import ACTORS, ARMS, NEITHER, ROUND, Actor, Plan
from tests.harness.run_directory import RunDirectory

PLAN = Plan(seed=7, records=2_000, users=20, epoch_rows=200)
EXECUTORS = {"10.0.0.1": "exec-1@uid-1", "10.0.0.2": "exec-2@uid-2"}
SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
WROTE = {
    AS_IS: [(400, 4_000), (80, 800), (0, 0)],
    FUSION: [(2_000, 40_000), (2_000, 40_000), (400, 4_000), (0, 0)],
    COMBINER: [(2_000, 20_000), (80, 800), (0, 0)],
    NEITHER: [(2_000, 40_000), (2_000, 40_000), (2_000, 20_000), (0, 0)],
}
"""Records and bytes that each stage writes."""


def fabricate_run(path: Path) -> Path:
    """Make a run with all four drivers; returns its folder."""
    manifest(path, "optimisations", "make acceptance SUITE=jobs JOB=optimisations SEED=7", PLAN, "pods")
    for actor in ACTORS:
        _driver(RunDirectory(path / actor.name), actor)
    return path


def write_log(arms: dict[str, str], hosts: tuple[str, ...] = tuple(EXECUTORS)) -> str:
    """Write an event log: variant by job group, each with its stages, a task of each on every host."""
    lines: list[dict[str, Any]] = []
    stage = 0
    for number, (group, arm) in enumerate(arms.items()):
        plan = {"nodeName": "MapInArrow", "simpleString": f"MapInArrow {arm}", "children": []}
        lines.append({"Event": SQL, "executionId": number, "sparkPlanInfo": plan})
        stages = [*range(stage, stage + len(WROTE[arm]))]
        told = {"spark.sql.execution.id": str(number), "spark.jobGroup.id": group}
        lines.append({"Event": "SparkListenerJobStart", "Stage IDs": stages, "Properties": told})
        for one, (records, size) in zip(stages, WROTE[arm], strict=True):
            for host in hosts:
                wrote = {"Shuffle Bytes Written": size // len(hosts), "Shuffle Records Written": records // len(hosts)}
                lines.append(
                    {
                        "Event": "SparkListenerTaskEnd",
                        "Stage ID": one,
                        "Task End Reason": {"Reason": "Success"},
                        "Task Info": {"Host": host},
                        "Task Metrics": {
                            "Executor CPU Time": 1,
                            "Shuffle Write Metrics": wrote,
                            "Shuffle Read Metrics": {"Remote Bytes Read": 5 * (len(hosts) > 1)},
                        },
                    }
                )
        stage += len(stages)
    return "\n".join(map(json.dumps, lines))


def log_of(run: Path, actor: Actor) -> Path:
    """Where the event log of a driver is."""
    return run / actor.name / LOG / "spark-1"


def _driver(run: RunDirectory, actor: Actor) -> None:
    run.write_json(run.path / FACTS, Facts(executors=EXECUTORS, load=(0.1, 0.2)))
    arms = {f"{arm}/{ROUND}": arm for arm in ARMS[QUERY]} if actor.arm is None else {"": actor.arm}
    (run.path / LOG).mkdir()
    log_of(run.path.parent, actor).write_text(write_log(arms))
    if actor.arm is None:
        with run.history() as history:
            for arm in ARMS[QUERY]:
                history.record("query", arm=arm, round=ROUND, found=answer())
        return
    with run.observed_writer(COUNTED) as rows:
        for (user, start), count in PLAN.events.per_user(copies=False).items():
            if PLAN.closed(start):
                rows.write({"user": user, "window_start_ms": start, "count": count})


def answer() -> list[list[int]]:
    """What every variant of the query answers: of each window its start, records, users, and a digest."""
    counts: dict[int, list[int]] = defaultdict(list)
    for (_, start), count in PLAN.events.per_user(copies=True).items():
        counts[start].append(count)
    return [[start, sum(counts[start]), len(counts[start]), 77] for start in sorted(counts)]
