"""An abandoned epoch: nothing of it is or becomes visible, and what follows publishes its input once."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from effectively_once.driver.checkpoints import Checkpoint
from effectively_once.errors import ControlError, SinkError, StaleDriverError
from effectively_once.ledger import continuity
from effectively_once.ledger.objects import Put
from effectively_once.ledger.rows import Rows
from effectively_once.operate.abandon.abandon import abandon
from effectively_once.operate.abandon.abandonment import count_shards, kinds
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import (
    FencedError,
    Mark,
    Published,
)
from effectively_once.state import catalog
from effectively_once.state.live import LiveDeltas
from effectively_once_jobs.user_counts import pipeline as user_counts
from tests.settings import pipeline_settings
from tests.unit.library.abandoned_clicks import LAYOUT, MENDED, Clicks, Following, Idle, MemoryShard
from tests.unit.library.ledger_driver import (
    EPOCH_ROWS,
    RECORD_MS,
    SHARDS,
    TOPIC,
    WINDOWS,
    LedgerDriver,
)
from tests.unit.library.names import ACCEPTED, GLOBAL_COUNTS, KAFKA_SINKS, USER_COUNTS


@pytest.fixture
def clicks() -> Clicks:
    """Those whose epoch 4 a driver has declared, and shown nothing of."""
    made = Clicks()
    made.until("first", "decided 0", 4)
    return made


@pytest.mark.parametrize("epochs", [0, 1, 6, 20])
def test_what_an_abandoned_epoch_would_have_read_and_closed_the_next_one_does(epochs: int) -> None:
    """Whatever the watermark is at: windows close once, ids are known, and the chain has no gap."""
    clicks = Clicks()
    clicks.until("first", "decided 0", epochs)
    lost = clicks.declared
    clicks.abandonment().carry_out(lost)
    assert (clicks.head.last_recorded, clicks.head.tail[-1].is_abandoned) == (epochs, True)
    clicks.start("second").run(8)
    again = next(record for record in clicks.head.tail if record.epoch == epochs + 1)
    assert (again.ranges, again.watermark_ms) == (lost.ranges, lost.watermark_ms)
    assert (again.previous_watermark_ms, again.wheel_digest) == (lost.previous_watermark_ms, MENDED)
    clicks.assert_exact(epochs + 8)


@pytest.mark.parametrize("next_driver", [Following, Idle])
def test_windows_that_an_abandoned_epoch_without_input_was_to_close_are_closed_by_the_next(
    next_driver: type[LedgerDriver],
) -> None:
    """Whether that one reads something or not."""
    clicks = Clicks()
    clicks.start("first").run(6)
    clicks.until("second", "decided 0", kind=Idle)
    lost = clicks.declared
    assert (lost.reads_nothing, lost.is_abandoned) == (True, False)
    due = [at for at in range(0, 6000, 1000) if WINDOWS.newly_closed(at, lost.previous_watermark_ms, lost.watermark_ms)]
    assert due, "the test is vacuous"
    clicks.abandonment().carry_out(lost)
    assert clicks.head.tail[-1].is_abandoned
    clicks.start("third", next_driver).run(4)
    again = next(record for record in clicks.head.tail if record.epoch == lost.epoch + 1)
    assert (again.previous_watermark_ms, again.watermark_ms) == (lost.previous_watermark_ms, lost.watermark_ms)
    clicks.assert_exact(6 + 4 - (next_driver is Idle))


def test_an_epoch_without_input_closes_its_windows_when_nobody_abandons_it() -> None:
    """Also when another driver finishes it."""
    clicks = Clicks()
    clicks.start("first").run(6)
    clicks.until("second", "decided 0", kind=Idle)
    clicks.start("third").run(1)
    assert clicks.head.tail[-1].sinks[USER_COUNTS] != dict.fromkeys(map(str, range(SHARDS)), Rows())
    clicks.start("fourth").run(4)
    assert not any(record.is_abandoned for record in clicks.head.tail)
    clicks.assert_exact(6 + 4)


def test_its_record_is_that_of_an_epoch_without_rows() -> None:
    """Every sink, and an empty delta of each kind and shard, for merging counts epochs."""
    clicks = Clicks()
    clicks.start("first").run(2)
    whole = clicks.head.tail[-1]
    clicks.until("second", "declared")
    clicks.abandonment().carry_out(clicks.declared)
    empty = clicks.head.tail[-1]
    for part in ("sinks", "deltas"):
        of_both = [{name: set(shards) for name, shards in getattr(each, part).items()} for each in (whole, empty)]
        assert of_both[0] == of_both[1]
    assert (empty.counts.read, empty.max_event_time_ms, empty.generation) == (0, None, clicks.head.generation)
    live = LiveDeltas(LAYOUT, (WINDOWS,), clicks.head.tail, 0)
    assert {len(named) for shards in live.list_named().values() for named in shards.values()} == {3}


@pytest.mark.parametrize(
    ("step", "where"), [("accepted 0", "sink accepted shard 0"), ("counted 0", "accepted shard 1")]
)
def test_an_epoch_of_which_rows_are_visible_is_refused_by_name_and_nothing_is_published(step: str, where: str) -> None:
    clicks = Clicks()
    clicks.until("first", step, 3)
    before, marks = clicks.head, [shard.last for shard in clicks.shards.values()]
    with pytest.raises(SinkError, match=rf"epoch 3 is visible in .*{where}.*wheel {MENDED[:12]}"):
        clicks.abandonment().refuse_what_is_visible(clicks.declared)
    assert clicks.head == before
    with pytest.raises(SinkError, match=rf"epoch 3 is visible in .*{where}"):
        clicks.abandonment().carry_out(clicks.declared)
    assert (clicks.head.declared, [shard.last for shard in clicks.shards.values()]) == (before.declared, marks)
    clicks.start("second").run(5)
    clicks.assert_exact(8)


def test_a_visible_file_is_refused_as_well() -> None:
    clicks = Clicks()
    clicks.until("first", "decided 0", 3)
    table = pa.table({"window_start_ms": [0], "count": [1]})
    ManifestSink(clicks.store, LAYOUT, GLOBAL_COUNTS).publish(3, 1, table)
    with pytest.raises(SinkError, match=f"epoch 3 is visible in sink {GLOBAL_COUNTS} "):
        clicks.abandonment().refuse_what_is_visible(clicks.declared)


@pytest.mark.parametrize("after", range(len(KAFKA_SINKS) * SHARDS))
def test_an_interrupted_one_goes_on_when_it_is_run_again(after: int, clicks: Clicks) -> None:
    """Wherever it ended: what it published before is empty, and so is what it publishes now."""
    clicks.interrupt(lambda: clicks.abandonment().carry_out(clicks.declared), after)
    assert clicks.declared.is_abandoned, "whoever starts now can publish nothing else"
    clicks.abandonment().refuse_what_is_visible(clicks.declared)
    clicks.abandonment().carry_out(clicks.declared)
    assert len([line for line in clicks.told if line.endswith("showed nothing of it before")]) == after
    clicks.start("second").run(4)
    clicks.assert_exact(8)


def test_a_driver_that_slept_publishes_nothing_of_it_afterwards() -> None:
    """The mark is in its way, with another digest; and so it is when the next epoch is published."""
    clicks = Clicks()
    steps = clicks.start("first").steps()
    for _ in range(4):
        next(step for step in steps if step == "published")
    next(step for step in steps if step == "decided 0")
    clicks.abandonment().carry_out(clicks.declared)
    with pytest.raises(SinkError, match=r"epoch 4 is published with digest 0+, its repeat has"):
        next(step for step in steps if step == "accepted 0")
    clicks.start("second").run(4)
    clicks.assert_exact(8)


def test_a_driver_that_publishes_meanwhile_is_told_and_nothing_is_shown_twice(clicks: Clicks) -> None:
    """Drivers have to be stopped: what one published after the last look cannot be taken back."""
    shard = clicks.shards[ACCEPTED, 1]

    def publish_rows(to: MemoryShard) -> None:
        to.publish(Mark(4, 1, 1, "1" * 32), [b"{}"], None, "first")

    shard.meanwhile.append(publish_rows)
    told = r"a driver that still ran published rows of epoch 4, which is abandoned \(sink accepted shard 1\)"
    with pytest.raises(SinkError, match=told):
        clicks.abandonment().carry_out(clicks.declared)
    assert clicks.declared.is_abandoned


def test_a_driver_that_only_opened_a_producer_meanwhile_keeps_nobody(clicks: Clicks) -> None:
    def open_only(to: MemoryShard) -> None:
        to.owner = "first"

    clicks.shards[ACCEPTED, 1].meanwhile.append(open_only)
    clicks.abandonment().carry_out(clicks.declared)
    assert clicks.head.tail[-1].is_abandoned


def test_producers_that_are_always_replaced_are_told(clicks: Clicks) -> None:
    shard = clicks.shards[ACCEPTED, 1]

    def publish_nothing(epoch: int, generation: int) -> Published:
        raise FencedError

    shard.publish_nothing = publish_nothing  # type: ignore[method-assign]
    with pytest.raises(SinkError, match=r"keeps opening producers or sessions \(sink accepted shard 1\)"):
        clicks.abandonment().carry_out(clicks.declared)


def test_a_driver_that_starts_meanwhile_is_told(clicks: Clicks) -> None:
    def start(to: MemoryShard) -> None:
        clicks.start("second")
        to.owner = "second"

    clicks.shards[ACCEPTED, 1].meanwhile.append(start)
    with pytest.raises(StaleDriverError, match="driver second of generation 3 started meanwhile"):
        clicks.abandonment().carry_out(clicks.declared)


def test_an_epoch_that_is_not_declared_any_more_replaces_nobody() -> None:
    clicks = Clicks()
    driver = clicks.until("first", "decided 0", 4)
    lost = clicks.declared
    clicks.start("second").run(1)
    before = clicks.head
    with pytest.raises(StaleDriverError, match="epoch 4 is not declared any more"):
        clicks.abandonment().carry_out(lost)
    assert clicks.head == before
    assert driver.held.head.declared == lost


def test_sinks_and_kinds_are_those_that_an_epoch_records() -> None:
    settings: PipelineSettings = pipeline_settings(shards=3)
    job = Job(user_counts, settings)
    assert kinds(job.pipeline) == [catalog.KIND, *(each.name for each in user_counts.windows)]
    assert count_shards(job.pipeline, 3) == {**dict.fromkeys(KAFKA_SINKS, 3), GLOBAL_COUNTS: 1}


def test_the_watermark_of_a_chain_that_ends_in_abandoned_epochs_is_that_of_the_last_other() -> None:
    clicks = Clicks()
    clicks.start("first").run(3)
    due = clicks.head.watermark_ms
    for _ in range(3):
        clicks.until("again", "declared")
        clicks.abandonment().carry_out(clicks.declared)
    assert (clicks.head.watermark_ms, clicks.head.last_recorded) == (due, 5)
    assert due == (3 * EPOCH_ROWS - 1) * RECORD_MS


@pytest.mark.parametrize(("batch", "goes_on"), [(0, False), (3, True)])
def test_a_checkpoint_whose_last_batch_was_abandoned_plans_it_again_or_is_left(batch: int, goes_on: bool) -> None:
    """Where the batch before it ends the chain does; the first batch of a lineage has none before it."""
    clicks = Clicks()
    clicks.until("first", "declared", 3)
    lost = clicks.declared
    checkpoint = Checkpoint(clicks.store, LAYOUT, lost.lineage)  # type: ignore[arg-type]
    for number in range(batch + 1):
        start = lost.ranges[TOPIC]["0"][1] - (batch - number) * EPOCH_ROWS
        offsets = f'v1\n{{}}\n{{"{TOPIC}": {{"0": {start}}}}}'.encode()
        clicks.store.answer(Put(f"{LAYOUT.checkpoint(lost.lineage)}/offsets/{number}", offsets, None))
    clicks.abandonment().carry_out(lost)
    head = clicks.head
    assert checkpoint.fits(head) == goes_on
    if goes_on:
        assert checkpoint.ranges(batch, {}) == lost.ranges
        assert continuity.classify(head, checkpoint.ranges(batch, {}), "here") == "new"


def test_of_a_pipeline_whose_state_is_sparks_nothing_is_abandoned() -> None:
    job = SimpleNamespace(settings=pipeline_settings(), pipeline=SimpleNamespace(stateful=object()))
    with pytest.raises(ControlError, match="is repeated with Spark's batch"):
        abandon(job, print)  # type: ignore[arg-type]
