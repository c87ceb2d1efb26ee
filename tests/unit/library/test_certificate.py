"""What the chain says of a window: closed by whom, and who was not waited for."""

from __future__ import annotations

import pytest

from effectively_once.ledger.clock import Clock
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.loss import Loss
from effectively_once.operate.inspect import certificate
from effectively_once.state.lateness import Windows
from tests.unit.library.test_clock import declared, head, record

WINDOWS = Windows(100, 50)


def chain(*clocks: Clock | None) -> list[EpochRecord]:
    """A chain whose watermark rises by 150 an epoch, from 0."""
    return [
        record(
            declared(n, 150 * n, pinned, {"0": (n, n + 1)}).model_copy(
                update={"previous_watermark_ms": 150 * (n - 1) if n else None}
            ),
            {},
        )
        for n, pinned in enumerate(clocks)
    ]


def certify(start_ms: int, *clocks: Clock | None) -> certificate.Certificate:
    records = chain(*clocks)
    return certificate._of(head(*records), records, WINDOWS, start_ms)


WITH, WITHOUT = Clock(sources={"gate": 400, "b": 90}), Clock(sources={"gate": 400, "b": 90}, released=("b",))


@pytest.mark.parametrize(
    ("start_ms", "clocks", "verdict", "epoch"),
    [
        (0, (None, WITH, WITHOUT), "complete", 1),
        (100, (None, WITH, WITHOUT), "released", 2),
        (0, (None, WITHOUT, WITH), "released", 1),
        (100, (None, WITHOUT, WITH), "complete", 2),
        (200, (None, WITH, WITHOUT), "open", None),
        (0, (None, Clock(), WITH), "closed", 1),
        (0, (None, None), "closed", 1),
        (0, (), "open", None),
    ],
)
def test_a_window_is_judged_by_the_epoch_that_closed_it(
    start_ms: int, clocks: tuple[Clock | None, ...], verdict: str, epoch: int | None
) -> None:
    found = certify(start_ms, *clocks)
    assert (found.verdict, found.epoch) == (verdict, epoch)


@pytest.mark.parametrize(
    ("pinned", "verdict", "released"),
    [
        (Clock(shown={"t": {"0": 90}}, forced_ms=150), "released", ("t/0",)),
        (Clock(shown={"t": {"0": 150}}, sources={"gate": 90}, forced_ms=150), "released", ("gate",)),
        (Clock(sources={"gate": 150, "b": 90}, released=("b",), forced_ms=150), "released", ("b", "t/0")),
        (Clock(shown={"t": {"0": 150}}, sources={"gate": 150}, forced_ms=150), "complete", ()),
    ],
)
def test_a_window_that_was_closed_for_what_was_held_names_who_was_left_behind(
    pinned: Clock, verdict: str, released: tuple[str, ...]
) -> None:
    found = certify(0, None, pinned)
    assert (found.verdict, found.released) == (verdict, released)


@pytest.mark.parametrize(
    ("start_ms", "at_ms", "verdict", "lost"),
    [(0, 50, "complete", 0), (100, 150, "lost", 7), (100, 99, "complete", 0), (200, 250, "open", 7)],
)
def test_a_window_that_was_open_when_input_was_given_up_may_lack_it(
    start_ms: int, at_ms: int, verdict: str, lost: int
) -> None:
    """Epoch 1 gave up 7 offsets: the window of 0 was closed by it, that of 100 had begun or not."""
    records = chain(None, WITH, WITH)
    given_up = Loss(offsets={"t": {"0": (3, 10)}}, at_ms=at_ms)
    records[1] = records[1].model_copy(update={"lost": given_up})
    found = certificate._of(head(*records), records, WINDOWS, start_ms)
    assert (found.verdict, found.lost) == (verdict, lost)
