"""Spark's watermark of a batch is the chain's, whether the batch is new, is declared or runs again for its state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.driver.checkpoints import Planned
from effectively_once.driver.driver import Driver
from effectively_once.epoch.stateful_step import spark_watermark_ms
from effectively_once.errors import ChainError
from effectively_once.ledger import chain
from effectively_once.ledger.objects import run
from tests.settings import pipeline_settings
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import LAYOUT, advanced, declaration, ranges, taken

SETTINGS = pipeline_settings(pipeline=LAYOUT.pipeline, window_ms=100, lateness_ms=100)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a driver of a stateful query that writes down what becomes of a batch."""
    made: Any = object.__new__(Driver)
    store = MemoryStore()
    held = advanced(store, taken(store), 3)
    made.settings, made.layout, made._plan, made._published = SETTINGS, LAYOUT, SimpleNamespace(), None
    made._held = run(chain.declare(LAYOUT, held, declaration(3), None, 0), store)
    made.ran = []
    monkeypatch.setattr(made, "_publish", lambda pinned, *_: made.ran.append(pinned.epoch), raising=False)
    monkeypatch.setattr(made, "_for_its_state", lambda record, _: made.ran.append(record.epoch), raising=False)
    return made


def batch(driver: Any, epoch: int, watermark_ms: int) -> None:
    """Have Spark run the batch of an epoch, with a watermark of its own."""
    driver._checkpoint = SimpleNamespace(
        lineage="000001-abcd",
        ranges=lambda *_: ranges(epoch),
        folder=lambda: "checkpoint",
        planned=lambda _: Planned(watermark_ms, {}),
    )
    driver._first = {}
    driver._batch(None, epoch)


@pytest.mark.parametrize("epoch", [2, 3], ids=["recorded", "declared"])
def test_a_repeat_with_another_watermark_is_refused(driver: Any, epoch: int) -> None:
    """One digit of `offsets/n` that was changed: its ranges are right, and windows would close otherwise."""
    ours = spark_watermark_ms(SETTINGS, declaration(epoch).watermark_ms)
    assert ours > 0
    for wrong in (ours + 1, ours - 1, ours * 10):
        with pytest.raises(ChainError, match=f"batch {epoch} is {wrong} ms, by the chain it is {ours} ms"):
            batch(driver, epoch, wrong)
    assert driver.ran == []
    batch(driver, epoch, ours)
    assert driver.ran == [epoch]
