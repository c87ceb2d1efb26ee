"""Figures of one arm, computed from the evidence that it left and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from effectively_once_jobs.two_ways.settings import Way
from effectively_once_jobs.two_ways.stage import TAKEN
from tests.experiments.figures import (
    FACTS,
    CostFigures,
    Costs,
    Done,
    Latency,
    Model,
    costs,
    faults_in,
    latency,
    throughput,
)
from tests.experiments.two_ways.plan import BURST, PACED, Arm, Part, Plan
from tests.experiments.two_ways.truth import reckon
from tests.harness.run_directory import RunDirectory, read_lines

RESULTS = "results"
Rows = Mapping[str, Mapping[str, Any]]


class Facts(Costs):
    """What the play noted down beside rows; `topics_bytes`: between its operators, None where it is not measured."""

    way: Way
    operators: int
    catalog: bool
    topics_bytes: int | None


class Recovery(Model):
    """What came after a kill.

    Attributes:
        target: what was killed.
        next_s: from the kill to the next new row of the output, whatever it is of.
        through_s: to the last row of a record that was sent before the kill: nothing of what was under way is missing.

    """

    target: str
    operator: int
    stage: str
    next_s: float | None
    through_s: float | None


class Level(Model):
    """One number of kills: the burst, and the part at a pace.

    Attributes:
        throughput_per_s: records of the burst, from its first sending to its last row.
        paced: latency of the part at a pace.
        taken: records that operators took, by all of them together, over records times operators: 1 without kills.
        copies: records that operators dropped as copies, in the same measure.
        recoveries: of the part at a pace.
        hit: kills that hit, in both parts.
        struck: what they ended: a process or a pod.

    """

    kills: int
    throughput_per_s: float | None
    paced: Latency | None
    taken: float
    copies: float
    recoveries: list[Recovery]
    hit: int
    planned: int
    struck: list[str] = Field(default_factory=list)


class Figures(CostFigures):
    """One arm.

    Attributes:
        due: records that were sent.
        lost: without a row.
        wrong: with another amount than they are due.
        phantoms: rows that nothing was sent for.
        differing: rows that were written again with another amount.
        rewritten: rows that were written more than once.

    """

    name: str
    way: Way
    operators: int
    catalog: bool
    due: int
    lost: int
    wrong: int
    phantoms: int
    differing: int
    rewritten: int
    levels: list[Level]
    topics_bytes: int | None

    @property
    def exact(self) -> bool:
        """Whether the output is what is due."""
        return not (self.lost or self.wrong or self.phantoms or self.differing)


def figures(path: Path, plan: Plan, name: str) -> list[Figures]:
    """Compute those of an arm, from the folder of a run.

    Raises:
        EvidenceError: evidence is missing or damaged.
        ValidationError: the facts are none.

    """
    run = RunDirectory(path / name)
    facts = Facts.model_validate_json((run.path / FACTS).read_bytes())
    arm = next(one for one in plan.arms if one.name == name)
    evidence = Evidence.of(run, run.whole_events()[:-1] if facts.broke_off is None else run.events())
    due, rows = reckon(evidence.sends.values(), arm.operators), evidence.rows
    _, *parts = plan.parts(arm)
    by_kills = {kills: [part for part in parts if part.kills == kills] for kills in {part.kills for part in parts}}
    found = Figures(
        name=name,
        way=arm.way,
        operators=arm.operators,
        catalog=arm.catalog,
        due=len(due),
        lost=len(due.keys() - rows.keys()),
        phantoms=len(rows.keys() - due.keys()),
        wrong=sum(rows[one]["amount"] != amount for one, amount in due.items() if one in rows),
        differing=sum(not row["same"] for row in rows.values()),
        rewritten=sum(row["times"] > 1 for row in rows.values()),
        levels=[_level(plan, arm, of, evidence) for _, of in sorted(by_kills.items())],
        topics_bytes=facts.topics_bytes,
        **costs(facts, {part.name: len(part.numbers) for part in parts}),
    )
    return [found]


@dataclass(frozen=True)
class Evidence:
    """What an arm left.

    Attributes:
        sends: id -> what was sent, and when.
        rows: id -> row of the output.
        events: phase -> what happened in it, by the clock of who tells it: out of a pod it is read somewhat later.

    """

    sends: Rows
    rows: Rows
    events: Mapping[str, Sequence[Mapping[str, Any]]]

    @classmethod
    def of(cls, run: RunDirectory, told: Sequence[Mapping[str, Any]]) -> Evidence:
        """Read it, beside the history that is told. Raises EvidenceError."""
        events: dict[str, list[Mapping[str, Any]]] = {}
        phase = ""
        for event in sorted(told, key=lambda one: one["t"]):
            phase = event["phase"] if event["event"] == "phase" else phase
            events.setdefault(phase, []).append(event)
        sends = {row["id"]: row for row in read_lines(run.sent_path)}
        return cls(sends, {row["id"]: row for row in run.rows(RESULTS)}, events)


def _level(plan: Plan, arm: Arm, parts: Sequence[Part], evidence: Evidence) -> Level:
    events = [event for part in parts for event in evidence.events.get(part.name, ())]
    work = [event for event in events if event["event"] == TAKEN]
    faults = faults_in(events)
    each = sum(len(part.numbers) for part in parts) * arm.operators
    done: dict[str, Done] = {
        part.kind: [
            (row["sent_at"], evidence.rows[id_]["at_ms"])
            for id_, row in evidence.sends.items()
            if row["n"] in part.numbers and id_ in evidence.rows
        ]
        for part in parts
    }
    return Level(
        kills=parts[0].kills,
        throughput_per_s=throughput(done.get(BURST, ())),
        paced=latency(done.get(PACED, ())),
        taken=round(sum(event["rows"] for event in work) / each, 3),
        copies=round(sum(event["copies"] for event in work) / each, 3),
        recoveries=[_recovery(fault, evidence) for fault in faults if fault["part"].startswith(PACED)],
        hit=sum(fault["hit"] for fault in faults),
        planned=sum(part.kills for part in parts),
        struck=[fault["process_before"] for fault in faults],
    )


def _recovery(fault: Mapping[str, Any], evidence: Evidence) -> Recovery:
    at, rows = fault["t"], evidence.rows
    after = [row["at_ms"] for row in rows.values() if row["at_ms"] > at]
    before = [rows[id_]["at_ms"] for id_, row in evidence.sends.items() if row["sent_at"] <= at and id_ in rows]

    def since(at_ms: float | None) -> float | None:
        return None if at_ms is None else round(max(at_ms - at, 0) / 1000, 3)

    return Recovery(
        target=fault["target"],
        operator=fault["operator"],
        stage=fault["stage"],
        next_s=since(min(after, default=None)),
        through_s=since(max(before, default=None)),
    )
