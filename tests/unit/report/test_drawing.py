"""The geometry of the figure and the numbers it is drawn from."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.report import axis, epochs, series, typeset
from tests.harness.report.story import tell
from tests.harness.report.timeline import CHARACTER, NARROW, WIDE, Frame, draw


def event(t: int, state: str, epoch: int, driver: int = 1, **more: object) -> dict[str, object]:
    return {"t": t, "event": "epoch", "state": state, "epoch": epoch, "driver": driver, **more}


def test_an_epoch_repeated_by_another_driver_is_two_attempts_but_publishes_once() -> None:
    history = [
        event(1000, "declared", 3, driver=1),
        {"t": 1500, "event": "driver", "state": "killed", "pid": 1},
        event(4000, "declared", 3, driver=2),
        event(4800, "published", 3, driver=2, repeat=True, **{"in": 70}),
        event(5000, "published", 3, driver=2, repeat=True, **{"in": 70}),
    ]
    first, second, third = epochs.attempts(history)
    assert (first.published, first.took_s) == (False, 0.5)
    assert (second.published, second.repeat, second.took_s) == (True, True, 0.8)
    assert third.took_s == 0
    assert series.flow(history, [first, second, third]).published[-1] == (4800.0, 70.0)


def test_notable_names_repeats_the_longest_and_the_last() -> None:
    history = []
    for number in range(100):
        history.append(event(number * 1000, "declared", number))
        history.append(event(number * 1000 + (900 if number == 40 else 500), "published", number, repeat=number == 70))
    chosen = {attempt.epoch: why for attempt, why in epochs.notable(epochs.attempts(history))}
    assert chosen[40] == "longest"
    assert "repeat" in chosen[70]
    assert chosen[99] == "last"
    assert len(chosen) <= 10


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 10_000)), min_size=1, max_size=60), st.floats(0.1, 20_000)
)
def test_rates_lose_no_record_however_they_are_merged(steps: list[tuple[int, int]], at_least_ms: float) -> None:
    time, total, samples = 0, 0, [(0.0, 0.0)]
    for gap, records in steps:
        time, total = time + gap + 1, total + records
        samples.append((float(time), float(total)))
    found = series.rates(samples, at_least_ms)
    assert sum(rate.per_second * (rate.end - rate.begin) / 1000 for rate in found) == pytest.approx(total)
    assert all(before.end == after.begin for before, after in pairwise(found))


def test_lag_rises_while_sending_and_falls_at_a_publication() -> None:
    flow = series.Flow(sent=[(0.0, 0.0), (10.0, 100.0)], published=[(0.0, 0.0), (5.0, 30.0), (20.0, 100.0)])
    assert series.lag(flow) == [(0.0, 0.0), (5.0, 50.0), (5.0, 20.0), (10.0, 70.0), (20.0, 70.0), (20.0, 0.0)]


@given(st.floats(1e-3, 1e12), st.integers(1, 12))
def test_steps_of_an_axis_are_round_and_not_too_many(span: float, most: int) -> None:
    size = axis.step(span, most)
    assert span / size <= most * 1.00001
    assert f"{size:e}"[0] in "125"


def test_a_panel_reaches_above_its_highest_value() -> None:
    scale, ticks = axis.vertical([0, 55_300], bottom=100, top=0)
    assert [tick.label for tick in ticks] == ["0", "20k", "40k", "60k"]
    assert scale(0) == 100
    assert 0 < scale(55_300) < 10


@pytest.mark.parametrize("frame", [WIDE, NARROW], ids=lambda frame: frame.name)
@pytest.mark.parametrize("number", [1, 4, 9, 40, 200])
def test_labels_of_faults_never_run_into_each_other_or_off_the_page(frame: Frame, number: int) -> None:
    history = [event(0, "declared", 0), event(60_000, "published", 0, **{"in": 1})]
    faults: list[dict[str, object]] = [
        {"target": "object_store", "injected_at": round(59_000 * at / number) + 500, "recovered_s": 0.4, "hit": True}
        for at in range(number)
    ]
    attempts = epochs.attempts(history)
    told = tell(history, attempts, series.flow(history, attempts), faults, 0.0)
    assert told is not None
    marks = draw(told, frame).marks
    assert len(marks) == number
    labelled = sorted((mark.y, mark.x, mark.x + 8 + len(mark.label) * CHARACTER) for mark in marks if mark.label)
    assert all(end <= frame.width + 4 for _, _, end in labelled)
    for (row, _, end), (next_row, begin, _) in pairwise(labelled):
        assert row != next_row or end <= begin
    assert bool(labelled) == (number < 40 or (number == 40 and frame is WIDE))


def test_the_time_axis_leaves_out_controls_and_judging() -> None:
    history = [
        {"t": 1000, "event": "phase", "phase": "steady"},
        event(1200, "declared", 0),
        event(2000, "published", 0, **{"in": 1}),
        {"t": 3000, "event": "phase", "phase": "controls"},
        {"t": 90_000, "event": "phase", "phase": "judge"},
    ]
    attempts = epochs.attempts(history)
    told = tell(history, attempts, series.flow(history, attempts), [], 1000.0)
    assert told is not None
    assert (told.begin, told.end) == (1000.0, 3000.0)
    assert [phase.name for phase in told.phases] == ["steady"]


def test_numbers_and_times_are_set_with_thin_separators() -> None:
    assert typeset.count(240000) == f"240{typeset.THIN}000"
    assert typeset.count(None) == typeset.NOT_KNOWN
    assert typeset.seconds(1234.56) == f"1{typeset.THIN}234.6{typeset.THIN}s"
    assert typeset.process("4712@1750000004.70", 1750000000000) == f"4712, started at 4.7{typeset.THIN}s"
    assert typeset.process("pod-uid/container", 0) == "pod-uid/container"
    assert typeset.date(1795194180000) == "20 November 2026, 17:03 UTC"
