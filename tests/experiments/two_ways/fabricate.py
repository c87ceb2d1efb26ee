"""A run directory as a play without surprises leaves it, made by hand; tests damage it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from effectively_once_jobs.two_ways.settings import SNAPSHOTS
from effectively_once_jobs.two_ways.stage import TAKEN
from tests.experiments.fabricate import Rows, manifest, write_observed, write_sent
from tests.experiments.fabricate import sends as sent_rows
from tests.experiments.figures import FACTS
from tests.experiments.two_ways.figures import RESULTS, Facts
from tests.experiments.two_ways.plan import PACED, Arm, Plan
from tests.experiments.two_ways.truth import reckon
from tests.harness.run_directory import RunDirectory

PLAN = Plan(7, operators=(2, 4), kills=(0, 2), warm_up=10, burst=80, paced=100, pace=100, rows_max=20)
Damage = Callable[[Arm, Rows], Rows]
"""Changes the rows of an arm's output."""


def no_damage(_: Arm, rows: Rows) -> Rows:
    """Leave them as they are."""
    return rows


def fabricate_run(path: Path, damage: Damage = no_damage, missed: int = 0) -> Path:
    """Make a run with all arms; returns its folder. So many of each part's kills missed."""
    manifest(path, "two_ways", "make two-ways SEED=7", PLAN)
    for arm in PLAN.arms:
        _arm(RunDirectory(path / arm.name), arm, damage, missed)
    return path


def _arm(run: RunDirectory, arm: Arm, damage: Damage, missed: int) -> None:
    """Everything takes half a second, with snapshots a whole one, and each kill two more; a part begins at its own."""
    parts, took_ms = PLAN.parts(arm), 1_000.0 if arm.way == SNAPSHOTS else 500.0
    records = PLAN.stream(parts[-1].numbers.stop)
    sends = {row["n"]: row for row in sent_rows(records, 2)}
    with run.history() as history:
        for begin, part in enumerate(parts):
            began = 100_000 * (begin + 1)
            history.record("phase", t=began, phase=part.name)
            for number, n in enumerate(part.numbers):
                sends[n]["sent_at"] = began + (10 * number if part.kind == PACED else 0)
            for operator in range(arm.operators):
                history.record(TAKEN, t=began + 1, operator=operator, rows=len(part.numbers), copies=0)
            for number, strike in enumerate(PLAN.strikes(arm, part)):
                if number < part.kills - missed:
                    history.record(
                        "fault",
                        t=began + 5,
                        part=part.name,
                        hit=True,
                        target=strike.target,
                        process_before="41@7",
                        operator=strike.operator,
                        stage=strike.stage,
                    )
                    history.record(TAKEN, t=began + 6, operator=strike.operator, rows=20, copies=5)
        history.end()
    write_sent(run, sends.values())
    at_ms = {row["id"]: row["sent_at"] + took_ms for row in sends.values()}
    amounts = reckon(sends.values(), arm.operators)
    if not arm.catalog:
        amounts = {id_: amount + 1 for id_, amount in amounts.items()}
    rows = [
        {"id": id_, "amount": amount, "at_ms": at_ms[id_], "times": 1, "same": True} for id_, amount in amounts.items()
    ]
    write_observed(run, RESULTS, damage(arm, rows))
    run.write_json(
        run.path / FACTS,
        Facts(
            way=arm.way,
            operators=arm.operators,
            catalog=arm.catalog,
            cpu_s={part.name: 1.0 for part in parts},
            object_store_bytes=2048,
            objects=3,
            topics_bytes=0 if arm.way == SNAPSHOTS else 1024,
            load=(0.1, 2.0),
        ),
    )
