"""A negative control of a run that is made up: one epoch, of which some records are there twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.unit.harness.fabricated_drivers import T0
from tests.unit.harness.fabricated_files import FIELDS, Row, write_json, write_lines


def write_control(run: Path, parent: Row, record: Callable[[int], Row]) -> None:
    """Write it; `record`: makes one of its number."""
    name = run.name
    sent: list[Row] = []
    for n in range(40):
        place = {"kind": "fresh", "topic": name, "partition": n % 2, "offset": n // 2, "sent_at": T0}
        sent.append({"n": n, **record(n), **place})
    rows = [
        {
            **{"sink": "accepted", "epoch": 0, "partition": 0, "offset": at},
            **{field: row[field] for field in FIELDS},
            "source": [name, row["partition"], row["offset"]],
        }
        for at, row in enumerate([*sent, *sent[10:20]])
    ]
    settings = {**parent["settings"], "sinks": ["accepted"], "topic": name}
    workload = {"kind": "seeded", "sent": 40, "duplicates_sent": 0, "late_sent": 0, "malformed_sent": 0}
    own = {"run": f"{parent['run']}/{name}", "control": name, "faults_planned": 1, "settings": settings}
    own |= {"workload": workload, "controls": [], "schemas": {}}
    fault = {"t": T0 + 9, "event": "fault", "kind": "sigkill", "target": "executor", "signal": "SIGKILL"}
    fault |= {"epoch": 0, "phase": "records_visible", "process_before": "71@1.0", "process_after": "72@2.0"}
    fault |= {"injected_at": T0 + 5, "recovered_s": None, "hit": True}
    write_json(run / "manifest.json", {name: {**parent, **own}[name] for name in parent if name != "code"})
    write_lines(run / "sent.jsonl", sent)
    write_lines(run / "observed" / "accepted.jsonl", rows)
    batch = {"event": "epoch", "epoch": 0, "generation": 1, "driver": 70}
    write_lines(
        run / "history.jsonl",
        [
            {"t": T0, "event": "phase", "phase": "steady"},
            fault,
            {"t": T0 + 1, **batch, "state": "declared"},
            {"t": T0 + 8, **batch, "state": "published", "in": 40},
            {"t": T0 + 10, "event": "phase", "phase": "judge", "lines": 4},
        ],
        end=False,
    )
