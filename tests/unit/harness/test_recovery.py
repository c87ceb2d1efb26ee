"""Recovery is measured from what waited, by sort; what N good faults bound is told only of a run that passed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.checkers import faults, measured
from tests.harness.checkers.backlog import Backlog, end_of_workload, first_publications
from tests.harness.checkers.recovery import bounds, by_sort, spread, upper_95
from tests.harness.checkers.reference import NEVER
from tests.harness.results import Fault, Verdict

Row = dict[str, Any]


def steady(stalled_s: int = 0) -> Backlog:
    """Ten records a second; epoch n is published at the end of second n + 1 and read those of second n.

    Epoch 5 comes later, and takes what the next ones would have read.
    """
    sent = list(range(0, 20_000, 100))
    published = {epoch: (epoch + 2) * 1000 for epoch in range(20)}
    published |= {epoch: max(7 + stalled_s, epoch + 2) * 1000 for epoch in range(5, 20)}
    return Backlog(sent, [time // 1000 for time in sent], published, 30_000)


def test_the_backlog_is_what_was_sent_and_is_not_published() -> None:
    backlog = steady()
    assert [backlog.at(time) for time in (-1, 0, 950, 1999, 2000, 2001)] == [0, 1, 10, 20, 11, 11]
    assert backlog.at(30_000) == 0
    assert Backlog([1, 2], [NEVER, 7], {3: 5}, 10).at(10) == 2, "what no epoch read waits for ever"


@pytest.mark.parametrize(
    ("backlog", "gap_s"),
    [
        (steady(), 1.0),
        (steady(stalled_s=3), 4.0),
        # Time in which nothing waits is none.
        (Backlog([0, 100, 60_000], [0, 0, 1], {0: 500, 1: 60_800}, 90_000), 0.8),
        # Records that are left behind at the end are one to it.
        (Backlog([0, 100, 200], [0, 0, NEVER], {0: 150}, 9_200), 9.0),
        (Backlog([0, 100, 200], [0, 0, 1], {0: 250}, 9_250), 9.0),
        (Backlog([0], [NEVER], {}, 10), None),
    ],
)
def test_the_longest_gap_is_that_between_publications_while_records_wait(backlog: Backlog, gap_s: float | None) -> None:
    assert backlog.longest_gap_s() == gap_s


def test_a_record_waits_for_the_first_publication_of_its_epoch_and_one_that_has_none_is_not_counted() -> None:
    sent, epochs = [*range(0, 1000, 10), 5], [*[0] * 50, *[1] * 50, NEVER]
    waits = Backlog(sent, epochs, {0: 1_000, 1: 5_000}, 9_000).waits()
    assert waits is not None
    assert (waits.n, waits.p50, waits.p90, waits.p99, waits.max) == (100, 1.0, 4.4, 4.49, 4.5)
    assert Backlog([0], [NEVER], {}, 10).waits() is None


def test_waits_of_each_minute_are_those_of_the_records_that_were_published_in_it() -> None:
    published = {0: 1_000, 1: 60_999, 2: 61_000, 3: 200_000}
    sent, epochs = [0, 500, 10_999, 60_000, 190_000], [0, 0, 1, 2, 3]
    found = Backlog(sent, epochs, published, 300_000).waits_by_minute()
    assert [(one.minute, one.n, one.p50, one.max) for one in found] == [
        (0, 3, 1.0, 50.0),
        (1, 1, 1.0, 1.0),
        (3, 1, 10.0, 10.0),
    ]
    assert Backlog([0], [NEVER], {}, 10).waits_by_minute() == ()


def test_it_has_caught_up_with_the_publication_that_leaves_no_more_than_the_last_ones_before_the_fault() -> None:
    backlog = steady(stalled_s=3)
    assert backlog.usual_at(6_500) == 11
    assert backlog.caught_up_at(6_500, 11) == 10_000
    assert backlog.caught_up_at(6_500, 10) == 20_000
    assert backlog.usual_at(2_000) is None, "nothing was published before it"
    assert backlog.caught_up_at(21_001, 11) is None


def fault(target: str = "executor", kind: str = "sigkill", **more: Any) -> Fault:
    return Fault(kind=kind, target=target, injected_at=6_500, hit=more.pop("hit", True), **more)


def test_a_fault_tells_how_long_it_took_to_catch_up() -> None:
    found = measured.measure(fault(), [], steady(stalled_s=3))
    assert (found.backlog, found.caught_up_s) == (11, 3.5)
    assert measured.measure(fault(), [], None).caught_up_s is None


def test_a_server_catches_up_when_it_is_back() -> None:
    """Its epochs went on to be published for a second: they are none of its recovery."""
    away = fault("broker", healed_at=7_500)
    assert measured.measure(away, [], steady()).caught_up_s == 1.5
    assert measured.measure(fault("executor", healed_at=7_500), [], steady()).caught_up_s == 0.5


def test_an_epoch_published_twice_counts_by_its_first_publication() -> None:
    told = [{"t": t, "event": "epoch", "epoch": 1, "state": "published"} for t in (9, 4, 6)]
    assert first_publications([*told, {"t": 1, "event": "epoch", "epoch": 1, "state": "declared"}]) == {1: 4}


def test_the_workload_ends_with_the_epilogue() -> None:
    events = [{"t": 1, "event": "phase", "phase": "drain"}, {"t": 5, "event": "sent"}]
    assert end_of_workload(events) == 5
    assert end_of_workload([*events, {"t": 3, "event": "phase", "phase": "epilogue"}]) == 3
    assert end_of_workload([]) == 0


@pytest.mark.parametrize(("count", "p99"), [(1, 1.0), (2, 2.0), (99, 99.0), (100, 99.0), (101, 100.0), (200, 198.0)])
def test_the_99th_percentile_is_the_nearest_rank(count: int, p99: float) -> None:
    found = spread([None, *(float(number) for number in range(count, 0, -1))])
    assert found is not None
    assert (found.n, found.p99, found.max) == (count, p99, float(count))
    assert spread([None]) is None


def test_a_sort_tells_the_times_of_the_faults_that_hit() -> None:
    given = [fault(recovered_s=2.0), fault(recovered_s=4.0), fault(recovered_s=99.0, hit=False), fault("driver")]
    driver, executor = by_sort(given)
    assert (driver.target, driver.hits, driver.recovered_s) == ("driver", 1, None)
    assert (executor.injected, executor.hits) == (3, 2)
    assert executor.recovered_s is not None
    assert (executor.recovered_s.median, executor.recovered_s.max) == (3.0, 4.0)


@pytest.mark.parametrize(("hits", "bound"), [(0, None), (1, 1.0), (3, 1.0), (30, 0.1), (300, 0.01)])
def test_the_rule_of_three(hits: int, bound: float | None) -> None:
    assert upper_95(hits) == bound


def test_bounds_are_by_role_and_altogether_and_count_only_hits() -> None:
    given = [fault("every executor"), *[fault()] * 5, fault("driver", "zombie"), fault("driver", hit=False)]
    given.append(fault("operator, then driver"))
    told = {one.role: (one.hits, one.upper_95) for one in bounds(given, Verdict.PASS)}
    assert told == {"driver": (1, 1.0), "executor": (6, 0.5), "operator": (1, 1.0), "all": (8, 3 / 8)}
    assert bounds([fault(hit=False)], Verdict.PASS) == ()


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.UNKNOWN])
def test_a_run_that_did_not_pass_bounds_nothing(verdict: Verdict) -> None:
    assert all(one.upper_95 is None and one.hits for one in bounds([fault()] * 9, verdict))


def test_a_pod_is_replaced_when_the_next_one_is_first_heard_of() -> None:
    pods = fault(process_before="exec-1@aaaa1111-0", process_after="exec-2@bbbb2222-0 + exec-3@cccc3333-0")
    heard: list[Row] = [
        {"t": 6_000, "event": "step", "pod": "exec-2", "pod_uid": "bbbb2222-0"},
        {"t": 8_000, "event": "step", "pod": "exec-2", "pod_uid": "bbbb2222-0"},
        {"t": 9_500, "event": "step", "pod": "exec-3", "pod_uid": "cccc3333-0"},
    ]
    assert measured.replaced_s(pods, heard) == 3.0
    assert measured.replaced_s(pods, heard[:2]) is None


@pytest.mark.parametrize(
    ("after", "uid", "takes_over"),
    [("d@bbbb2222", "bbbb2222-0", True), ("d@bbbb2222-0", "bbbb2222-0", True), ("d@cccc3333", "bbbb2222-0", False)],
)
def test_a_driver_pod_of_the_same_name_is_told_by_its_uid(after: str, uid: str, takes_over: bool) -> None:
    started = {"t": 7_000, "event": "driver", "state": "started", "pid": f"d@{uid[:8]}", "pod": "d", "pod_uid": uid}
    history: list[Row] = [
        {"t": 1, "event": "epoch", "epoch": 0, "state": "declared", "driver": "d@aaaa1111"},
        started,
        {"t": 8_000, "event": "epoch", "epoch": 0, "state": "declared", "driver": f"d@{uid[:8]}"},
        {
            "t": 9_000,
            "event": "epoch",
            "epoch": 0,
            "state": "published",
            "driver": f"d@{uid[:8]}",
            "ms": {"total": 1_000},
        },
    ]
    told = {
        **fault("driver", process_before="d@aaaa1111", process_after=after, epoch=0, phase="declared").model_dump(),
        "t": 9_001,
    }
    (checked,) = faults.check([*history, {**told, "event": "fault"}])
    assert checked.fault.hit is takes_over, checked.refuted
