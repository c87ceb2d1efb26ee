"""What a gateway says of itself, and when; and what it can vouch for: never less than it said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from effectively_once.errors import SettingsError
from effectively_once.gateway.record import Record, RecordId
from effectively_once.gateway.stating import States, Stating
from effectively_once.gateway.unsent import Unsent
from effectively_once.sources.statement import Statement, decode

NOW_MS = 100_000


@dataclass(frozen=True)
class At:
    """Where a record lies."""

    there: tuple[int, int]

    def partition(self) -> int:
        return self.there[0]

    def offset(self) -> int:
        return self.there[1]


@dataclass
class Client:
    """A producer that answers when the test says so."""

    sent: list[bytes] = field(default_factory=list)
    answers: list[Callable[..., None]] = field(default_factory=list)

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[..., None]) -> None:
        assert (topic, key) == ("events.sources", b"gate")
        self.sent.append(value)
        self.answers.append(on_delivery)

    @property
    def last(self) -> Statement | None:
        return decode(self.sent[-1])


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Stating:
    monkeypatch.setattr(Stating, "_ask", _asked)
    made = Stating("gate", "now", "events", States(every_s=1e-9), {})
    monkeypatch.setattr(made.unsent, "_now_ms", lambda: NOW_MS)
    return made


def _asked(self: Any) -> bool:
    self._ends = {0: 5, 1: 0}
    return True


def record(at_ms: int, incarnation: str = "now") -> Record:
    return Record(RecordId("gate", incarnation, 0), at_ms, None, b"", announced=False)


def test_it_says_up_to_where_everything_lies_that_it_sent(one: Stating) -> None:
    client = Client()
    at = one.unsent.begin(90_000)
    one.step(client, caught_up=True)
    assert client.last == Statement(source="gate", time_ms=90_000, offsets={"0": 5, "1": 0})
    client.answers[0](None)
    one.note_acknowledged(record(at), At((1, 7)))
    one.step(client, caught_up=True)
    assert client.last == Statement(source="gate", time_ms=NOW_MS, offsets={"0": 5, "1": 8})


def test_it_says_nothing_before_all_is_acknowledged_that_an_earlier_opening_left(one: Stating) -> None:
    client = Client()
    one.step(client, caught_up=False)
    assert not client.sent
    one.note_acknowledged(record(1, "before"), At((0, 40)))
    one.step(client, caught_up=True)
    assert client.last == Statement(source="gate", time_ms=NOW_MS, offsets={"0": 41, "1": 0})


def test_one_is_under_way_at_a_time_and_what_is_not_new_is_not_said_again(one: Stating) -> None:
    client = Client()
    for _ in range(3):
        one.step(client, caught_up=True)
    assert len(client.sent) == 1
    client.answers[0]("refused")
    one.step(client, caught_up=True)
    assert len(client.sent) == 2, "one that did not arrive is said again"
    client.answers[1](None)
    one.step(client, caught_up=True)
    assert len(client.sent) == 2


def test_it_waits_for_where_the_partitions_end(one: Stating, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stating, "_ask", lambda _: False)
    client = Client()
    one.step(client, caught_up=True)
    assert not client.sent


def test_impossible_states_are_refused() -> None:
    for given in ({"every_s": 0.0}, {"disorder_ms": -1}):
        with pytest.raises(SettingsError, match="States of the gateway"):
            States(**given)


@pytest.fixture
def now() -> list[int]:
    return [100_000]


def unsent(now: list[int], disorder_ms: int = 0) -> Unsent:
    return Unsent(disorder_ms, lambda: now[0])


def test_nothing_is_said_of_what_is_on_its_way(now: list[int]) -> None:
    one = unsent(now)
    assert one.begin(None) == 100_000
    now[0] = 105_500
    assert one.begin(None) == 105_500
    assert one.vouch() == 100_000
    one.end(100_000)
    assert one.vouch() == 105_000, "seconds are rounded down"
    one.end(105_500)
    assert one.vouch() == 105_500


def test_each_of_several_of_one_second_holds_it(now: list[int]) -> None:
    one = unsent(now)
    times = [one.begin(99_000 + n) for n in range(3)]
    for time_ms in times:
        assert one.vouch() == 99_000
        one.end(time_ms)
    assert one.vouch() == 100_000


def test_a_clock_that_is_set_back_takes_nothing_back(now: list[int]) -> None:
    one = unsent(now)
    assert one.vouch() == 100_000
    now[0] = 50_000
    assert one.vouch() == 100_000
    one.begin(None)
    assert one.behind == 1, "it may be late, and is told"


def test_a_program_that_gives_event_times_has_room_for_disorder(now: list[int]) -> None:
    one = unsent(now, disorder_ms=10_000)
    assert one.vouch() == 90_000
    one.begin(90_000)
    assert one.behind == 0
    one.begin(89_999)
    assert one.behind == 1
