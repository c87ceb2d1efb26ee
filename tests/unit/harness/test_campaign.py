"""The executor of a plan: a fault strikes when its step is announced, counts when it hit, and is always undone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.faults.campaign import PORTIONS_UNDONE, REARMED
from tests.harness.mixture import SORTS
from tests.harness.schedule import DECLARED, EVERY_EXECUTOR, PlannedFault, Strike
from tests.unit.harness.campaign_place import PLANNED, SOON_S, Place
from tests.unit.harness.sleepers import soon


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.release.set()
    if made.campaign.is_alive():
        made.campaign.end()
    made.history.close()


def test_a_fault_at_its_step_in_a_running_epoch_hits(place: Place) -> None:
    place.begin(PLANNED)
    place.declare(1)
    place.step(1, shard=1)
    place.step(1)
    place.await_strikes(1)
    (fault,) = place.end()
    assert fault["hit"] is True
    assert (fault["kind"], fault["target"], fault["signal"]) == ("sigkill", "executor", "SIGKILL")
    assert (fault["epoch"], fault["phase"]) == (1, "committed:accepted")
    struck_at = next(one for one in place.watch.seen if one["event"] == "step" and one["shard"] == 0)
    assert (fault["shard"], fault["announced_at"]) == (0, struck_at["t"])
    assert (fault["process_before"], fault["process_after"]) == ("7@1", "8@2")
    assert place.phases() == ["steady", "inject", "impact", "heal", "recovery"]
    assert place.calls == ["arm", "strike"]
    assert place.campaign.error is None


def test_a_fault_that_misses_is_armed_again_some_times_and_then_given_up(place: Place) -> None:
    place.begin(PLANNED)
    place.declare(1)
    for number in range(1 + REARMED):
        place.waits()
        # The epoch had been published before the blow came, in another millisecond.
        place.publish(1 + number)
        time.sleep(0.005)
        before = place.calls.count("strike")
        place.step(1 + number, shard=0)
        place.await_strikes(before + 1)
        place.declare(2 + number)
        place.publish(2 + number, repeat=False)
    place.await_end()
    assert place.calls.count("arm") == 1 + REARMED
    assert [fault["hit"] for fault in place.faults()] == [False] * (1 + REARMED)
    assert place.said[-1] == "✗ kill -9 executor at committed:accepted never hit a running epoch with effect"


@pytest.mark.parametrize("sort", ["kubelet-stall", "driver-executor-cut"])
def test_what_takes_a_second_to_come_and_misses_comes_again_with_a_declaration(place: Place, sort: str) -> None:
    place.begin(PlannedFault(1, "committed", "accepted", 0, SORTS[sort], planned_s=150.0))
    place.declare(1)
    place.waits()
    # Such a step is the last of its epoch.
    place.publish(1)
    time.sleep(0.005)
    place.step(1)
    place.await_strikes(1)
    place.declare(2)
    place.publish(2, repeat=False)
    place.waits()
    place.declare(3)
    place.await_strikes(2)
    assert [fault["phase"] for fault in place.end(3)] == ["committed:accepted", DECLARED]


def test_nobody_to_strike_is_a_miss_and_a_rearmed_fault_takes_any_shard(place: Place) -> None:
    place.absent = 1
    place.come_by()
    place.await_strikes(1)
    place.waits()
    place.step(1, shard=1)
    place.await_strikes(2)
    assert [fault["hit"] for fault in place.end()] == [True]
    assert place.said[0] == "… kill -9 executor in epoch 1 at committed:accepted: missed, gone"


def test_a_driver_that_repeats_the_epoch_does_not_make_the_fault_a_miss(place: Place) -> None:
    place.begin(PlannedFault(1, DECLARED, None, 0, Strike("sigkill", "driver")))
    place.declare(1)
    place.await_strikes(1)
    time.sleep(0.01)
    place.tell("driver", state="started", pid=2, generation=2)
    place.declare(1)
    (fault,) = place.end()
    assert fault["hit"] is True
    assert fault["phase"] == DECLARED


def test_a_fault_without_effect_is_no_hit_and_comes_again_when_a_shard_begins(place: Place) -> None:
    place.come_by()
    place.await_strikes(1)
    time.sleep(0.005)
    place.publish(1, repeat=False)
    soon("records to be let through: no epoch follows by itself", place.campaign.more)
    assert place.faults() == [], "the epoch that ran is none that was survived"
    place.declare(2)
    place.publish(2, repeat=False)
    soon("it to be written down", place.faults)
    place.waits()
    assert (place.faults()[0]["hit"], place.faults()[0]["recovered_s"] is None) == (False, False)
    assert "without effect" in place.said[-1]
    place.declare(3)
    place.step(3)
    place.tell("step", epoch=3, step="dedup_begun", sink=None, shard=1, pid=1, attempt=0)
    place.await_strikes(2)
    assert [(one["phase"], one["hit"]) for one in place.end(3)] == [
        ("committed:accepted", False),
        ("dedup_begun", True),
    ]


def misses(place: Place) -> None:
    """Assert that the fault is written down, and did not hit."""
    soon("it to be written down", place.faults)
    assert [fault["hit"] for fault in place.faults()] == [False]


def test_a_fault_that_no_epoch_follows_is_a_miss_once_all_is_published(place: Place) -> None:
    place.come_by()
    place.await_strikes(1)
    time.sleep(0.005)
    place.publish(1, repeat=False)
    place.campaign.drained.set()
    misses(place)


@pytest.mark.parametrize("what", ["one of several that were to go at once", "before the declaration", "met nothing"])
def test_a_fault_that_came_otherwise_than_planned_is_a_miss(place: Place, what: str) -> None:
    target = EVERY_EXECUTOR if what.startswith("one of several") else "executor"
    place.strikes_at = time.time_ns() // 1_000_000 - 10_000 if what == "before the declaration" else None
    place.lands = what != "met nothing"
    place.come_by(PlannedFault(1, "committed", "accepted", 0, Strike("sigkill", target)))
    place.await_strikes(1)
    place.publish(1)
    misses(place)
    place.waits()
    assert place.aimed == [(0, True, 0), (0, False, 3)], "armed again, and any shard will do the second time"


def test_a_fault_that_lasts_is_healed_and_tells_how_long_it_lasted(place: Place) -> None:
    place.lasting = True
    place.come_by()
    soon("it to last", place.enduring.is_set)
    place.release.set()
    soon("it to be healed", lambda: "heal" in place.calls)
    assert not place.campaign.more()
    (fault,) = place.end()
    assert fault["stopped_s"] == 1.5
    assert fault["healed_at"] >= fault["injected_at"]
    assert place.calls == ["arm", "strike", "endure", "heal"]


def test_a_fault_is_healed_when_its_endurance_fails(place: Place) -> None:
    place.lasting = place.breaks = True
    place.come_by()
    place.release.set()
    place.await_end()
    assert place.calls == ["arm", "strike", "endure", "heal"]
    assert isinstance(place.campaign.error, RuntimeError)
    assert place.campaign.waiting.is_set()
    assert place.faults() == []


def test_the_end_of_a_run_gives_up_what_lasts_and_closes_the_arsenal(place: Place) -> None:
    place.lasting = True
    place.come_by()
    soon("it to last", place.enduring.is_set)
    place.campaign.end()
    assert not place.campaign.is_alive()
    assert place.calls == ["arm", "strike", "endure", "close", "heal", "close"]
    assert "the run ends" in str(place.campaign.error)
    assert place.faults() == []


def test_the_end_before_a_step_strikes_nobody(place: Place) -> None:
    place.begin(PLANNED, PLANNED)
    place.campaign.end()
    assert [one for one in place.calls if one != "close"] == ["arm", "disarm"], "nothing is armed again"
    assert place.said == [], "what was broken off has not missed"


def test_a_fault_that_no_epoch_is_left_for_is_given_up_once_and_said(place: Place) -> None:
    place.begin(PLANNED)
    place.campaign.stop_asked.set()
    with place.watch.changed:
        place.watch.changed.notify_all()
    place.await_end()
    assert place.calls == ["arm", "disarm"]
    assert place.said == ["✗ kill -9 executor at committed:accepted never hit a running epoch with effect"]


def test_few_records_flow_while_a_fault_that_wants_them_is_undone(place: Place) -> None:
    place.lasting = place.wants_records = True
    place.fresh = []
    place.begin(PLANNED)
    assert place.campaign.more()
    place.declare(1)
    place.step(1)
    soon("it to last", place.enduring.is_set)
    assert not place.campaign.more()
    place.release.set()
    soon("it to be healed", lambda: "heal" in place.calls)
    assert [place.campaign.more() for _ in range(PORTIONS_UNDONE + 1)] == [True] * PORTIONS_UNDONE + [False]
    place.fresh = ["8@2"]
    assert len(place.end()) == 1


def test_records_flow_while_a_fault_lasts_that_has_to_meet_them(place: Place) -> None:
    place.lasting = place.flowing = True
    place.come_by()
    soon("it to last", place.enduring.is_set)
    assert [place.campaign.more() for _ in range(PORTIONS_UNDONE + 1)] == [True] * PORTIONS_UNDONE + [False]
    place.release.set()
    assert [fault["hit"] for fault in place.end()] == [True]


READING = PlannedFault(1, DECLARED, None, 0, Strike("stall"), after_s=0.4, planned_s=3.0)


def test_a_fault_comes_so_long_after_the_announcement_as_planned(place: Place) -> None:
    place.lasting = True
    place.release.set()
    place.begin(READING)
    place.declare(3)
    declared_at = place.watch.seen[-1]["t"]
    place.await_strikes(1)
    (fault,) = place.end(3)
    assert fault["injected_at"] - declared_at >= 400
    assert (fault["after_s"], fault["phase"], fault["hit"]) == (0.4, DECLARED, True)
    assert place.prepared == [(3.0, 0.4)]


def test_a_fault_whose_epoch_is_over_before_it_comes_strikes_nobody_and_comes_sooner_in_the_next(place: Place) -> None:
    place.begin(PlannedFault(1, DECLARED, None, 0, Strike("stall"), after_s=2.0, planned_s=3.0))
    for epoch in range(3, 4 + REARMED):
        place.waits()
        place.declare(epoch)
        soon("the fault to wait no more for its step", lambda: not place.campaign.waiting.is_set())
        place.publish(epoch)
        soon("the miss", lambda epoch=epoch: any(f"epoch {epoch}" in said for said in place.said))
    place.await_end()
    assert "strike" not in place.calls
    assert place.calls.count("disarm") == 1 + REARMED
    assert place.prepared == [(3.0, 2.0 / 2**tried) for tried in range(1 + REARMED)]
    assert place.faults() == []
    assert "missed, it was over 2 s later" in place.said[0]
    assert "never hit" in place.said[-1]


def test_the_end_of_a_run_ends_the_delay(place: Place) -> None:
    place.begin(PlannedFault(1, DECLARED, None, 0, Strike("stall"), after_s=SOON_S, planned_s=3.0))
    place.declare(3)
    soon("the fault to wait no more for its step", lambda: not place.campaign.waiting.is_set())
    began = time.monotonic()
    place.campaign.end()
    assert time.monotonic() - began < SOON_S / 2
    assert "strike" not in place.calls
