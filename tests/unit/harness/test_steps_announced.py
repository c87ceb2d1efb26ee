"""Every step that kills are planned at is announced by the pipeline as they wait for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from effectively_once.epoch import epoch
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.epoch.rows import empty
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.errors import InputError
from effectively_once.ledger.rows import Rows
from effectively_once.progress import VARIABLE
from effectively_once.sinks.publish import Published
from effectively_once_jobs.user_counts import pipeline
from tests.harness.schedule import STEPS
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration


class _Told:
    """A sink that tells the two steps which the real ones do."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told

    def publish(self, *_: Any) -> tuple[Rows, Published]:
        for step in ("transaction_open", "committed"):
            self._told(step)
        return Rows(), Published.NOW


def test_every_planned_step_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = tmp_path / "events.jsonl"
    monkeypatch.setenv(VARIABLE, str(events))
    task = EpochTask(pipeline, pipeline_settings(), declaration(0), 1, "owner", {})

    def step(name: str) -> ShardStep:
        return ShardStep(task, name, 0, 0, store=MemoryStore(), opened=lambda _, __, told: _Told(told))

    passed = list(epoch.deduplicate(step("dedup"), empty(pipeline).to_batches()))
    list(epoch.merge_partials(step("windows"), passed))
    told = {(line["step"], line["sink"]) for line in map(json.loads, events.read_text().splitlines())}
    assert set(STEPS) - told == set()


def test_a_shard_tells_that_it_begins_and_that_its_input_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `make chaos` strikes in the middle of, and what it counts as answers of the pipeline."""
    events = tmp_path / "events.jsonl"
    monkeypatch.setenv(VARIABLE, str(events))
    task = EpochTask(pipeline, pipeline_settings(), declaration(0), 1, "owner", {})
    step = ShardStep(task, "dedup", 0, 0, store=MemoryStore(), opened=lambda _, __, told: _Told(told))
    rows = pa.Table.from_pylist([{"offset": 1}], empty(pipeline).schema.append(pa.field("closing", pa.string())))
    with pytest.raises(InputError):
        step.whole_input(rows.to_batches(), pipeline.digested)
    assert [json.loads(line)["step"] for line in events.read_text().splitlines()] == ["dedup_begun", "dedup_refused"]
