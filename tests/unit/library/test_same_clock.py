"""Spark's watermark of a batch is the chain's, whether the batch is new, is declared or runs again for its state."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.driver.batches import Batches
from effectively_once.driver.checkpoints import Planned
from effectively_once.driver.control import Control
from effectively_once.driver.held_chain import HeldChain
from effectively_once.driver.lineage import Lineage
from effectively_once.epoch.stateful_step import spark_watermark_ms
from effectively_once.errors import ChainError
from effectively_once.ledger import chain
from effectively_once.ledger.objects import run
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, advanced, declaration, ranges, taken

SETTINGS = pipeline_settings(pipeline=LAYOUT.pipeline, window_ms=100, lateness_ms=100)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the batches of a stateful query that write down what becomes of each."""
    store: Any = MemoryStore()
    held = HeldChain(LAYOUT, store)
    held.held = run(chain.declare(LAYOUT, advanced(store, taken(store), 3), declaration(3), None, 0), store)
    ran: list[int] = []
    publisher: Any = SimpleNamespace(
        chain=held,
        settings=SETTINGS,
        epoch_job=SimpleNamespace(plan=SimpleNamespace()),
        publish=lambda pinned, *_: ran.append(pinned.epoch),
        publish_rest=lambda _: None,
    )
    made: Any = Batches(publisher, Control(), threading.Event())
    made.ran = ran
    monkeypatch.setattr(made, "_for_its_state", lambda record, _: ran.append(record.epoch))
    return made


def batch(batches: Any, epoch: int, watermark_ms: int) -> None:
    """Have Spark run the batch of an epoch, with a watermark of its own."""
    checkpoint: Any = SimpleNamespace(
        lineage="000001-abcd",
        ranges=lambda *_: ranges(epoch),
        folder=lambda: "checkpoint",
        read_planned=lambda _: Planned(watermark_ms, {}),
    )
    batches.lineage = Lineage(checkpoint, {}, {})
    batches.batch(None, epoch)


@pytest.mark.parametrize("epoch", [2, 3], ids=["recorded", "declared"])
def test_a_repeat_with_another_watermark_is_refused(batches: Any, epoch: int) -> None:
    """One digit of `offsets/n` that was changed: its ranges are right, and windows would close otherwise."""
    ours = spark_watermark_ms(SETTINGS, declaration(epoch).watermark_ms)
    assert ours > 0
    for wrong in (ours + 1, ours - 1, ours * 10):
        with pytest.raises(ChainError, match=f"batch {epoch} is {wrong} ms, by the chain it is {ours} ms"):
            batch(batches, epoch, wrong)
    assert batches.ran == []
    batch(batches, epoch, ours)
    assert batches.ran == [epoch]
