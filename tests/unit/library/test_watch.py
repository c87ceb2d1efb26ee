"""What a driver makes of silent partitions and sources: who is let go, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from effectively_once.driver import watch
from effectively_once.driver.attended import CLOSE_S, Attended
from effectively_once.driver.clock import watermark_ms
from effectively_once.driver.watch import Watch
from effectively_once.errors import UnreachableError
from effectively_once.ledger.clock import Clock
from effectively_once.ledger.head import Head
from effectively_once.ledger.offsets import Ranges
from effectively_once.pipeline.settings import PipelineSettings
from tests.unit.library.test_clock import declared, head, record

HOLD_S, IDLE_S = 5.0, 3.0


class Told:
    """Statements, as a test tells them."""

    def __init__(self, *_: Any) -> None:
        self.new: dict[str, int] = {}
        self.latest: dict[str, int] = {}
        self.heard = True

    def take_passed(self, _: Ranges) -> dict[str, int]:
        return self.new


class Source:
    """A broker that holds what was read and so many more, or is away."""

    def __init__(self) -> None:
        self.ends, self.unread = {"0": 0, "1": 0}, {"0": 0, "1": 0}
        self.away = False

    def last_offsets(self) -> dict[str, dict[str, int]]:
        if self.away:
            raise UnreachableError("it is away", "here", "Wait.")
        return {"t": {name: end + self.unread[name] for name, end in self.ends.items()}}


class Driver:
    """One driver's watch, and the chain that it declares epochs of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, chain: Head, now: list[float], **changes: Any) -> None:
        monkeypatch.setattr(watch, "Statements", Told)
        monkeypatch.setattr(watch, "Attended", lambda look: Attended(look, lambda: now[0]))
        given = {
            "pipeline": "p",
            "topic": "t",
            "kafka_bootstrap": "",
            "idle_ms": 10**9,
            "sources": ("gate",),
            "start_patience_s": 1.0,
            "hold_max_ms": int(1000 * HOLD_S),
            **changes,
        }
        self.source = Source()
        self.watch = Watch(PipelineSettings.model_construct(**given), self.source)  # type: ignore[arg-type]
        self.chain, self._now = chain, now
        self.watch._attended.look()

    def wait(self, seconds: float, every_s: float = 0.1) -> None:
        """Let time pass, with a look at the broker each so many seconds."""
        for _ in range(round(seconds / every_s)):
            self._now[0] += every_s
            self.watch._attended.look()

    def stand_still(self, seconds: float) -> None:
        """Let time pass while this process is stopped."""
        self._now[0] += seconds

    def epoch(self, *moved: str, heard: bool = True, said: int | None = None, **new: int) -> Clock:
        """Declare an epoch with a record of each partition that moved; sources have come so far by what was read.

        `said`: what the gateway says that is not read yet.
        """
        told: Any = self.watch._statements
        if told is not None:
            told.new, told.heard = new, heard
            for name, time in [*new.items(), *([] if said is None else [("gate", said)])]:
                told.latest[name] = max(time, told.latest.get(name, time))
        before = dict(self.source.ends)
        self.source.ends = {name: end + (name in moved) for name, end in before.items()}
        spans = {name: (before[name], end) for name, end in self.source.ends.items()}
        pinned = self.watch.pin(self.chain, {"t": spans})
        done = record(declared(self.chain.last_recorded + 1, None, pinned, spans), {})
        self.chain = head(*self.chain.tail, done)
        return pinned


def test_a_source_that_does_not_move_is_let_go_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    driver = Driver(monkeypatch, head(), now)
    assert driver.epoch() == Clock(sources={"gate": None})
    assert driver.epoch(gate=7) == Clock(sources={"gate": 7})
    driver.wait(HOLD_S - 0.5)
    assert driver.epoch() == Clock(sources={"gate": 7})
    driver.wait(1.0)
    assert driver.epoch() == Clock(sources={"gate": 7}, released=("gate",))
    assert driver.epoch(gate=6) == Clock(sources={"gate": 7}, released=("gate",)), "an older word moves nothing"
    assert driver.epoch(gate=8) == Clock(sources={"gate": 8})


def test_a_driver_that_starts_waits_for_nobody_once_more_who_was_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    first = let_go(monkeypatch, now)
    second = Driver(monkeypatch, first.chain, now)
    assert second.epoch() == Clock(sources={"gate": 7}, released=("gate",))
    assert second.epoch(gate=9) == Clock(sources={"gate": 9})


def let_go(monkeypatch: pytest.MonkeyPatch, now: list[float] | None = None) -> Driver:
    """One whose gateway has said 7, and was let go."""
    driver = Driver(monkeypatch, head(), [0.0] if now is None else now)
    driver.epoch(gate=7)
    driver.wait(HOLD_S + 0.5)
    assert driver.epoch().released == ("gate",)
    return driver


def test_a_source_that_was_let_go_is_waited_for_once_its_word_is_heard_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = let_go(monkeypatch)
    back = driver.epoch(said=9)
    assert back == Clock(sources={"gate": 7})
    before = head(record(declared(0, 400, Clock(), {"0": (0, 1)}), {"t": {"0": 900}}))
    pinned = back.model_copy(update={"shown": {"t": {"0": 900}}})
    assert watermark_ms(before, pinned, {"t": {"0": (1, 2)}}) == 400, "no window closes without it"
    assert driver.epoch() == Clock(sources={"gate": 7})
    assert driver.epoch(gate=9) == Clock(sources={"gate": 9})


def test_one_that_is_back_and_silent_again_has_the_bound_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not less, and not for ever, though what it said is never read."""
    driver = let_go(monkeypatch)
    for word in (9, 10, 30):
        assert driver.epoch(said=word).released == ()
        driver.wait(HOLD_S - 0.5)
        assert driver.epoch().released == ()
        driver.wait(1.0)
        assert driver.epoch().released == driver.epoch().released == ("gate",)


@pytest.mark.parametrize("word", [6, 7])
def test_one_that_says_nothing_later_stays_let_go(monkeypatch: pytest.MonkeyPatch, word: int) -> None:
    """Else a gateway that does not get on would hold time for ever."""
    driver = let_go(monkeypatch)
    assert [driver.epoch(said=word).released for _ in range(3)] == [("gate",)] * 3


def test_one_that_speaks_is_not_let_go_while_the_chain_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, head(), [0.0])
    driver.epoch(gate=7)
    for word in range(8, 28):
        driver.wait(HOLD_S - 0.5)
        assert driver.epoch(said=word) == Clock(sources={"gate": 7})


def test_what_was_said_before_the_end_of_a_look_that_failed_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert let_go(monkeypatch).epoch(said=9, heard=False).released == ()


def test_a_driver_that_starts_waits_for_one_that_has_said_more_than_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    first = let_go(monkeypatch, now)
    assert [Driver(monkeypatch, first.chain, now).epoch(said=word).released for word in (6, 7)] == [("gate",)] * 2
    second = Driver(monkeypatch, first.chain, now)
    assert second.epoch(said=9).released == ()
    second.wait(HOLD_S + 0.5)
    assert second.epoch(said=9).released == ("gate",), "that was its time"


def of_partitions(monkeypatch: pytest.MonkeyPatch, chain: Head, now: list[float]) -> Driver:
    return Driver(monkeypatch, chain, now, idle_ms=int(1000 * IDLE_S), sources=())


def test_a_partition_that_is_silent_while_it_could_be_heard_is_idle_until_it_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = of_partitions(monkeypatch, head(), [0.0])
    assert driver.epoch("0", "1").idle == {}
    driver.wait(IDLE_S - 0.5)
    assert driver.epoch("0").idle == {}
    driver.wait(1.0)
    assert driver.epoch("0").idle == {"t": ["1"]}
    assert driver.epoch("0", "1").idle == {}
    assert driver.epoch("0").idle == {}, "its time begins anew"


@pytest.mark.parametrize("away", [False, True], ids=["the driver stands still", "the broker is away"])
def test_nobody_is_let_go_over_time_in_which_nobody_could_be_heard(monkeypatch: pytest.MonkeyPatch, away: bool) -> None:
    """However often, and whether partition or source: what comes afterwards would be late for good."""
    now = [0.0]
    for driver in (of_partitions(monkeypatch, head(), now), Driver(monkeypatch, head(), now)):
        driver.epoch("0", "1", gate=7)
        for _ in range(20):
            if away:
                driver.source.away = True
                driver.wait(10 * HOLD_S, every_s=1.0)
                driver.source.away = False
            else:
                driver.stand_still(10 * CLOSE_S)
            driver.watch._attended.look()
            pinned = driver.epoch("0")
            assert (pinned.idle, pinned.released) == ({}, ())
        driver.wait(HOLD_S + 0.5)
        pinned = driver.epoch("0")
        assert pinned.idle or pinned.released, "time in which they could be heard counts again"


def test_an_epoch_right_after_a_stall_and_before_any_look_lets_nobody_go(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = of_partitions(monkeypatch, head(), [0.0])
    driver.epoch("0", "1")
    driver.stand_still(100 * IDLE_S)
    assert driver.epoch("0").idle == {}


def test_a_source_is_not_let_go_over_statements_that_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, head(), [0.0])
    driver.epoch(gate=7)
    for _ in range(10):
        driver.wait(HOLD_S)
        assert driver.epoch(heard=False).released == ()
    driver.wait(HOLD_S - 0.5)
    assert driver.epoch().released == ()
    driver.wait(1.0)
    assert driver.epoch().released == ("gate",)
    assert driver.epoch(heard=False).released == ("gate",), "one that was let go stays so until it moves"


def test_a_driver_that_starts_does_not_wait_once_more_for_a_partition_that_was_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Starts more often than `idle_ms` would hold time for ever."""
    now = [0.0]
    driver = of_partitions(monkeypatch, head(), now)
    driver.epoch("0", "1")
    driver.wait(IDLE_S + 0.5)
    assert driver.epoch("0").idle == {"t": ["1"]}
    for _ in range(3):
        again = of_partitions(monkeypatch, driver.chain, now)
        again.source = again.watch._source = driver.source  # type: ignore[assignment]
        driver = again
        assert driver.epoch("0").idle == {"t": ["1"]}
    driver.source.unread["1"] = 1
    assert driver.epoch("0").idle == {}, "the broker holds a record of it"
    assert driver.epoch("0", "1").idle == {}
    assert driver.epoch("0").idle == {}


def test_a_source_that_is_let_go_is_named_once_each_time_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(watch.log, "warning", lambda what, **more: said.append((what, more)), raising=False)
    now = [0.0]
    driver = let_go(monkeypatch, now)
    ((what, told),) = said
    assert what == "a source is not waited for any more"
    assert (told["source"], told["time_ms"]) == ("gate", 7)
    assert "Start its gateway" in told["todo"]
    assert driver.epoch().released == ("gate",)
    assert Driver(monkeypatch, driver.chain, now).epoch().released == ("gate",)
    assert len(said) == 1, "nor by the driver that follows"
    assert driver.epoch(gate=9).released == ()
    driver.wait(HOLD_S + 0.5)
    assert driver.epoch().released == ("gate",)
    assert [more["time_ms"] for _, more in said] == [7, 9]


def test_one_for_whom_too_much_is_held_is_left_behind_and_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(watch.log, "warning", lambda _, **more: said.append(more), raising=False)
    driver = Driver(monkeypatch, head(), [0.0], held_rows_max=7)
    driver.epoch(gate=50)
    hold(driver, 300)
    pinned = [driver.epoch(), driver.epoch(gate=200)]
    assert [one.forced_ms for one in pinned] == [300, 300]
    assert [(one["behind"], one["time_ms"], one["held_rows_max"]) for one in said] == [("gate", 300, 7)]
    assert driver.epoch(gate=300).forced_ms is None
    hold(driver, 900)
    assert driver.epoch().forced_ms == 900
    assert [one["behind"] for one in said] == ["gate", "gate", "t/0", "t/1"], "again, after it had come up"


def hold(driver: Driver, until_ms: int) -> None:
    """Have the last epoch say that a shard held too much up to a time, which the partitions have shown."""
    last = driver.chain.tail[-1]
    shown = {"t": {"0": 800, "1": 800}}
    driver.chain = head(*driver.chain.tail[:-1], last.model_copy(update={"excess_ms": until_ms, "shown_ms": shown}))
