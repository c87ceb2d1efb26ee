"""A fault counts with an effect that the history shows and that no earlier fault had; a late one had none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.aftermath import Aftermath, effects_of
from tests.harness.mixture import SORTS
from tests.harness.results import Effect, Fault
from tests.harness.schedule import Strike

Row = dict[str, Any]
AT = 5_000


def epoch(t: int, number: int, state: str, **more: Any) -> Row:
    return {"t": t, "event": "epoch", "epoch": number, "state": state, "driver": 1, "generation": 1, **more}


def step(t: int, name: str, shard: int = 0, number: int = 3, attempt: int = 0, **more: Any) -> Row:
    what = {"t": t, "event": "step", "step": name, "sink": None}
    return {**what, "epoch": number, "shard": shard, "attempt": attempt, **more}


BEFORE = [
    {"t": 1, "event": "driver", "state": "started", "generation": 1},
    epoch(4_000, 3, "declared"),
    step(4_200, "dedup_begun"),
    step(4_210, "dedup_begun", 1),
    step(4_300, "ids_decided"),
]
DONE = epoch(5_060, 3, "published", repeat=False)
NEXT = [epoch(5_500, 4, "declared"), step(6_000, "dedup_begun", number=4), epoch(7_000, 4, "published", repeat=False)]


def after(*events: Row, kind: str = "sigkill", target: str = "executor", **more: Any) -> Aftermath:
    fields = {"process_before": "7@1.00", "process_after": "8@5.50", "injected_at": AT, "epoch": 3, **more}
    return Aftermath(Fault(kind=kind, target=target, **fields), [*BEFORE, *events])


def test_a_kill_as_an_epoch_ends_has_no_effect_and_the_epoch_that_ends_is_no_recovery() -> None:
    """0.06 s later the epoch was published: its work was done when the executor ended."""
    found = after(DONE, *NEXT)
    assert (found.effect, found.recovered_at) == (Effect.NONE, 7_000)
    assert after(DONE).recovered_at is None
    assert after(DONE).idle


@pytest.mark.parametrize(
    "redone",
    [
        step(5_300, "dedup_begun"),
        step(5_300, "ids_decided", attempt=1),
        step(5_300, "windows_begun", attempt=2),
        epoch(5_300, 3, "declared", driver=2),
        epoch(5_300, 3, "published", repeat=True),
    ],
    ids=["announced again", "tried again", "tried later", "declared again", "repeated"],
)
def test_work_that_is_done_again_is_an_effect_and_its_epoch_a_recovery(redone: Row) -> None:
    found = after(redone, epoch(5_900, 3, "published", repeat=False))
    assert found.effect is Effect.REDONE
    assert found.recovered_at == (5_300 if redone.get("state") == "published" else 5_900)


@pytest.mark.parametrize(
    "other",
    [
        step(5_020, "windows_begun"),
        step(5_020, "ids_decided", 1),
        step(5_010, "dedup_begun", 2),
        step(4_900, "dedup_begun"),
        step(AT, "dedup_begun"),
        step(8_000, "dedup_begun"),
        {**NEXT[1], "t": 6_100},
    ],
    ids=["goes on", "other shard", "further shard", "before", "at once", "after recovery", "of the next epoch"],
)
def test_work_that_goes_on_is_none(other: Row) -> None:
    assert after(other, DONE, *NEXT).effect is Effect.NONE


def test_what_an_earlier_fault_has_done_again_is_not_due_to_a_later_one() -> None:
    going_on = [step(4_600, "dedup_begun"), step(4_700, "dedup_begun", 1, attempt=1)]
    late = [step(5_010, "ids_decided"), step(5_020, "ids_decided", 1, attempt=1), {**DONE, "repeat": True}]
    assert after(*going_on, *late, *NEXT).effect is Effect.NONE
    assert after(*going_on, step(5_200, "dedup_begun"), *late, *NEXT).effect is Effect.REDONE
    assert after(*going_on, step(5_200, "dedup_begun", attempt=2), *late, *NEXT).effect is Effect.REDONE


def test_an_effect_is_that_of_the_last_fault_before_it() -> None:
    other = {"t": 9_000, "event": "fault", "injected_at": 5_200}
    again = [step(5_300, "dedup_begun"), epoch(5_900, 3, "published", repeat=True)]
    assert after(*again, other).effect is Effect.NONE
    assert after(*again, {**other, "injected_at": 5_400}).effect is Effect.REDONE


def test_a_new_driver_is_of_a_newer_generation() -> None:
    taken = [epoch(6_000, 3, "declared", driver=2), epoch(6_500, 3, "published", driver=2, repeat=True)]
    for generation, effect in ((2, Effect.SUCCEEDED), (1, Effect.NONE)):
        started = {"t": 5_600, "event": "driver", "state": "started", "generation": generation}
        assert after(started, *taken, target="driver").effect is effect
    assert after(*taken, target="driver").effect is Effect.NONE, "nobody started"


def test_the_pod_that_took_a_place_shows_itself_by_its_work() -> None:
    pods = {"process_before": "e-1@aaaa", "process_after": "e-2@bbbb"}
    for uid, effect in (("bbbb", Effect.JOINED), ("cccc", Effect.NONE)):
        work = step(6_000, "dedup_begun", number=4, pod="e-2", pod_uid=uid)
        assert after(DONE, NEXT[0], work, NEXT[2], **pods).effect is effect


@pytest.mark.parametrize(
    ("told", "effect"),
    [
        ([step(5_010, "windows_begun"), epoch(9_000, 3, "published")], Effect.HELD),
        ([*(step(t, f"s{t}") for t in range(5_100, 7_000, 100)), epoch(9_000, 3, "published")], Effect.NONE),
        ([epoch(5_400, 3, "published")], Effect.NONE),
        ([], Effect.NONE),
    ],
    ids=["stood still", "went on", "published meanwhile", "never published"],
)
def test_who_is_away_holds_the_epoch_up_or_has_no_effect(told: list[Row], effect: Effect) -> None:
    went_on = [*told, epoch(9_100, 4, "declared"), epoch(9_900, 4, "published")]
    assert after(*went_on, target="broker", process_after="8@7.00", healed_at=7_500).effect is effect
    assert after(*went_on, kind="stall", stopped_s=2.0, process_after="7@1.00").effect is effect


@pytest.mark.parametrize(
    ("begun_at", "target", "cut_s", "effect"),
    [
        (20_600, "driver and executor", 70.0, Effect.HELD),
        (14_000, "driver and executor", 70.0, Effect.NONE),
        (20_600, "executor and broker", 70.0, Effect.NONE),
        (11_500, "executor and executor", 12.0, Effect.HELD),
        (10_900, "executor and executor", 12.0, Effect.NONE),
    ],
)
def test_an_executor_that_is_cut_off_holds_the_epoch_up_until_spark_goes_on_without_it(
    begun_at: int, target: str, cut_s: float, effect: Effect
) -> None:
    """The fault comes at 5,000 ms; its next step is begun elsewhere, and it is published before the cut ends."""
    went_on = [step(begun_at, "windows_begun"), epoch(begun_at + 200, 3, "published")]
    then = [epoch(90_000, 4, "declared"), epoch(90_900, 4, "published")]
    assert after(*went_on, *then, kind="cut", target=target, cut_s=cut_s).effect is effect


def test_every_sort_of_fault_has_something_that_shows_its_effect() -> None:
    for strike in (*SORTS.values(), Strike("clock_step", "driver"), Strike("leader_move", "broker")):
        assert effects_of(strike.kind, strike.target), strike
    for kind, target in (("sigkill", "moon"), ("stall", "moon"), ("full_moon", "executor")):
        assert effects_of(kind, target) == ()


def test_a_cut_off_broker_is_met_by_the_driver_and_holds_up_executors() -> None:
    """The driver asks it between two epochs; what executors ask it holds up the epoch that runs."""
    assert effects_of("cut", "driver and broker") == (Effect.MET,)
    assert Effect.MET not in effects_of("cut", "executor and broker")
