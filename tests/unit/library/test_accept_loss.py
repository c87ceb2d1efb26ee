"""Lost input that is given up: recorded in an epoch of its own, published by nobody, gone on behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.driver.preflight import Preflight
from effectively_once.errors import ChainError, ControlError, SinkError, SourceError, StaleDriverError
from effectively_once.ledger.loss import Loss
from effectively_once.operate.abandon import accept_loss
from effectively_once.operate.backup.backup import Backup
from effectively_once.operate.backup.location import BackupLocation
from effectively_once.operate.backup.restore import restore
from tests.settings import pipeline_settings
from tests.unit.library.abandoned_clicks import LAYOUT, MENDED, Clicks
from tests.unit.library.ledger_driver import EPOCH_ROWS, TOPIC
from tests.unit.library.listed_store import ListedStore
from tests.unit.library.names import GLOBAL_COUNTS

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
    clicks.interrupt(lambda: clicks.abandonment().give_up(2, loss(3), MENDED), after)
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
        accept_loss.accept_loss(job, print)  # type: ignore[arg-type]


def carry_out(monkeypatch: pytest.MonkeyPatch, clicks: Clicks, first: int, *, yes: bool = True) -> list[str]:
    """Run the command on a pipeline in memory, whose topic holds what is there from an offset on."""
    made, told = clicks.abandonment(), list[str]()

    class Surroundings:
        """All in order."""

        def __init__(self, *_: Any) -> None:
            pass

        def surroundings(self, *_: Any) -> dict[str, str]:
            return {}

        accept = marks = surroundings

    monkeypatch.setattr(accept_loss, "S3ObjectStore", lambda _: clicks.store)
    monkeypatch.setattr(
        accept_loss, "KafkaSource", lambda _: SimpleNamespace(first_offsets=lambda: {TOPIC: {"0": first}})
    )
    monkeypatch.setattr(accept_loss, "Preflight", Surroundings)
    monkeypatch.setattr(accept_loss, "refuse_missing_sinks", lambda *_: None)
    given = {"shards": made.shards, "files": made.files, "kinds": made.kinds, "count_shards": made.sinks}
    for name, value in given.items():
        monkeypatch.setattr(accept_loss, name, lambda *_, value=value: value)
    job: Any = SimpleNamespace(
        settings=pipeline_settings(pipeline="clicks", topic=TOPIC), pipeline=SimpleNamespace(stateful=None)
    )
    job.of_shards = lambda _: job
    accept_loss.accept_loss(job, told.append, yes=yes, wheel_digest=MENDED)
    return told


def test_the_command_tells_what_is_gone_and_records_it_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    clicks = Clicks()
    clicks.start("first").run(3)
    before = clicks.head
    assert carry_out(monkeypatch, clicks, 37, yes=False) == [
        f"gone: topic {TOPIC} partition 0 offsets 30 to 36, 7 at most",
        accept_loss.LOOK_AGAIN,
    ]
    assert clicks.head == before
    assert carry_out(monkeypatch, clicks, 37)[-1] == "epoch 3 records the loss; the next driver begins behind it"
    lost = clicks.head.tail[-1].lost
    assert lost is not None
    assert (lost.offsets, clicks.head.tail[-1].wheel_digest) == (loss(3).offsets, MENDED)
    assert carry_out(monkeypatch, clicks, 37) == ["epoch 3 records the loss of 7 offsets; nothing is left to do"]
    assert carry_out(monkeypatch, clicks, 39)[-1] == "epoch 4 records the loss; the next driver begins behind it"
    clicks.start("second").run(1)
    assert clicks.head.tail[-1].ranges == {TOPIC: {"0": (39, 49)}}


def test_the_command_abandons_an_epoch_that_is_declared_over_lost_input(monkeypatch: pytest.MonkeyPatch) -> None:
    clicks = Clicks()
    clicks.until("first", "decided 0", 3)
    assert "nothing of it is visible" in carry_out(monkeypatch, clicks, 37, yes=False)[-2]
    assert clicks.declared.epoch == 3
    assert carry_out(monkeypatch, clicks, 37)[-1] == "epoch 4 records the loss; the next driver begins behind it"
    assert (clicks.head.tail[-2].abandoned, clicks.head.tail[-2].lost) == (True, None)
    assert clicks.head.tail[-1].ranges == {TOPIC: {"0": (37, 37)}}


def test_the_command_refuses_an_epoch_that_is_visible_and_one_that_can_be_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clicks = Clicks()
    clicks.until("first", "accepted 0", 3)
    before = clicks.head
    says = r"epoch 3 is visible in .*, and its input is gone .*`effectively-once restore`, then .*accept-loss` again"
    with pytest.raises(SinkError, match=says):
        carry_out(monkeypatch, clicks, 37)
    with pytest.raises(ControlError, match="the topic holds all that is to be read next"):
        carry_out(monkeypatch, clicks, 30)
    assert clicks.head == before


def test_after_the_restore_that_its_refusal_names_the_loss_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair reads the ranges of the epoch as well: it is refused like a start."""
    clicks, kept = Clicks(), ListedStore()
    clicks.start("first").run(3)
    Backup(clicks.store, LAYOUT, BackupLocation(kept, "memory"), [GLOBAL_COUNTS]).take()
    shown = {key: (shard.last, [*shard.rows]) for key, shard in clicks.shards.items()}
    clicks.until("second", "accepted 0")
    with pytest.raises(SinkError, match="Nobody can finish it"):
        carry_out(monkeypatch, clicks, 37)
    job: Any = SimpleNamespace(settings=pipeline_settings(pipeline="clicks", topic=TOPIC))
    source: Any = SimpleNamespace(first_offsets=lambda: {TOPIC: {"0": 37}})
    with pytest.raises(SourceError, match="epoch 3 is declared over them and cannot be finished"):
        Preflight(job, LAYOUT, clicks.store, source).refuse_lost_input(clicks.head)  # type: ignore[arg-type]
    clicks.store = ListedStore()
    for key, (mark, rows) in shown.items():
        clicks.shards[key].last, clicks.shards[key].rows = mark, rows
    restore(BackupLocation(kept, "memory"), clicks.store, LAYOUT)
    assert carry_out(monkeypatch, clicks, 37)[-1] == "epoch 3 records the loss; the next driver begins behind it"
    clicks.start("third").run(2)
    assert [one.ranges for one in clicks.head.tail[-2:]] == [{TOPIC: {"0": (37, 47)}}, {TOPIC: {"0": (47, 57)}}]
    assert {shard.last.epoch for shard in clicks.shards.values() if shard.last is not None} == {5}


def test_the_command_finishes_what_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    clicks = Clicks()
    clicks.start("first").run(3)
    clicks.interrupt(lambda: carry_out(monkeypatch, clicks, 37))
    pinned = clicks.declared.lost
    assert carry_out(monkeypatch, clicks, 37)[-1] == "epoch 3 records the loss; the next driver begins behind it"
    assert (clicks.head.declared, clicks.head.tail[-1].lost) == (None, pinned)


def test_before_the_first_epoch_there_is_nothing_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ControlError, match="no epoch has read anything"):
        carry_out(monkeypatch, Clicks(), 37)
