"""Lag is judged: what was acknowledged before the certificate of its window has to be counted."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers import in_time
from tests.harness.checkers.case import Case
from tests.harness.checkers.in_time import Seal, announcements, count_kept_by_partition, seals
from tests.harness.checkers.reference import Outcome, Reference
from tests.harness.evidence import Clock, EpochRecord, Settings
from tests.harness.judge.verdict import judge
from tests.harness.sends import Send
from tests.unit.harness.epochs import record_of
from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.judged import FAIL, PASS, UNKNOWN, expect, oracle_of
from tests.unit.harness.tamper import manifest, sent


def record(epoch: int, watermark_ms: int | None, clock: Clock | None = None) -> EpochRecord:
    return record_of(epoch, watermark_ms, clock=clock)


def send(kind: str = "fresh", partition: int = 0) -> Send:
    return Send("id", "u", 0, 0, kind, None, "events", partition, 0)


@pytest.mark.parametrize(
    ("acked_ms", "kind", "clock", "announced_ms", "after"),
    [
        (99, "late", None, 200, True),  # what was read before the seal was sent later: no clock but the sender's
        (100, "late", None, 200, False),
        (150, "fresh", None, 200, True),
        (200, "fresh", None, 200, False),
        (150, "fresh", None, None, False),  # a repeat announced it: its declaration may have been long before
        (150, "resent", None, 200, False),
        (150, "fresh", Clock(idle={"events": (0,)}), 200, False),
        (150, "fresh", Clock(idle={"events": (1,)}), 200, True),
        (150, "fresh", Clock(released=("gate",)), 200, False),
        (150, "fresh", Clock(forced_ms=0), 200, False),
        (99, "late", Clock(forced_ms=0), 200, True),  # sent when its window was closed
        (99, "fresh", Clock(forced_ms=0), 200, False),  # its partition may be behind, with all it had unread
        (99, "fresh", Clock(idle={"events": (0,)}), 200, True),  # idle is who has nothing unread
    ],
)
def test_a_seal_is_after_what_was_acknowledged_before_it(
    acked_ms: int, kind: str, clock: Clock | None, announced_ms: int | None, after: bool
) -> None:
    assert Seal(record(1, 5, clock), 100, announced_ms).is_after(send(kind), acked_ms) is after


@pytest.mark.parametrize(
    ("clock", "after"),
    [
        (Clock(released=("north",)), False),
        (Clock(released=("south",)), True),
        (Clock(sources={"north": 5}, forced_ms=6), False),
        (Clock(sources={"north": None}, forced_ms=6), False),
        (Clock(sources={"north": 6, "south": 5}, forced_ms=6), True),
        (Clock(idle={"events": (0,)}), True),  # its gateway's word holds time for it
    ],
)
def test_a_record_of_a_gateway_is_excused_where_the_certificate_names_that_gateway(clock: Clock, after: bool) -> None:
    one = send()._replace(gateway="north")
    assert Seal(record(1, 5, clock), 100, 200).is_after(one, 150) is after
    assert Seal(record(1, 5, clock), 100, 200).is_after(one, 99) is after, "it may be back, and read by that very epoch"


def test_what_the_epochs_before_have_read_was_sent_before_a_seal_too() -> None:
    epochs = [record(0, None), record(1, 10), record(2, 20)]
    found = seals(epochs, [0, 0, 2, -1], [50, 70, 60, 999], {2: 80})
    assert [(one.record.epoch, one.read_ms, one.announced_ms) for one in found] == [(1, 70, None), (2, 70, 80)]


def test_the_first_announcement_counts_by_the_earlier_clock_and_none_of_a_repeat() -> None:
    def declared(epoch: int, t: int, **more: Any) -> Row:
        return {"event": "epoch", "state": "declared", "epoch": epoch, "t": t, **more}

    told = [declared(0, 10), declared(0, 30), declared(1, 40, told_t=35), declared(2, 50, repeat=True), declared(2, 60)]
    assert announcements([*told, {**declared(3, 70), "state": "published"}]) == {0: 10, 1: 35}


@pytest.fixture
def unpaced(run: Path) -> Path:
    """The clean run, told to be of an unpaced sender whose acknowledgements came at once."""
    sent(lambda rows: [row.update(acked_at=row["sent_at"]) for row in rows])(run)
    manifest(lambda told: told["settings"].update(rate="250"))(run)
    return run


def test_a_record_that_was_acknowledged_before_its_window_was_closed_fails_the_run(unpaced: Path) -> None:
    assert in_time.judge(Case(unpaced)).verdict is not FAIL
    at = next(at for at, outcome in enumerate(Case(unpaced).reference.outcomes) if outcome == Outcome.LATE)
    sent(lambda rows: rows[at].update(acked_at=0, sent_at=0))(unpaced)
    oracle = expect(unpaced, FAIL, in_time.NAME, "1 records were refused").oracle(in_time.NAME)
    assert "closed its window" in oracle.evidence[0]


def test_of_a_partition_that_may_have_been_left_behind_nothing_is_known(
    unpaced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its certificates name it: too much was held for it. What it lagged by is in the topic, unread."""
    at = next(at for at, outcome in enumerate(Case(unpaced).reference.outcomes) if outcome == Outcome.LATE)
    sent(lambda rows: rows[at].update(acked_at=0, sent_at=0, kind="fresh"))(unpaced)
    made = in_time.seals

    def forced(*given: Any) -> list[Seal]:
        clock = Clock(forced_ms=1)
        return [replace(seal, record=seal.record.model_copy(update={"clock": clock})) for seal in made(*given)]

    monkeypatch.setattr(in_time, "seals", forced)
    oracle = in_time.judge(Case(unpaced))
    assert (oracle.verdict, "too much was held" in oracle.says) == (UNKNOWN, True), oracle.says


def test_a_lag_is_shown_by_a_record_that_the_largest_time_seen_would_have_refused(
    unpaced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(unpaced, UNKNOWN, in_time.NAME, "nothing lagged")
    monkeypatch.setattr(in_time, "count_kept_by_partition", lambda *_: 3)
    expect(unpaced, PASS, in_time.NAME, "would have refused 3 more")


def test_kept_are_those_behind_the_largest_time_of_earlier_epochs() -> None:
    times, settings = [500_000, 1, 400_000, 2], Settings(window_ms=60_000, lateness_ms=120_000)
    sends = [Send(str(at), "u", time, 0, "fresh", None, "events", 0, at) for at, time in enumerate(times)]
    found = Reference(bytearray(4), array("q", [0, 0, 1, 1]), accepted={str(at): at for at in range(4)})
    assert count_kept_by_partition(sends, found, settings) == 1


@pytest.mark.parametrize(
    "change", [lambda row: row.pop("acked_at"), lambda row: row.update(acked_at="soon")], ids=["none", "no time"]
)
def test_without_acknowledgements_nothing_is_known(unpaced: Path, change: Callable[[Row], Any]) -> None:
    sent(lambda rows: change(rows[3]))(unpaced)
    expect(unpaced, UNKNOWN, in_time.NAME, "does not say when it was acknowledged")


def test_a_run_whose_sender_waited_for_the_chain_is_not_asked(run: Path) -> None:
    assert in_time.NAME not in {one.name for one in judge(run, write=False).oracles}


def test_an_unpaced_run_need_not_meet_the_bounds_of_time(unpaced: Path) -> None:
    assert "no record was at a bound" in oracle_of(unpaced, "decisions").says
