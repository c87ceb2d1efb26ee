"""The Python side of a task that has ended shows nothing any more (R13)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Pipeline, RecordedStep, ToFiles, ToKafka
from effectively_once.epoch import epoch, task_token
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.epoch.rows import empty
from effectively_once.epoch.shard_step import ShardStep
from effectively_once.errors import EndedTaskError
from effectively_once.ledger.rows import Rows
from effectively_once.sinks.publish import Published
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import declaration

CALLS: list[int] = []


def drawn(rows: pa.Table) -> pa.Table:
    """Answer, and note the call: to whoever is called it is a visible act."""
    CALLS.append(rows.num_rows)
    return pa.table({"n": pa.array([1] * rows.num_rows)})


STEP = RecordedStep("drawn", drawn, pa.schema([("n", pa.int64())]))
PIPELINE = Pipeline(
    lambda frame: frame,
    pa.schema([("user", pa.string())]),
    recorded=STEP,
    rows=(ToKafka("accepted", key="user"), ToFiles("archive")),
)
ROWS = pa.Table.from_pylist(
    [
        {"topic": "t", "partition": 0, "offset": n, "id": f"i{n}" * 40, "event_time_ms": 5, "user": "ann", "shard": 0}
        for n in range(100)
    ],
    empty(PIPELINE).schema,
)
ACTS = ("delta", "call", "record", "accepted", "accepted commits", "archive", "dead_letter", "dead_letter commits")
"""What the first step shows of this shard, in order, and before what of it the token is looked for."""


class _Sink:
    def __init__(self, shown: list[str], name: str, told: Callable[[str], None]) -> None:
        self._shown, self._name, self._told = shown, name, told

    def publish(self, *_: Any) -> tuple[Rows, Published]:
        self._shown.append(self._name)
        self._told("transaction_open")
        self._shown.append(f"{self._name} commits")
        return Rows(), Published.NOW


def _shown(store: MemoryStore, published: list[str]) -> list[str]:
    kinds = {"deltas": "delta", "recorded": "record", "archive": "archive"}
    return [*(kinds[name.split("/")[1]] for name in store.objects), *("call" for _ in CALLS), *published]


@pytest.mark.parametrize("left", range(len(ACTS)))
def test_a_step_whose_task_has_ended_shows_nothing_more(left: int) -> None:
    looks = iter(range(left))
    store, published = MemoryStore(), list[str]()
    CALLS.clear()

    def confirm() -> None:
        if next(looks, None) is None:
            raise EndedTaskError("it has ended", "here", "Nothing to do.")

    task = EpochTask(PIPELINE, pipeline_settings(), declaration(0), 1, "owner", {})
    step = ShardStep(
        task, "dedup", 0, 0, store=store, opened=lambda name, _, told: _Sink(published, name, told), confirm=confirm
    )
    with pytest.raises(EndedTaskError):
        list(epoch.deduplicate(step, ROWS.to_batches()))
    assert sorted(_shown(store, published)) == sorted(ACTS[:left])


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    (folder := tmp_path / task_token.FOLDER).mkdir()
    return folder


def test_the_token_is_that_of_the_attempt(scratch: Path) -> None:
    (scratch / "7").touch()
    task_token.confirm(7, "epoch 3")
    with pytest.raises(EndedTaskError, match=r"attempt 8 has ended.*epoch 3"):
        task_token.confirm(8, "epoch 3")
