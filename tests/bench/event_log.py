"""What Spark's event log tells of queries: the plan, its stages, and what each of them wrote for the shuffle.

The log is Spark's own account, a JSON line an event, written task by task. Nothing is sampled or estimated.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
_WRAPPERS = ("WholeStageCodegen", "InputAdapter", "AdaptiveSparkPlan")
"""Nodes that say how the one below them is run, and do nothing themselves."""
_WIDEST = 100
EXCHANGE = "Exchange"


def settings(folder: Path) -> dict[str, str]:
    """Make Spark write the log into a folder that is there, in one plain file a driver."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


@dataclass
class Stage:
    """A stage that ran: tasks that ended well, the bytes and records they wrote for a shuffle, their processor time.

    Attributes:
        hosts: how many of the tasks ran where.
        remote_bytes: of a shuffle, that they read from another executor.
    """

    tasks: int = 0
    written_bytes: int = 0
    written_records: int = 0
    cpu_s: float = 0.0
    hosts: Counter[str] = field(default_factory=Counter)
    remote_bytes: int = 0


@dataclass
class Query:
    """One query of SQL, or batch of a stream.

    Attributes:
        group: Spark's job group, "" where none was set.
        plan: its operators from the source on; of a join only the first side.
        stages: by number; those that ran.

    """

    plan: tuple[str, ...]
    group: str = ""
    stages: dict[int, Stage] = field(default_factory=dict)

    @property
    def exchanges(self) -> int:
        """How often the plan moves rows between tasks."""
        return sum(each.startswith(EXCHANGE) for each in self.plan)

    @property
    def shuffled(self) -> tuple[int, int]:
        """Bytes and records that all its stages wrote for a shuffle."""
        ran = self.stages.values()
        return sum(each.written_bytes for each in ran), sum(each.written_records for each in ran)

    @property
    def remote_bytes(self) -> int:
        """Bytes of its shuffles that went from one executor to another."""
        return sum(each.remote_bytes for each in self.stages.values())

    @property
    def hosts(self) -> Counter[str]:
        """How many of its tasks ran where."""
        return sum((each.hosts for each in self.stages.values()), Counter[str]())

    @property
    def cpu_s(self) -> float:
        """Processor time of its tasks in the JVM of the executor."""
        return sum(each.cpu_s for each in self.stages.values())


def read(folder: Path) -> list[Query]:
    """Queries of all logs in a folder, in the order in which they began."""
    return [query for path in sorted(folder.iterdir()) for query in queries(path.read_text().splitlines())]


def queries(lines: Iterable[str]) -> list[Query]:
    """Read one driver's log; the last line may be cut off, as that of a driver that was killed."""
    found: dict[int, Query] = {}
    owner: dict[int, int] = {}
    for event in _events(lines):
        match event["Event"]:
            case "SparkListenerJobStart":
                told = event.get("Properties") or {}
                number = int(told.get("spark.sql.execution.id", -1))
                if number in found:
                    found[number].group = told.get("spark.jobGroup.id", "")
                    owner |= dict.fromkeys(event["Stage IDs"], number)
            case "SparkListenerTaskEnd" if event["Task End Reason"]["Reason"] == "Success":
                if event["Stage ID"] in owner:
                    stages = found[owner[event["Stage ID"]]].stages
                    _add(stages.setdefault(event["Stage ID"], Stage()), event["Task Metrics"], event["Task Info"])
            case name if name == _SQL:
                found[event["executionId"]] = Query(tuple(_operators(event["sparkPlanInfo"])))
    return [query for _, query in sorted(found.items())]


def cut_into_stages(plan: Iterable[str]) -> Iterator[list[str]]:
    """Cut a plan into what runs without a shuffle; each part but the first begins with its exchange."""
    part: list[str] = []
    for each in plan:
        if each.startswith(EXCHANGE):
            yield part
            part = []
        part.append(each)
    yield part


def draw(plan: Iterable[str]) -> str:
    """Write a plan as text: from the source downwards, a heading for each stage."""
    lines = []
    for number, part in enumerate(cut_into_stages(plan), 1):
        lines.append(f"stage {number}")
        lines += [f"    {each}" for each in part]
    return "\n".join(lines)


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def _add(stage: Stage, metrics: Mapping[str, Any], info: Mapping[str, Any]) -> None:
    written = metrics["Shuffle Write Metrics"]
    stage.tasks += 1
    stage.hosts[info["Host"]] += 1
    stage.remote_bytes += metrics["Shuffle Read Metrics"]["Remote Bytes Read"]
    stage.written_bytes += written["Shuffle Bytes Written"]
    stage.written_records += written["Shuffle Records Written"]
    stage.cpu_s += metrics["Executor CPU Time"] / 1e9


def _operators(node: Mapping[str, Any]) -> Iterator[str]:
    if node["children"]:
        yield from _operators(node["children"][0])
    if not node["nodeName"].startswith(_WRAPPERS):
        yield _line_of(node)


def _line_of(node: Mapping[str, Any]) -> str:
    """One line of a node: without numbers of columns and plans, cut where it gets long."""
    text = re.sub(r"#\d+L?|, \[plan_id=\d+\]|, (ENSURE_REQUIREMENTS|REPARTITION_BY_\w+)", "", node["simpleString"])
    text = re.sub(r"\s+", " ", text).strip() or str(node["nodeName"])
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
