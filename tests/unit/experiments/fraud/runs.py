"""Run directories of fraud detection, as a run leaves them: small, exact, and then changed by tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from tests.experiments.fraud.judge import ASKED, DECISIONS, REFUSALS
from tests.experiments.fraud.plan import AGGREGATOR, ANALYZERS, DEADLINE_MS, STORE, TARGET_MS, WINDOWS_MS, Phase, phases
from tests.experiments.fraud.truth import due, outcome
from tests.experiments.fraud.workload import cards, records
from tests.harness.history import History
from tests.harness.run_directory import LinesWriter, RunDirectory, read_lines

SEED, RECORDS, RATE, BEGAN_MS = 7, 900, 50, 1_800_000_000_000
AWAY_MS, APART_MS = 2_000, 10
Row = dict[str, Any]
PHASES: list[Phase] = phases(SEED, RECORDS, RATE, 3)


def recorded(path: Path) -> Path:
    """A run that passes: while somebody is away decisions are partial, or late."""
    run = RunDirectory(path / "run")
    run.write_json(
        run.manifest_path,
        {
            "seed": SEED,
            "deadline_ms": DEADLINE_MS,
            "target_ms": TARGET_MS,
            "windows_ms": WINDOWS_MS,
            "phases": [asdict(one) for one in PHASES],
            "triggers": 0,
            "command": "make demo JOB=fraud SEED=7",
            "machine": {},
            "versions": {},
            "git": {},
        },
    )
    sends = list(_sends())
    kills = {number: _killed_at(number, sends) for number, phase in enumerate(PHASES) if phase.kill}
    with run.sent_writer() as lines:
        for send in sends:
            lines.write(send)
    wanted = {one.place: one for one in due(sends, cards(), WINDOWS_MS)}
    with run.observed_writer(DECISIONS) as decisions, run.observed_writer(REFUSALS) as refusals:
        for send in sends:
            one = wanted[send["partition"], send["offset"]]
            row = {"id": one.id, "partition": send["partition"], "offset": send["offset"], "arrived_ms": one.arrived_ms}
            missing, took_ms = _absent(send, kills)
            row["committed_ms"] = one.arrived_ms + took_ms + 0.25
            if one.reason:
                refusals.write({**row, "reason": one.reason})
                continue
            points = {name: number for name, number in one.points.items() if name not in missing}
            decisions.write(
                {
                    **row,
                    "card": "",
                    "decided_ms": one.arrived_ms + 5,
                    "outcome": outcome(points),
                    "points": points,
                    "missing": [name for name in ANALYZERS if name in missing],
                    "partial": bool(missing),
                }
            )
    with run.observed_writer(ASKED) as asked:
        asked.write({"id": "t0000000", "store": "down", "status": 503, "document": {}})
        first = next(row for row in read_lines(run.observed_path(DECISIONS)))
        asked.write({"id": first["id"], "store": "up", "status": 200, "document": {"outcome": first["outcome"]}})
        asked.write({"id": "t9999999", "store": "up", "status": 404, "document": {}})
        asked.write({"id": "no%20id", "store": "up", "status": 400, "document": {}})
    _history(run, kills)
    return run.path


def alter(run: Path, name: str, change: Callable[[list[Row]], object]) -> None:
    """Change the rows of an observation, or of the sends."""
    path = RunDirectory(run).sent_path if name == "sent" else RunDirectory(run).observed_path(name)
    rows = list(read_lines(path))
    change(rows)
    with LinesWriter(path) as lines:
        for row in rows:
            lines.write(row)


def rows_of(run: Path, name: str) -> list[Row]:
    """The rows of an observation."""
    return list(read_lines(RunDirectory(run).observed_path(name)))


def events(run: Path, change: Callable[[list[Row]], object]) -> None:
    """Change the history; what it says of its own length stays right."""
    path = RunDirectory(run).history_path
    rows: list[Row] = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    change(rows)
    rows[-1]["lines"] = len(rows) - 1
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def _sends() -> Iterator[Row]:
    stream = records(SEED, BEGAN_MS, [n * APART_MS for n in range(sum(one.records for one in PHASES))])
    ends, at = [0, 0], BEGAN_MS
    for number, phase in enumerate(PHASES):
        at += 10_000
        for _ in range(phase.records):
            key, value = next(stream)
            partition = int(key[-1], 36) % 2
            yield {
                "phase": number,
                "partition": partition,
                "offset": ends[partition],
                "arrived_ms": at,
                "payload": value.decode(),
            }
            ends[partition] += 1
            at += APART_MS


def _killed_at(number: int, sends: list[Row]) -> int:
    kill = PHASES[number].kill
    assert kill is not None
    return int([one["arrived_ms"] for one in sends if one["phase"] == number][kill.after])


def _absent(send: Row, kills: dict[int, int]) -> tuple[set[str], int]:
    """Analyzers that have not answered, and ms until the commit."""
    kill, at = PHASES[send["phase"]].kill, kills.get(send["phase"], 0)
    away = kill is not None and at <= send["arrived_ms"] < at + AWAY_MS
    if kill is None or not away:
        return set(), 6
    late_ms = at + AWAY_MS - send["arrived_ms"] + 30
    return {AGGREGATOR: (set(ANALYZERS), late_ms), STORE: (set[str](), late_ms)}.get(kill.target, ({kill.target}, 15))


def _history(run: RunDirectory, kills: dict[int, int]) -> None:
    with History(run.history_path) as history:
        for number, phase in enumerate(PHASES):
            history.record("phase", phase=phase.name, number=number, load=1.0)
            if phase.kill:
                at = kills[number]
                back = "restarted_at" if phase.kill.target == STORE else "replaced_at"
                history.record(
                    "fault",
                    t=at,
                    kind="sigkill",
                    target=phase.kill.target,
                    injected_at=at,
                    process_before="1@1.0",
                    process_after="2@2.0",
                    **{back: at + AWAY_MS},
                )
            history.record("settled", number=number, load=2.0)
        history.end()
