"""Windows of several lengths in one pipeline: one rule says what is late, and each closes when its own time comes."""

from __future__ import annotations

from dataclasses import replace
from json import loads
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effectively_once import Count, ToKafka, Windowed
from effectively_once.errors import SettingsError
from effectively_once.operate.inspect.certificate import windows_of
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.settings import refuse_changed
from effectively_once.state.held import excess_ms
from effectively_once.state.lateness import LONGEST_MS, Windows
from tests.depth import examples
from tests.settings import pipeline_settings
from tests.unit.library import orders_world
from tests.unit.library.lengths_world import (
    GRAIN,
    LATENESS,
    LENGTHS,
    TIMES,
    due,
    once,
    pipeline,
    records,
    run,
    shown,
    totals,
)
from tests.unit.library.orders_world import World

PIPELINE = pipeline()
LONG = 3 * GRAIN


def per(length_ms: Any, name: str = "per", **more: Any) -> Windowed:
    return Windowed("user", {"n": Count()}, ToKafka(name), length_ms=length_ms, **more)


def job(*windows: Windowed, **changes: Any) -> Job:
    declared = replace(PIPELINE, windows=windows)
    return Job(declared, pipeline_settings(**{"database": "postgresql://h:1/d", **declared.defaults, **changes}))


@settings(max_examples=examples(20))
@given(st.lists(TIMES, max_size=16), st.integers(2, 9), st.booleans())
@example([0, 100, 200, 310, 0, 420, 290, 600], 1, True)
@example([0, 260, 20, 400, 120, 290, 480, 299], 2, True)
def test_whatever_is_accepted_is_in_each_window_that_holds_its_time_and_in_no_other(
    times: list[int], size: int, anew: bool
) -> None:
    """Whatever is late by then: what falls into a closed window would be missing, or make a second row of it.

    A driver that knows nothing folds what the floor has left.
    """
    world = run(World(records(times), size, PIPELINE), anew=anew)
    for sink in LENGTHS:
        assert once(shown(world, sink)) == once(due(world, sink)), sink
    for sink in ("long", "sliding"):
        assert once(shown(world, f"{sink}_totals")) == once(totals(due(world, sink))), sink


@pytest.mark.deep
@settings(max_examples=examples(10))
@given(st.lists(TIMES, min_size=1, max_size=12), st.randoms(use_true_random=False), st.data())
def test_results_depend_neither_on_the_order_of_rows_nor_on_epochs_nor_on_shards(
    times: list[int], random: Any, data: st.DataObject
) -> None:
    """Where nothing is late, since what is late depends on what came before."""
    patient, sent = pipeline(lateness_ms=10_000), records(times)
    found = []
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(orders_world, "SHARDS", data.draw(st.integers(1, 4)))
            mixed = sent[:-2]
            random.shuffle(mixed)
            world = run(World([*mixed, *sent[-2:]], data.draw(st.integers(2, 20)), patient))
            assert world.counts()["late"] == 0
            found.append({sink: once(shown(world, sink)) for sink in (*LENGTHS, "long_totals", "sliding_totals")})
    assert found[0] == found[1]


def test_a_record_is_late_for_all_or_for_none() -> None:
    """The window of the hour that holds it is open for long; its minute decides, as for those of the minute."""
    sent = [{"id": "a", "event_time_ms": 10}, {"id": "b", "event_time_ms": 150}, {"id": "c", "event_time_ms": 20}]
    closers = records([])
    world = run(World([*sent, *closers], 1, PIPELINE))
    assert world.counts()["late"] == 1
    assert [row["n"] for row in totals(shown(world, "long"))] == [2]
    assert [row["n"] for row in totals(shown(world, "half"))] == [2, 2]


@pytest.mark.parametrize(
    ("length_ms", "wrong"),
    [
        (0, "length_ms of windows 'per' is at least 1 and at most 999,999,999,999,999, not 0"),
        (-GRAIN, "is at least 1"),
        (LONGEST_MS + 1, "is at least 1"),
        (150, r"length_ms of windows 'per' is a multiple of window_ms \(100\), not 150"),
        (50, r"is a multiple of window_ms \(100\), not 50"),
    ],
)
def test_a_length_that_cannot_be_is_refused_by_name(length_ms: int, wrong: str) -> None:
    with pytest.raises(SettingsError, match=wrong):
        replace(PIPELINE, windows=(per(length_ms),))


@pytest.mark.parametrize(
    ("length_ms", "slide_ms", "wrong"),
    [
        (400, 0, "slide_ms of windows 'per' is at least 1 and at most 999,999,999,999,999, not 0"),
        (400, 50, r"slide_ms of windows 'per' is a multiple of window_ms \(100\), not 50"),
        (400, 300, r"slide_ms of windows 'per' divides their length \(400\), which 300 does not"),
        (400, 800, r"divides their length \(400\), which 800 does not"),
        (None, 200, r"divides their length \(100\), which 200 does not"),
        (6_500, 100, "a record would be in 65 of windows 'per', at most 64 are possible: slide_ms is at least 102"),
    ],
)
def test_a_slide_that_cannot_be_is_refused_by_name(length_ms: int | None, slide_ms: int, wrong: str) -> None:
    with pytest.raises(SettingsError, match=wrong):
        replace(PIPELINE, windows=(per(length_ms, slide_ms=slide_ms),))


def test_a_record_may_be_in_64_windows() -> None:
    (each,) = replace(PIPELINE, windows=(per(6_400, slide_ms=100),)).windows
    assert len(each.windows(Windows(GRAIN, LATENESS)).holding(0)) == 64


@pytest.mark.parametrize("value", [True, 100.0, "100"])
@pytest.mark.parametrize("name", ["length_ms", "slide_ms"])
def test_lengths_are_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=rf"{name} is a whole number, or None, not .* \(Windowed 'per'\)"):
        Windowed("user", {"n": Count()}, ToKafka("per"), **{name: value})


def test_a_deployments_window_has_to_divide_the_lengths_as_well() -> None:
    assert job(per(LONG), window_ms=LONG).settings.window_ms == LONG
    with pytest.raises(
        SettingsError, match=r"length_ms of windows 'per' is a multiple of window_ms \(200\), not 300 .*Leave window_ms"
    ):
        job(per(LONG), window_ms=200)


def test_another_length_under_the_same_name_is_refused_by_that_name() -> None:
    none, some, more = job(per(None)).bound, job(per(LONG)).bound, job(per(2 * LONG)).bound
    assert "length_ms" not in str(none), "what declares no length is bound as before there was one"
    for kept, now, told in (
        (some, more, "300 when .* is 600"),
        (none, some, "None when .* is 300"),
        (some, none, "300"),
    ):
        refuse_changed(kept, kept, "head")
        with pytest.raises(SettingsError, match=rf"^length_ms of windows 'per' was {told}.*Set length_ms of windows"):
            refuse_changed(kept, now, "head")
    sliding = job(per(LONG, slide_ms=GRAIN)).bound
    with pytest.raises(SettingsError, match=r"^slide_ms of windows 'per' was None when .* is 100 now"):
        refuse_changed(some, sliding, "head")


def test_held_rows_of_several_lengths_go_by_when_their_windows_close() -> None:
    """The long window began before the short one and closes after it."""
    rows = [(Windows(GRAIN, LATENESS), {200: 3}), (Windows(2 * LONG, LATENESS), {0: 4})]
    assert [excess_ms(rows, bound) for bound in (7, 6, 4, 3)] == [None, 350, 350, 650]


def test_a_certificate_is_of_windows_of_one_length() -> None:
    several = job(per(None, "short"), per(LONG, "long"))
    assert windows_of(several, "long") == Windows(LONG, LATENESS)
    assert windows_of(several, "short") == windows_of(job(), None) == Windows(GRAIN, LATENESS)
    assert windows_of(job(per(LONG), per(LONG, "same")), None) == Windows(LONG, LATENESS)
    with pytest.raises(SettingsError, match=r"windows of several lengths .*--window\). Add --of short or long"):
        windows_of(several, None)
    with pytest.raises(
        SettingsError, match=r"no windows are called 'day' .*--of\). Leave it out, or name one of: short, long"
    ):
        windows_of(several, "day")


@given(st.builds(Windows, st.integers(1, 9), st.integers(0, 40)), st.integers(-60, 60), st.data())
def test_what_is_in_time_falls_into_no_window_that_is_closed(
    common: Windows, time_ms: int, data: st.DataObject
) -> None:
    """The one decision about a record, by the pipeline's windows, holds for all others."""
    slide = common.length_ms * data.draw(st.integers(1, 5))
    own = Windows(slide * data.draw(st.integers(1, 4)), common.lateness_ms, slide)
    closes = common.closed_by(common.start(time_ms))
    watermark_ms = data.draw(st.integers(closes - 3, closes - 1))
    holding = own.holding(own.start(time_ms))
    assert [*holding] == [n for n in range(-300, 100) if n % slide == 0 and n <= time_ms < n + own.length_ms]
    assert not any(own.closed(start, watermark_ms) for start in holding)


def test_a_sum_over_panes_that_no_sink_takes_is_a_dead_letter() -> None:
    """No pane alone comes near it, so the chain's word on how large its deltas are has to count for all panes."""
    large = {"user": "ann", "amount": 2**61}
    sent = [{"id": f"large-{n}", "event_time_ms": GRAIN * n, **large} for n in range(4)]
    world = run(World([*sent, *records([])], 6, PIPELINE))
    letters = [row for row in world.rows()["dead_letter"] if row["reason"] == "sum_too_large"]
    assert [loads(row["value"]) for row in letters if row["source"][0].endswith("sliding")] == [
        {"user": "ann", "window_start_ms": 0, "n": "4", "sum": str(2**63)}
    ]
    assert {row["window_start_ms"]: row["n"] for row in shown(world, "sliding")} == {
        -3 * GRAIN: 1,
        -2 * GRAIN: 2,
        -GRAIN: 3,
        GRAIN: 3,
        2 * GRAIN: 2,
        3 * GRAIN: 1,
    }


def test_what_overlaps_is_kept_once() -> None:
    """A delta has a row for each key and pane, whichever windows hold it."""
    world = run(World(records([0, 110, 0, 230]), 9, PIPELINE))
    (decided,) = [record.deltas for record in world.head.tail if record.counts.accepted]
    rows = {name: sum(delta.rows for delta in decided[name].values()) for name in LENGTHS}
    assert rows["sliding"] == rows["short"] == 4, "that of the closers among them"
