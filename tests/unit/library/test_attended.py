"""Time counts as silence only while a driver was awake and its broker answered."""

from __future__ import annotations

import threading

import pytest

from effectively_once.driver import attended
from effectively_once.driver.attended import CLOSE_S, LOOK_EVERY_S, Attended
from effectively_once.errors import UnreachableError


class Broker:
    """Answers, or does not; one look takes so long."""

    def __init__(self) -> None:
        self.now_s, self.away, self.looks = 0.0, False, 0

    def __call__(self) -> None:
        self.looks += 1
        if self.away:
            raise UnreachableError("it is away", "here", "Wait.")


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def clock(broker: Broker) -> Attended:
    return Attended(broker, lambda: broker.now_s)


def later(clock: Attended, broker: Broker, *gaps_s: float) -> float:
    for gap in gaps_s:
        broker.now_s += gap
        clock.look()
    return clock.seconds()


def test_time_goes_on_between_looks_that_are_close_together(clock: Attended, broker: Broker) -> None:
    assert later(clock, broker, 100.0) == 0.0, "before the first look nobody was heard"
    assert later(clock, broker, 1.0, CLOSE_S) == 1.0 + CLOSE_S


def test_it_stands_while_the_driver_stands_still(clock: Attended, broker: Broker) -> None:
    later(clock, broker, 0.0, 1.0)
    assert later(clock, broker, CLOSE_S + 0.1) == 1.0
    assert later(clock, broker, 3600.0, 1.0) == 2.0


def test_it_stands_while_the_broker_is_away(clock: Attended, broker: Broker) -> None:
    """Also where each look ends soon: between the last answer and the next one nobody could be heard."""
    later(clock, broker, 0.0, 1.0)
    broker.away = True
    assert later(clock, broker, *[1.0] * 100) == 1.0
    broker.away = False
    assert later(clock, broker, 1.0) == 1.0
    assert later(clock, broker, 1.0) == 2.0
    for _ in range(10):
        broker.away = True
        later(clock, broker, 1.0)
        broker.away = False
        assert later(clock, broker, 1.0) == 2.0, "not for a moment either"


def test_looks_are_closer_together_than_they_have_to_be() -> None:
    assert LOOK_EVERY_S * 3 <= CLOSE_S


def test_it_looks_until_the_driver_stops(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:
    monkeypatch.setattr(attended, "LOOK_EVERY_S", 0.001)
    stopping, looked = threading.Event(), threading.Event()

    def look() -> None:
        broker()
        if broker.looks == 3:
            looked.set()

    Attended(look).start(stopping)
    assert looked.wait(30)
    stopping.set()
