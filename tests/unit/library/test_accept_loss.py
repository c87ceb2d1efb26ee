"""Lost input that is given up: recorded in an epoch of its own, published by nobody, gone on behind."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from effectively_once.accept_loss import accept_loss
from effectively_once.errors import ChainError, ControlError, StaleDriverError
from effectively_once.ledger.records import Loss
from tests.settings import pipeline_settings
from tests.unit.library.ledger_driver import EPOCH_ROWS, TOPIC
from tests.unit.library.test_abandon import MENDED, Clicks, MemoryShard

GONE = 7


def loss(epochs: int, gone: int = GONE) -> Loss:
    """Return what follows so many epochs and is lost."""
    end = epochs * EPOCH_ROWS
    return Loss(offsets={TOPIC: {"0": (end, end + gone)}}, at_ms=1)


@pytest.mark.parametrize("epochs", [1, 6])
def test_the_next_driver_goes_on_behind_it_and_every_sink_has_its_empty_epoch(epochs: int) -> None:
    clicks = Clicks()
    clicks.start("first").run(epochs)
    due = clicks.head.watermark_ms
    clicks.abandonment().give_up(epochs - 1, loss(epochs), MENDED)
    last = clicks.head.tail[-1]
    assert (clicks.head.last_recorded, clicks.head.declared, last.lost) == (epochs, None, loss(epochs))
    assert (last.counts.read, last.wheel_digest, clicks.head.watermark_ms) == (0, MENDED, due)
    assert {shard.last.epoch for shard in clicks.shards.values() if shard.last is not None} == {epochs}
    clicks.start("second").run(2)
    start = epochs * EPOCH_ROWS + GONE
    assert [one.ranges for one in clicks.head.tail[-2:]] == [
        {TOPIC: {"0": (start + n * EPOCH_ROWS, start + (n + 1) * EPOCH_ROWS)}} for n in range(2)
    ]
    assert [one.lost for one in clicks.head.tail[-2:]] == [None, None]


@pytest.mark.parametrize("after", [0, 3])
def test_interrupted_any_driver_finishes_it_over_nothing(after: int) -> None:
    clicks = Clicks()
    clicks.start("first").run(3)

    def die(_: MemoryShard) -> None:
        raise KeyboardInterrupt

    list(clicks.shards.values())[after].meanwhile.append(die)
    with pytest.raises(KeyboardInterrupt):
        clicks.abandonment().give_up(2, loss(3), MENDED)
    assert (clicks.declared.lost, clicks.declared.abandoned) == (loss(3), True)
    clicks.abandonment().carry_out(clicks.declared)
    assert (clicks.head.declared, clicks.head.tail[-1].lost) == (None, loss(3))


def test_a_driver_that_started_meanwhile_is_not_replaced() -> None:
    clicks = Clicks()
    clicks.start("first").run(3)
    clicks.until("second", "declared")
    before = clicks.head
    with pytest.raises(StaleDriverError, match="does not end with epoch 2 any more"):
        clicks.abandonment().give_up(2, loss(3), MENDED)
    with pytest.raises(StaleDriverError, match="does not end with epoch 1 any more"):
        clicks.abandonment().give_up(1, loss(2), MENDED)
    assert clicks.head == before


def test_a_driver_that_slept_declares_nothing_afterwards() -> None:
    clicks = Clicks()
    driver = clicks.start("first")
    driver.run(3)
    clicks.abandonment().give_up(2, loss(3), MENDED)
    with pytest.raises(StaleDriverError):
        next(driver.steps())


def test_what_is_not_lost_is_not_given_up() -> None:
    clicks = Clicks()
    clicks.start("first").run(3)
    with pytest.raises(ChainError, match="are no loss, the chain ends at 30"):
        clicks.abandonment().give_up(2, loss(2), MENDED)
    assert clicks.head.tail[-1].lost is None


def test_of_a_pipeline_whose_state_is_sparks_nothing_is_given_up() -> None:
    job = SimpleNamespace(settings=pipeline_settings(), pipeline=SimpleNamespace(stateful=object()))
    with pytest.raises(ControlError, match="its checkpoint begins where the lost input does"):
        accept_loss(job, print)  # type: ignore[arg-type]
