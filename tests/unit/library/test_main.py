"""What ends the wait of a running job: here with a driver and a query that only answer."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once import points
from effectively_once.driver import main
from effectively_once.driver.control import State, Wish
from effectively_once.driver.driver import Driver
from effectively_once.driver.metrics import Metrics
from effectively_once.errors import ControlError, StaleDriverError, UnreachableError, one_line
from effectively_once.ledger.layout import Layout

STALE = StaleDriverError("driver a was replaced by b of generation 2", "p/head.json", "Nothing to do.")


class Answering:
    """A driver that was replaced after some looks, and a query that fails once its jobs are cancelled."""

    def __init__(self, looks: int, *, busy: bool) -> None:
        self._looks, self.failure, self.busy = looks, None, threading.Lock()
        self.cancelled = self.waited = self.looked = 0
        if busy:
            self.busy.acquire()

    def find_finished_drain(self) -> None:
        """Nothing is wished."""

    def find_replacement(self) -> StaleDriverError | None:
        self._looks -= 1
        return None if self._looks >= 0 else STALE

    def watch_triggers(self, query: Any) -> None:
        assert query is self
        self.looked += 1

    def cancel(self) -> None:
        self.cancelled += 1

    def awaitTermination(self, _: float) -> bool:  # noqa: N802 - as PySpark calls it
        self.waited += 1
        assert self.waited < 10, "nobody ends the wait"
        if self.cancelled > 1:
            raise RuntimeError("the jobs were cancelled")
        return False


def watched(answering: Answering) -> BaseException | None:
    driver: Any = answering
    return main._watch(answering, driver, [], answering.cancel)


def test_a_driver_that_was_replaced_between_two_epochs_ends_with_its_name_for_it() -> None:
    answering = Answering(2, busy=False)
    assert watched(answering) is STALE
    assert (answering.waited, answering.looked, answering.cancelled) == (2, 2, 1)


def test_the_jobs_of_a_driver_that_was_replaced_inside_an_epoch_are_cancelled_until_the_epoch_fails() -> None:
    """One may begin just after the others were cancelled."""
    answering = Answering(0, busy=True)
    assert str(watched(answering)) == "the jobs were cancelled"
    assert answering.cancelled == 2


class Ended(Answering):
    """A query that ended as its next epoch lies beyond a drain's ends, and a wish that is another by now."""

    def __init__(self, wish: Wish | None = None) -> None:
        super().__init__(99, busy=False)
        self.failure: Any = None
        self._wish, self.layout = wish, Layout("p")

    def find_finished_drain(self) -> Any:
        return self._wish if self.waited else None

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802 - as PySpark calls it
        self.failure = InterruptedError("the pipeline is stopping")
        super().awaitTermination(seconds)
        raise RuntimeError("foreachBatch: the pipeline is stopping")


def test_a_query_that_ended_while_the_wish_changed_ends_the_driver_by_name() -> None:
    """Nothing would ever run again, and the process would live on."""
    ended = Ended()
    error = watched(ended)
    assert isinstance(error, ControlError)
    assert error.where == "p/control.json"
    assert ended.waited == 1


def test_a_query_that_ended_by_its_drain_is_stopped_in_order() -> None:
    drained = Ended(Wish(state=State.DRAINING, ends={"t": {"0": (0, 5)}}, asked_ms=0))
    assert watched(drained) is None
    assert drained.waited == 1


def test_each_trigger_that_ended_is_a_sign_of_life_one_that_found_nothing_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """While none ends the time stays what it was: a driver may hang in a batch."""
    driver, query = object.__new__(Driver), SimpleNamespace(lastProgress=None)
    driver.metrics, driver._trigger = Metrics("uc"), None
    now_s = 100.0
    monkeypatch.setattr("effectively_once.driver.metrics.time.time", lambda: now_s)

    def read_alive(ended: str | None) -> float | None:
        query.lastProgress = ended and SimpleNamespace(timestamp=ended)
        driver.watch_triggers(query)
        return driver.metrics.registry.get_sample_value("effectively_once_alive_timestamp_seconds", {"pipeline": "uc"})

    assert read_alive(None) == 0
    idle, later = "2026-11-27T10:00:00.001Z", "2026-11-27T10:00:10.004Z"
    assert read_alive(idle) == 100
    now_s = 105.0
    assert read_alive(idle) == 100
    assert read_alive(later) == 105


def looking(monkeypatch: pytest.MonkeyPatch, now_s: list[float], head: list[BaseException | None]) -> Driver:
    driver = object.__new__(Driver)
    driver._looked_s = 0.0

    def still_ours() -> None:
        if (error := head.pop(0)) is not None:
            raise error

    driver.chain = SimpleNamespace(still_ours=still_ours)  # type: ignore[assignment]
    monkeypatch.setattr("effectively_once.driver.driver.time.monotonic", lambda: now_s[0])
    return driver


def test_head_is_looked_at_every_few_seconds_and_not_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, head = [2.9], list[BaseException | None]([None, STALE])
    driver = looking(monkeypatch, now_s, head)
    assert driver.find_replacement() is None
    assert len(head) == 2
    now_s[0] = 3.0
    assert [driver.find_replacement(), driver.find_replacement()] == [None, None]
    assert len(head) == 1
    now_s[0] = 6.0
    assert driver.find_replacement() is STALE


def test_a_head_that_cannot_be_read_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = looking(monkeypatch, [5.0], [UnreachableError("no answer", "the store", "Wait.")])
    assert driver.find_replacement() is None


def test_a_driver_of_which_a_test_holds_a_process_does_not_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What fences it when it wakes is what the test is about."""
    monkeypatch.setenv(points.VARIABLE, str(tmp_path))
    driver = looking(monkeypatch, [5.0], [STALE])
    (tmp_path / points.HELD).touch()
    assert driver.find_replacement() is None
    (tmp_path / points.HELD).unlink()
    assert driver.find_replacement() is STALE


class Process:
    """The process around a driver that only notes in which order it is asked for what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, standby: bool, waits: bool = True) -> None:
        self.order: list[str] = []
        head = SimpleNamespace(declared=None)
        settings = SimpleNamespace(standby=standby)
        self.driver = SimpleNamespace(settings=settings, head=head, find_finished_drain=lambda: None)
        for name in ("check", "take_over", "release"):
            setattr(self.driver, name, self._note(name))
        spark = SimpleNamespace(stop=self._note("session stops"))
        job = SimpleNamespace(pipeline=SimpleNamespace(functions=()))
        monkeypatch.setattr(main, "job_of", lambda *_: job)
        monkeypatch.setattr(main, "code_digest", lambda *_: "w")
        monkeypatch.setattr(main, "runtime_of", lambda _: {})
        monkeypatch.setattr(main, "try_scratch", lambda _: None)
        monkeypatch.setattr(main, "Driver", lambda *_: self.driver)
        monkeypatch.setattr(main, "session", lambda *_: self._note("session")() or spark)
        monkeypatch.setattr(main, "Standby", lambda *_: SimpleNamespace(wait=lambda _: self._wait(waits)))
        monkeypatch.setattr(main, "_work", lambda *_: self._note("works")())
        monkeypatch.setattr("signal.signal", lambda *_: None)

    def _note(self, what: str) -> Any:
        return lambda: self.order.append(what)

    def _wait(self, waits: bool) -> bool:
        self.order.append("waits")
        return waits

    def run(self) -> int:
        return main.run(["settings.json"])


def test_a_driver_checks_and_takes_over_before_it_has_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, standby=False)
    assert process.run() == 0
    assert process.order == ["check", "take_over", "session", "works", "release", "session stops"]


def test_a_standby_has_its_session_before_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes over by is its own: nobody else does it a second time."""
    process = Process(monkeypatch, standby=True)
    assert process.run() == 0
    assert process.order == ["check", "session", "waits", "works", "release", "session stops"]


def test_a_standby_that_is_told_to_stop_ends_in_order_and_has_done_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, standby=True, waits=False)
    assert process.run() == 0
    assert process.order == ["check", "session", "waits", "release", "session stops"]


def test_a_driver_that_fails_lets_a_standby_go_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its session stops, which takes seconds."""
    process = Process(monkeypatch, standby=True)

    def fail(*_: object) -> None:
        raise ControlError("it was asked otherwise", "p/control.json", "Start it again.")

    monkeypatch.setattr(main, "_work", fail)
    assert process.run() == ControlError.exit_code
    assert process.order[-2:] == ["release", "session stops"]


def test_why_it_ended_is_the_last_line_whatever_spark_says_of_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process = Process(monkeypatch, standby=False)
    spark = SimpleNamespace(stop=lambda: sys.stderr.write("an executor is gone\n"))
    monkeypatch.setattr(main, "session", lambda *_: spark)
    monkeypatch.setattr(main, "_work", lambda *_: STALE)
    assert process.run() == StaleDriverError.exit_code
    assert capsys.readouterr().err.splitlines() == ["an executor is gone", one_line(STALE)]
