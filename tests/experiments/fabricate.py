"""What runs made by hand have in common, whatever the experiment; tests damage them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.experiments.experiment import Experiment
from tests.experiments.figures import FACTS
from tests.experiments.results import Results
from tests.experiments.run_folder import write_manifest
from tests.harness.results import Verdict
from tests.harness.run_directory import RunDirectory
from tests.harness.workload.record import Planned, partition_of

Rows = list[dict[str, Any]]
MACHINE = {"cores": 2, "processor": "any", "memory_gib": 4.0, "load": 0.1}


def manifest(path: Path, kind: str, command: str, plan: Any, jvm: str = "quick") -> None:
    """Write the manifest of a run."""
    write_manifest(path, kind, command, plan, jvm, machine=MACHINE, git={})


def sends(records: Iterable[Planned], partitions: int) -> Rows:
    """Return rows as the sender writes them, but for their times; offsets in the order of the records."""
    names = ("n", "id", "user", "event_time_ms", "payload", "kind", "reason")
    offsets: Counter[int] = Counter()
    rows = []
    for record in records:
        partition = partition_of(record, partitions)
        told = {name: getattr(record, name) for name in names}
        rows.append({**told, "topic": "events", "partition": partition, "offset": offsets[partition]})
        offsets[partition] += 1
    return rows


def write_observed(run: RunDirectory, name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write what was read of a sink."""
    with run.observed_writer(name) as lines:
        for row in rows:
            lines.write(row)


def write_sent(run: RunDirectory, rows: Iterable[dict[str, Any]]) -> None:
    """Write what was acknowledged."""
    with run.sent_writer() as lines:
        for row in rows:
            lines.write(row)


def failing(results: Results[Any, Any]) -> list[tuple[str, bool]]:
    """Return claims that do not hold, and whether each is a promise."""
    return [(f"{claim.of} {claim.says}", claim.promise) for claim in results.claims if not claim.holds]


def judge(experiment: Experiment[Any, Any], path: Path) -> tuple[list[tuple[str, bool]], Verdict]:
    """Judge a run; return what `failing` does, and the verdict."""
    results = experiment.judge(path)
    return failing(results), results.verdict


def change_facts(arm: Path, **changes: Any) -> None:
    """Change what the play of an arm noted down."""
    facts = arm / FACTS
    facts.write_bytes(orjson.dumps({**orjson.loads(facts.read_bytes()), **changes}))


def change_rows(lines: Path, change: Callable[[Rows], object]) -> None:
    """Change a file of JSON lines."""
    rows = [orjson.loads(line) for line in lines.read_bytes().splitlines()]
    change(rows)
    write(lines, rows)


def write(lines: Path, rows: Sequence[Any]) -> None:
    """Write a file of JSON lines."""
    lines.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
