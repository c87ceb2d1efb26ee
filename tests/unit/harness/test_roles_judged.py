"""Faults of every role are believed only with the evidence that their role demands; recovery is measured from it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.checkers import faults, measured, role
from tests.harness.results import Effect, Fault
from tests.harness.signals import SIGNALS
from tests.unit.harness.witnessed import witnessed

Row = dict[str, Any]
HISTORY: list[Row] = [
    {"t": 1_000, "event": "epoch", "epoch": 0, "state": "declared", "driver": 1},
    {"t": 6_000, "event": "driver", "state": "started", "pid": 9, "generation": 2},
    {"t": 7_000, "event": "epoch", "epoch": 0, "state": "declared", "driver": 9},
    {"t": 8_000, "event": "epoch", "epoch": 0, "state": "published", "driver": 9, "ms": {"total": 1_000}},
]
REFUSAL = "exit code 75: StaleDriverError: driver a was replaced by b"


def fault(kind: str, target: str, after: str | None = None, **more: Any) -> Row:
    """Return what is told of a fault; of one that stood still also when it was undone."""
    at = more.get("injected_at", 2_000)
    undone = {"healed_at": at + round(1000 * more["stopped_s"])} if more.get("stopped_s") else {}
    taken = ("9@5.50" if target == "driver" else "5@5.50") if after is None else after
    return {
        "t": 200_000,
        "event": "fault",
        "kind": kind,
        "target": target,
        "epoch": 0,
        "process_before": "1@0.50",
        "process_after": taken,
        "injected_at": at,
        "phase": "declared",
        "hit": True,
        **undone,
        **more,
    }


def checked(event: Row, history: list[Row] = HISTORY) -> faults.Checked:
    (one,) = faults.check(witnessed([*history, event]))
    return one


def assert_missed(event: Row, why: str, history: list[Row] = HISTORY) -> None:
    """Assert that a fault did not hit, and why."""
    one = checked(event, history)
    assert not one.fault.hit
    assert why in (one.refuted or "")


GOOD = [
    fault("sigkill", "driver"),
    fault("zombie", "driver", stopped_s=5.0, refusal=REFUSAL),
    fault("sigkill", "broker"),
    fault("sigkill", "python worker"),
    fault("sigstop", "broker", after="1@0.50", stopped_s=5.0),
    fault("sigstop", "executor", stopped_s=25.0),
    fault("second_driver", "driver", refusal=REFUSAL),
    fault("sigstop_beyond_time_out", "broker", after="1@0.50", stopped_s=5.5),
    fault("restart", "broker"),
    fault("taken_id", "producer", after="1@0.50", reopened=[1]),
    fault("error_answers", "object store", after="1@0.50", requests={"PUT: 503": 2}),
    fault("late_answers", "object store", after="1@0.50", requests={"GET: late": 1}),
    fault("lost_answers", "object store", after="1@0.50", requests={"PUT If-Match: reset once carried out": 1}),
    fault("no_room", "object store", after="1@0.50", requests={"PUT: 507": 9}),
]
LEADERS = {"events/0": {"before": 0, "after": 2, "epoch_before": 4, "epoch_after": 5}}
GOOD.append(fault("leader_move", "broker", after="1@0.50", leaders=LEADERS))
AWAY: Row = {"after": "1@0.50", "stopped_s": 5.0, "planned_s": 5.0}
LED = {"events/0": {**LEADERS["events/0"], "before": 1}}
GOOD.append(fault("leader_away", "broker", **AWAY, leaders=LED))
GOOD.append(fault("away", "driver", planned_s=3.0, healed_at=5_500))
CUT: Row = {
    "after": "1@0.50",
    "healed_at": 14_100,
    "planned_s": 12.0,
    "cut_s": 12.05,
    "direction": "both",
    "between": ["uc-exec-1", "uc-exec-2"],
    "dropped": {"packets in": 3, "packets out": 9},
}
LATER: list[Row] = [
    {"t": 9_000, "event": "epoch", "epoch": 1, "state": "declared", "driver": 9},
    {"t": 20_000, "event": "epoch", "epoch": 1, "state": "published", "driver": 9, "ms": {"total": 11_000}},
]
STEPPED = {"t": 3_000, "event": "epoch", "epoch": 0, "state": "declared", "driver": 1, "told_t": 123_000}
OF_ITS_CLOCK = {"t": 3_000, "event": "driver", "state": "ended", "pid": 1, "says": "AccessError: this clock is ahead"}


@pytest.mark.parametrize("shown", [STEPPED, {**STEPPED, "told_t": -3_597_000}, OF_ITS_CLOCK])
def test_a_step_of_a_clock_hit_when_the_driver_showed_it_and_goes_on_or_is_followed(shown: Row) -> None:
    history = [HISTORY[0], shown, *HISTORY[1:]]
    for after in ("1@0.50", "9@5.50"):
        assert checked(fault("clock_step", "driver", after=after, healed_at=4_000), history).fault.hit


@pytest.mark.parametrize(
    "shown",
    [
        {**STEPPED, "told_t": 3_500},
        {name: value for name, value in STEPPED.items() if name != "told_t"},
        {**STEPPED, "t": 1_999},
        {**STEPPED, "t": 4_001},
        {**STEPPED, "event": "step"},
        {**OF_ITS_CLOCK, "says": "AccessError: the object store answers HTTP 403"},
        {**OF_ITS_CLOCK, "state": "killed"},
    ],
)
def test_a_step_of_a_clock_that_no_driver_showed_did_not_hit(shown: Row) -> None:
    history = [HISTORY[0], shown, *HISTORY[1:]]
    stepped = fault("clock_step", "driver", after="1@0.50", healed_at=4_000)
    assert_missed(stepped, "dated by the clock that was stepped", history)


def test_who_follows_a_driver_whose_clock_was_stepped_has_to_have_taken_over() -> None:
    history = [HISTORY[0], STEPPED, *HISTORY[1:]]
    assert_missed(fault("clock_step", "driver", after="8@5.50"), "took over", history)


@pytest.mark.parametrize("event", GOOD, ids=lambda event: f"{event['kind']} {event['target']}")
def test_a_fault_with_its_evidence_hit(event: Row) -> None:
    assert checked(event).fault.hit, checked(event).refuted


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (fault("sigstop", "broker", after="1@0.50"), "stood still"),
        (fault("sigstop", "broker", after="1@0.50", stopped_s=0.0), "stood still"),
        (fault("zombie", "driver", refusal=REFUSAL), "stood still"),
        (fault("zombie", "driver", stopped_s=5.0), "refusal"),
        (fault("zombie", "driver", stopped_s=5.0, refusal="exit code 70: java.lang.Exception"), "refusal"),
        (fault("zombie", "driver", stopped_s=5.0, refusal=REFUSAL, after="1@0.50"), "survived"),
        (fault("sigkill", "broker", after="1@0.50"), "survived"),
        (fault("sigkill", "driver", after="8@5.50"), "took over"),
        (fault("sigstop", "object store", stopped_s=5.0, after=""), "before and after"),
        (fault("second_driver", "driver"), "refusal"),
        (fault("second_driver", "driver", refusal=REFUSAL, after="1@0.50"), "survived"),
        (fault("second_driver", "driver", refusal=REFUSAL, after="8@5.50"), "took over"),
        (fault("sigstop_beyond_time_out", "broker", after="1@0.50"), "stood still"),
        (fault("restart", "broker", after="1@0.50"), "survived"),
        (fault("taken_id", "producer", after="1@0.50"), "opened again"),
        (fault("taken_id", "producer", after="1@0.50", reopened=[]), "opened again"),
        (fault("leader_move", "broker", after="1@0.50"), "got another leader"),
        (fault("leader_move", "broker", after="5@5.50", leaders={}), "got another leader"),
        (fault("leader_move", "broker", leaders={"a/0": {**LEADERS["events/0"], "after": 0}}), "got another leader"),
        (fault("leader_move", "broker", leaders={"a/0": {**LEADERS["events/0"], "epoch_after": 4}}), "another leader"),
        (fault("leader_move", "broker", leaders=LEADERS, after=""), "before and after"),
        (fault("leader_away", "broker", **AWAY), "the evidence names 0"),
        (fault("leader_away", "broker", **AWAY, leaders={**LED, "events/1": LED["events/0"]}), "the evidence names 2"),
        (fault("leader_away", "broker", **AWAY, leaders=LEADERS), "1 was stopped, and broker 0 led"),
        (fault("leader_away", "broker", **AWAY, leaders={"a/0": {**LED["events/0"], "after": 1}}), "no other broker"),
        (fault("leader_away", "broker", **{**AWAY, "planned_s": 6.0}, leaders=LED), "6 s were planned"),
        (fault("leader_away", "broker", **{**AWAY, "stopped_s": None}, leaders=LED), "for how long it stood still"),
        (fault("away", "driver", planned_s=3.0, healed_at=2_900), "3 s were planned"),
        (fault("away", "driver", planned_s=5.0, healed_at=9_000), "a driver started 4 s after it"),
        *((fault(kind, "object store", after="1@0.50"), "no request") for kind in faults.ANSWERING),
        *((fault(kind, "object store", after="1@0.50", requests={}), "no request") for kind in faults.ANSWERING),
    ],
)
def test_a_fault_without_its_evidence_did_not_hit(event: Row, why: str) -> None:
    assert_missed(event, why)


def cut(**change: Any) -> Row:
    return fault("cut", "executor and executor", **{**CUT, **change})


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"after": "1@0.50 + 7@9.00"},
        {"direction": "in", "dropped": {"packets in": 1}},
        {"direction": "out", "dropped": {"bytes out": 1, "packets in": 0}},
        {"direction": "in", "dropped": {"connections": 1}},
    ],
)
def test_a_cut_with_its_evidence_hit_and_nobody_has_to_end_of_it(change: Row) -> None:
    one = checked(cut(**change), [*HISTORY, *LATER])
    assert one.fault.hit, one.refuted
    assert one.fault.recovered_s == 18.0, "who is cut off is away until packets flow again"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dropped": None}, "no packet and no byte"),
        ({"dropped": {}}, "no packet and no byte"),
        ({"dropped": {"packets in": 0, "packets out": 0}}, "no packet and no byte"),
        ({"dropped": {"packets in": -3, "packets out": 9}}, "no packet and no byte"),
        ({"direction": "in"}, "cut in, and held back packets out"),
        ({"direction": "out"}, "cut out, and held back packets in"),
        ({"direction": None}, "direction is None"),
        ({"direction": "sideways"}, "direction is 'sideways'"),
        ({"between": None}, "between which two"),
        ({"between": ["uc-exec-1"]}, "between which two"),
        ({"between": ["uc-exec-1", ""]}, "between which two"),
        ({"between": ["uc-exec-1", "uc-exec-1"]}, "between which two"),
        ({"cut_s": None}, "for how long it lasted"),
        ({"cut_s": 0.0}, "for how long it lasted"),
        ({"planned_s": None}, "for how long it lasted"),
        ({"cut_s": 4.0}, "lasted 4 s, and 12 s were planned"),
        ({"healed_at": None}, "that it was undone"),
        ({"healed_at": 5_000}, "that it was undone 12.05 s later"),
        ({"after": ""}, "before and after"),
        ({"injected_at": 8_500, "healed_at": 21_000}, "was not running then"),
        ({"epoch": None}, "names no epoch"),
    ],
)
def test_a_cut_without_its_evidence_did_not_hit(change: Row, why: str) -> None:
    assert_missed(cut(**change), why, [*HISTORY, *LATER])


def test_a_cut_that_no_epoch_followed_did_not_hit() -> None:
    assert_missed(cut(), "no epoch that was declared or done again after it")


def test_a_driver_that_had_taken_over_before_the_fault_is_no_replacement() -> None:
    assert_missed(fault("sigkill", "driver"), "took over", [{**HISTORY[1], "t": 1_500}, HISTORY[0], *HISTORY[2:]])


def test_an_epoch_that_another_driver_recovered_was_running_when_the_first_one_was_struck() -> None:
    assert checked({**fault("sigkill", "driver", after="9@6.00"), "injected_at": 5_999}).fault.hit
    assert not checked({**fault("sigkill", "broker"), "injected_at": 8_500}).fault.hit


@pytest.mark.parametrize(
    ("after", "took"),
    [
        ("9@5.50", 3.5),
        ("9@5.50 + 8@4.00", 3.5),
        ("1@0.50", None),
        ("pod@0fe1b2aa-0000-0000-0000-000000000000", None),
        ("9@1.99", 0.0),
        ("9@1.50", None),
        ("", None),
    ],
)
def test_the_time_to_a_replacement_is_that_to_its_start(after: str, took: float | None) -> None:
    named = {key: value for key, value in fault("sigkill", "broker", after).items() if key not in ("t", "event")}
    assert measured.replaced_s(Fault(**named)) == took
    assert checked(fault("sigkill", "broker", after)).fault.replaced_s == took


def test_who_stood_still_can_be_killed_later_and_who_was_killed_cannot_be_stopped() -> None:
    stop = fault("sigstop", "broker", after="1@0.50", stopped_s=1.0)
    kill = {**fault("sigkill", "broker"), "injected_at": 4_000}
    assert [one.fault.effect for one in faults.check(witnessed([*HISTORY, stop, kill]))] == [Effect.HELD, Effect.REDONE]
    assert [one.fault.hit for one in faults.check(witnessed([*HISTORY, stop, kill]))] == [True, True]
    later = {**stop, "injected_at": 4_500, "healed_at": 5_500}
    assert [one.fault.hit for one in faults.check(witnessed([*HISTORY, kill, later]))] == [True, False]


def test_a_server_has_recovered_with_what_is_published_when_it_is_back() -> None:
    early = {"t": 5_600, "event": "epoch", "epoch": 0, "state": "published", "driver": 1, "repeat": True}
    history = [HISTORY[0], early, *HISTORY[1:]]
    assert checked(fault("sigkill", "broker", recovered_s=0.1, healed_at=5_700), history).fault.recovered_s == 6.0
    assert checked(fault("sigkill", "broker", recovered_s=0.1, healed_at=9_000), history).fault.recovered_s is None
    assert checked(fault("sigkill", "executor", recovered_s=0.1, healed_at=5_700), history).fault.recovered_s == 3.6


@pytest.mark.parametrize("kind", ["sigkill", "out_of_memory", "pod_delete_now", "node_restart"])
def test_who_has_ended_is_not_struck_again(kind: str) -> None:
    first, again = fault(kind, "executor"), {**fault("sigkill", "executor", after="8@7.60"), "injected_at": 7_500}
    one, other = faults.check(witnessed([*HISTORY, first, again]))
    assert one.fault.hit, one.refuted
    assert "was killed before" in (other.refuted or "")


SLOWED: Row = {
    "after": "1@0.50",
    "healed_at": 14_100,
    "planned_s": 12.0,
    "slowed_s": 12.05,
    "delay_ms": 50,
    "latency_ms": {"before": 1.2, "fastest": 50.0, "during": 52.1, "after": 1.3},
}


def slowed(**change: Any) -> Row:
    return fault("slow_disk", "broker", **{**SLOWED, **change})


@pytest.mark.parametrize("change", [{}, {"latency_ms": {"before": 49.9, "fastest": 50.0}}])
def test_a_slow_disk_hit_when_writes_took_longer_and_nobody_has_to_end_of_it(change: Row) -> None:
    one = checked(slowed(**change), [*HISTORY, *LATER])
    assert one.fault.hit, one.refuted
    assert one.fault.effect is Effect.MET


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"latency_ms": {**SLOWED["latency_ms"], "fastest": 49.9}}, "not slowed: a write took 49.9 ms meanwhile"),
        ({"latency_ms": {**SLOWED["latency_ms"], "before": 50.0}}, "a delay of 50 ms shows nothing"),
        ({"latency_ms": {"before": 1.2}}, "how long writes took"),
        ({"latency_ms": {"fastest": 60.0}}, "how long writes took"),
        ({"latency_ms": {"before": -1.0, "fastest": 60.0}}, "how long writes took"),
        ({"latency_ms": {}}, "how long writes took"),
        ({"latency_ms": None}, "how long writes took"),
        ({"delay_ms": None}, "how long writes took"),
        ({"delay_ms": 0}, "how long writes took"),
        ({"delay_ms": -5}, "how long writes took"),
        ({"planned_s": None}, "for how long it lasted"),
        ({"slowed_s": None}, "for how long it lasted"),
        ({"slowed_s": 4.0}, "lasted 4 s, and 12 s were planned"),
        ({"healed_at": None}, "that it was undone"),
        ({"healed_at": 5_000}, "that it was undone"),
    ],
)
def test_a_slow_disk_without_its_evidence_did_not_hit(change: Row, why: str) -> None:
    assert_missed(slowed(**change), why, [*HISTORY, *LATER])


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (fault("sigkill", "broker", signal="SIGSTOP"), "says SIGSTOP, and its kind sends SIGKILL"),
        (fault("sigkill", "driver", signal="kill"), "says kill, and its kind sends SIGKILL"),
        (fault("sigstop", "broker", after="1@0.50", stopped_s=5.0, signal="SIGKILL"), "its kind sends SIGSTOP"),
        (fault("restart", "broker", signal="SIGKILL"), "its kind sends SIGTERM"),
        (fault("leader_move", "broker", leaders=LEADERS, signal="SIGTERM"), "its kind sends no signal"),
    ],
)
def test_a_fault_with_the_signal_of_another_kind_did_not_hit(event: Row, why: str) -> None:
    assert_missed(event, why)
    own = checked({**event, "signal": SIGNALS.get(event["kind"])})
    assert own.fault.hit, own.refuted


@pytest.mark.parametrize("target", role.OTHERS)
def test_who_announced_itself_as_a_driver_is_nobody_else_in_a_fault(target: str) -> None:
    assert_missed(fault("sigkill", target, after="9@5.50"), "9@5.50 is no")
    started = {"t": 900, "event": "driver", "state": "started", "pid": 1, "generation": 1}
    assert_missed(
        fault("sigkill", target), f"1@0.50 is no {target}: it announced itself as a driver", [started, *HISTORY]
    )


def test_a_pod_that_announced_itself_as_a_driver_is_no_executor() -> None:
    uid = "0fe1b2aa-0000-0000-0000-000000000000"
    pod = {"pod": "uc-driver", "pod_uid": uid}
    history = [HISTORY[0], {**HISTORY[1], **pod}, *HISTORY[2:]]
    assert_missed(fault("sigkill", "executor", after=f"uc-driver@{uid}"), "is no executor", history)


@pytest.mark.parametrize("others", ["9@6.50", "9@0.10"], ids=["begun after it", "gone before it"])
def test_the_pid_of_a_driver_may_be_anothers_before_and_after_it(others: str) -> None:
    gone = [
        {"t": 150, "event": "process", "state": "seen", "process": "9@0.10"},
        {"t": 5_900, "event": "process", "state": "gone", "process": "9@0.10", "last": 5_800},
    ]
    history = [*HISTORY, *gone]
    assert "announced itself" not in (checked(fault("sigkill", "executor", after=others), history).refuted or "")


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (fault("sigstop", "broker", after="1@0.50", stopped_s=60.0, healed_at=7_000), "undone 5 s after it came"),
        (fault("zombie", "driver", stopped_s=7.6, healed_at=7_000, refusal=REFUSAL), "undone 5 s after it came"),
        (fault("sigstop", "executor", stopped_s=5.0, healed_at=None), "when it was undone is not known"),
        (fault("sigstop", "executor", stopped_s=-5.0, healed_at=3_000), "stopped_s is -5"),
        (fault("sigstop", "broker", after="1@0.50", stopped_s=5.0, t=6_000), "told 1 s before it was over"),
        (fault("sigkill", "broker", t=1_000), "told 1 s before it was over"),
    ],
)
def test_what_lasted_longer_than_the_clocks_say_did_not_hit(event: Row, why: str) -> None:
    assert_missed(event, why)


@pytest.mark.parametrize("lasted_s", [4.9, 5.0, 7.4])
def test_who_began_to_stand_still_moments_before_it_was_seen_to_hit(lasted_s: float) -> None:
    one = checked(fault("sigstop", "broker", after="1@0.50", stopped_s=lasted_s, healed_at=7_000))
    assert one.fault.hit, one.refuted


def test_a_cut_or_a_slow_disk_that_lasted_longer_than_the_clocks_say_did_not_hit() -> None:
    for event in (cut(cut_s=60.0), slowed(slowed_s=60.0)):
        assert_missed(event, "", [*HISTORY, *LATER])
    # Their own evidence is asked for at both, in whichever kind the field stands.
    stray = fault("sigkill", "broker", cut_s=60.0, healed_at=7_000)
    assert_missed(stray, "cut_s is 60, and it was undone 5 s after it came")
