"""What a declaration needs of others is asked at once, and anew for each epoch; what is wrong is named in its order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.errors import SinkError, SourceError
from effectively_once.sources.kafka import KafkaSource
from tests.unit.library.broken_epochs import broken
from tests.unit.library.orders_world import TOPIC
from tests.unit.library.test_repair_by_driver import MemoryDriver, declare

WAIT_S = 20.0
"""For a condition that comes at once, or never."""
Ask = Callable[[], object]


class Asked:
    """A driver after some epochs, and what is done where each of the others is asked."""

    def __init__(self) -> None:
        self.driver = MemoryDriver(broken(2, part=lambda _, rows: rows))
        self.driver.recover()
        self.ids: Ask = lambda: None
        self.ends: Ask = lambda: None
        self.tables: Ask = lambda: None
        self.within: Ask = lambda: None
        self.topic_ids = {TOPIC: "id"}
        source: Any = self.driver.source
        source.topic_ids = lambda: (self.ids(), self.topic_ids)[1]
        source.same_topic = lambda head, now: KafkaSource.same_topic(source, head, now)
        source.look = lambda _: self.ends()
        source.within = lambda _: self.within()
        tables: Any = SimpleNamespace(find_tried=lambda: (self.tables(), ())[1])
        self.driver.publisher.declarations.tables = tables

    def declare(self) -> None:
        end = self.driver.head.tail[-1].ranges[TOPIC]["0"][1]
        declare(self.driver, {TOPIC: {"0": (end, end + 5)}})


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("effectively_once.epoch.rows.judge_each", lambda _, read: read(None))


def _raise(error: Exception) -> Ask:
    def do() -> object:
        raise error

    return do


def test_topic_ends_and_tables_are_asked_at_once() -> None:
    asked, all_ask = Asked(), threading.Barrier(3)
    asked.ids = asked.ends = asked.tables = lambda: all_ask.wait(WAIT_S)
    asked.declare()
    assert asked.driver.of.head.declared is not None


def test_a_topic_that_was_made_anew_is_noticed_before_the_next_epoch_is_declared() -> None:
    """However short it is: that its ranges end beyond it, or that a table refuses, is not what an operator is told."""
    asked = Asked()
    asked.topic_ids = {TOPIC: "another"}
    asked.ends = _raise(SourceError("there is no such partition", TOPIC, "Look."))
    asked.within = _raise(SourceError("a range ends beyond it", TOPIC, "Look."))
    asked.tables = _raise(SinkError("a table has another constraint", "orders", "Look."))
    before = asked.driver.of.head
    with pytest.raises(SourceError, match="was deleted and created again: its id was id and is another"):
        asked.declare()
    assert asked.driver.of.head == before


def test_what_fails_ahead_is_asked_again_where_it_is_needed() -> None:
    asked, again = Asked(), []
    asked.ends = _raise(SourceError("a leader moves", TOPIC, "Look."))
    asked.within = lambda: again.append(True)
    asked.declare()
    assert again == [True]
    assert asked.driver.of.head.declared is not None


def test_a_table_that_no_trial_speaks_for_is_refused_before_the_epoch_is_declared() -> None:
    asked = Asked()
    asked.tables = _raise(SinkError("no trial can tell", "orders", "Look."))
    before = asked.driver.of.head
    with pytest.raises(SinkError, match="no trial can tell"):
        asked.declare()
    assert asked.driver.of.head == before


def test_nobody_is_asked_behind_a_refusal() -> None:
    """A driver that ends has nothing under way at its servers."""
    asked, refused, threads = Asked(), threading.Event(), []

    def refuse() -> None:
        refused.set()
        raise SourceError("the input topic does not exist", TOPIC, "Create it.")

    def look() -> None:
        assert refused.wait(WAIT_S)
        threads.append(threading.current_thread())

    asked.ids, asked.ends, asked.tables = refuse, look, look
    with pytest.raises(SourceError, match="does not exist"):
        asked.declare()
    assert [thread.is_alive() for thread in threads] == [False, False]
