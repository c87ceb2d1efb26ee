"""What an attempt at an epoch hands to its tasks: all of it is pinned by the declaration, or named by the chain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Count, Pipeline, ToKafka, Windowed
from effectively_once.driver import session
from effectively_once.driver.epoch_job import EpochJob
from effectively_once.driver.held_chain import HeldChain
from effectively_once.epoch import rows
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.ledger.head import Head
from effectively_once.ledger.held import Held
from effectively_once.pipeline.job import Job
from effectively_once.state.lateness import Windows
from effectively_once.state.live import LiveDeltas
from tests.settings import pipeline_settings
from tests.unit.ledger.samples import LAYOUT, declaration, record_of

PIPELINE = Pipeline(
    lambda frame: frame,
    pa.schema([("user", pa.string())]),
    rows=(ToKafka("accepted"),),
    window_ms=60_000,
    lateness_ms=120_000,
    windows=(Windowed("user", {"n": Count()}, ToKafka("per_user")),),
)
RECORDED = 5


class Frame:
    """A data frame: notes the task of each step."""

    def __init__(self) -> None:
        self.tasks: list[EpochTask] = []
        self.set: dict[str, str] = {}
        self.sparkSession = SimpleNamespace(conf=SimpleNamespace(set=self.set.__setitem__))

    def mapInArrow(self, step: Any, _: str) -> Frame:  # noqa: N802 - Spark's name
        self.tasks.append(step.__defaults__[0])
        return self

    def toArrow(self) -> Any:  # noqa: N802 - Spark's name
        return None


@pytest.fixture
def attempted(monkeypatch: pytest.MonkeyPatch) -> tuple[list[EpochTask], list[Any]]:
    """Attempt the next epoch of a driver that has just started; return the tasks, and what late rows are judged by."""
    frame, judged = Frame(), list[Any]()

    def timely(_: Pipeline, given: Frame, *by: Any, values: bool = False) -> Frame:
        judged.append((*by, values))
        return given

    monkeypatch.setattr(rows, "timely", timely)
    monkeypatch.setattr(rows, "in_shards", lambda _, given, __: given)
    monkeypatch.setattr(rows, "by_key", lambda given, _, __: given)
    store: Any = None
    chain = HeldChain(LAYOUT, store)
    chain.owner = "owner"
    chain.held = Held(Head(pipeline=LAYOUT.pipeline, generation=3, owner="owner", settings={}), "etag")
    made: Any = EpochJob(Job(PIPELINE, pipeline_settings(pipeline=LAYOUT.pipeline, **PIPELINE.defaults)), chain)
    chain.live = LiveDeltas(LAYOUT, (made.windows,), [record_of(declaration(epoch)) for epoch in range(RECORDED)], 0)
    made._conclude = lambda *_: SimpleNamespace()
    made.attempt(declaration(RECORDED), frame, measured=False)
    assert frame.set == {session.BATCH_BYTES: session.UNMEASURED}
    return frame.tasks, judged


def test_every_task_is_told_all_deltas_that_the_chain_names(attempted: tuple[list[EpochTask], list[Any]]) -> None:
    """Also those of drivers before this one (R5)."""
    tasks, _ = attempted
    assert len(tasks) == 2
    for task in tasks:
        assert [entry.epoch for entry in task.deltas_of("ids", 0)] == list(range(RECORDED))
        assert (task.declaration, task.generation, task.owner) == (declaration(RECORDED), 3, "owner")
        assert task.windows == Windows(60_000, 120_000)


def test_late_is_judged_by_the_pinned_watermark_and_the_pipelines_own_windows(
    attempted: tuple[list[EpochTask], list[Any]],
) -> None:
    """By those that windows and catalog are closed by (R6)."""
    _, judged = attempted
    assert judged == [(Windows(60_000, 120_000), declaration(RECORDED).watermark_ms, False)]
