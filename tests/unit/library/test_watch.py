"""What a driver makes of silent sources: who is let go, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from effectively_once import watch
from effectively_once.clock import Silence
from effectively_once.ledger.records import Clock, Head, Ranges
from effectively_once.settings import PipelineSettings
from effectively_once.watch import Watch
from tests.unit.library.test_clock import declared, head, record

SPANS = {"0": (0, 1)}
HOLD_S = 5.0


class Told:
    """Statements, as a test tells them."""

    def __init__(self, *_: Any) -> None:
        self.new: dict[str, int] = {}

    def passed(self, _: Ranges) -> dict[str, int]:
        return self.new


class Source:
    """Nobody is idle."""

    def last_offsets(self) -> dict[str, int]:
        return {}


class Driver:
    """One driver's watch, and the chain that it declares epochs of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, chain: Head, now: list[float]) -> None:
        monkeypatch.setattr(watch, "Statements", Told)
        settings = PipelineSettings.model_construct(
            pipeline="p", topic="t", kafka_bootstrap="", idle_ms=10**9, sources=("gate",), start_patience_s=1.0,
            hold_max_ms=int(1000 * HOLD_S),
        )  # fmt: skip
        self.watch = Watch(settings, Source())  # type: ignore[arg-type]
        self.watch._silence = Silence(int(1000 * HOLD_S), lambda: now[0])
        self.chain = chain

    def epoch(self, **new: int) -> Clock:
        self.watch._statements.new = new  # type: ignore[union-attr]
        pinned = self.watch.pin(self.chain, {"t": SPANS})
        done = record(declared(self.chain.last_recorded + 1, None, pinned, SPANS), {})
        self.chain = head(*self.chain.tail, done)
        return pinned


def test_a_source_that_does_not_move_is_let_go_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    driver = Driver(monkeypatch, head(), now)
    assert driver.epoch() == Clock(sources={"gate": None})
    assert driver.epoch(gate=7) == Clock(sources={"gate": 7})
    now[0] = HOLD_S - 0.1
    assert driver.epoch() == Clock(sources={"gate": 7})
    now[0] = HOLD_S
    assert driver.epoch() == Clock(sources={"gate": 7}, released=("gate",))
    assert driver.epoch(gate=6) == Clock(sources={"gate": 7}, released=("gate",)), "an older word moves nothing"
    assert driver.epoch(gate=8) == Clock(sources={"gate": 8})


def test_a_driver_that_starts_waits_for_nobody_once_more_who_was_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    first = Driver(monkeypatch, head(), now)
    first.epoch(gate=7)
    now[0] = HOLD_S
    first.epoch()
    second = Driver(monkeypatch, first.chain, now)
    assert second.epoch() == Clock(sources={"gate": 7}, released=("gate",))
    assert second.epoch(gate=9) == Clock(sources={"gate": 9})
