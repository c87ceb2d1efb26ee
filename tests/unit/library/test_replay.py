"""Sending dead letters again: each with where it came from, each acknowledged, and nothing that cannot end well."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from effectively_once.errors import SettingsError, SinkError, UnreachableError
from effectively_once.operate.dead_letters.replay import HEADER, Edit, Replay, edit_of, refuse_impossible
from effectively_once.sinks.dead_letters import Cut, DeadLetter, Message, Selection, Unreadable
from tests.settings import pipeline_settings

SETTINGS = pipeline_settings()
ALL = Selection()


class MemorySender:
    """A producer whose records are acknowledged at a poll, so many at a time; `room` is the length of its queue."""

    def __init__(self, *, at_a_time: int = 1, room: int = 3, refuse: int | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self._waiting: list[Callable[[Any, Any], None]] = []
        self._at_a_time, self._room, self._refuse = at_a_time, room, refuse
        self._reports = count()

    def produce(self, topic: str, value: bytes | None, **how: Any) -> None:
        if len(self._waiting) >= self._room:
            raise BufferError
        self._waiting.append(how.pop("on_delivery"))
        self.sent.append({"topic": topic, "value": value, **how})

    def poll(self, timeout: float) -> int:
        # A poll that does not wait finds nothing yet: the queue has to fill.
        due = self._waiting[: self._at_a_time] if timeout else []
        del self._waiting[: len(due)]
        for report in due:
            report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if next(self._reports) == self._refuse else None, None)
        return len(due)

    def __len__(self) -> int:
        return len(self._waiting)


def letters(number: int, reason: str = "not_json") -> list[Message]:
    return [DeadLetter(reason, None, f"v{n}".encode(), n, ("events", n % 2, n)) for n in range(number)]


def test_every_record_is_sent_as_it_came_with_where_it_came_from_and_acknowledged() -> None:
    sender = MemorySender()
    done = Replay(sender, ("events",)).run(letters(10), ALL)
    assert sender.sent == [
        {
            "topic": "events",
            "value": f"v{n}".encode(),
            "partition": n % 2,
            "headers": [(HEADER, f"{n}/events/{n % 2}/{n}".encode())],
        }
        for n in range(10)
    ]
    assert (done.sent, done.acknowledged, done.last_epoch, done.left) == (10, 10, 9, {})


def test_in_another_topic_the_producer_chooses_the_partition() -> None:
    sender = MemorySender()
    Replay(sender, ("other",)).run(letters(1), ALL)
    assert sender.sent[0].keys() == {"topic", "value", "headers"}


def test_of_several_topics_each_record_goes_to_its_own() -> None:
    sender = MemorySender()
    found: list[Message] = [
        DeadLetter("not_json", None, b"v", n, (topic, 3, n)) for n, topic in enumerate(["events", "refunds", "former"])
    ]
    Replay(sender, ("events", "refunds")).run(found, ALL)
    assert [(one["topic"], one.get("partition")) for one in sender.sent] == [
        ("events", 3),
        ("refunds", 3),
        ("events", None),
    ]


def test_only_what_is_meant_is_sent_and_the_rest_is_told() -> None:
    sender = MemorySender()
    found = [*letters(3), Unreadable((0, 3)), *letters(2, "late"), *letters(4, "bad_time")]
    done = Replay(sender, ("events",)).run(found, Selection(epochs=(1, 2)))
    assert [one["value"] for one in sender.sent] == [b"v1", b"v2", b"v1", b"v2"]
    assert (done.sent, done.left) == (4, {"late": 1, "no dead letters": 1})


@pytest.mark.parametrize("reason", ["sum_too_large", "result_refused_by_table per_user: few"])
def test_results_of_windows_are_no_records_and_are_not_sent(reason: str) -> None:
    sender = MemorySender()
    done = Replay(sender, ("events",)).run([*letters(2, reason), *letters(1)], ALL)
    assert (done.sent, done.left) == (1, {"results of windows, which are no records": 2})


def test_a_record_that_was_cut_is_not_sent_as_a_tombstone() -> None:
    """Of a former version: its content is in the topic that it came from, and nowhere else."""
    cut = DeadLetter("malformed", None, None, 0, ("events", 0, 0), Cut(bytes=10**7, sha256="0" * 64))
    done = Replay(MemorySender(), ("events",)).run([cut, *letters(1)], ALL)
    assert (done.sent, [*done.left.values()]) == (1, [1])
    assert "send them from their source" in next(iter(done.left))


def test_late_records_are_sent_when_they_are_edited_or_it_is_asked_for() -> None:
    def later(value: bytes) -> bytes:
        return value + b"!"

    how: list[dict[str, Any]] = [{"late": True}, {"edit": later}]
    for each in how:
        sender = MemorySender()
        assert Replay(sender, ("events",), **each).run(letters(2, "late"), ALL).sent == 2
        assert sender.sent[1]["value"] == (b"v1!" if "edit" in each else b"v1")


def test_a_tombstone_is_sent_as_null_and_has_nothing_to_edit() -> None:
    tombstone = [DeadLetter("malformed", None, None, 0, ("events", 0, 0))]
    sender = MemorySender()
    assert Replay(sender, ("events",)).run(tombstone, ALL).sent == 1
    assert sender.sent[0]["value"] is None
    done = Replay(MemorySender(), ("events",), lambda value: value + b"!").run(tombstone, ALL)
    assert (done.sent, done.left) == (0, {"tombstones, which have nothing to edit": 1})


def test_an_edit_may_leave_records_out() -> None:
    sender = MemorySender()
    done = Replay(sender, ("events",), lambda value: None if value == b"v1" else b"mended").run(letters(3), ALL)
    assert [one["value"] for one in sender.sent] == [b"mended"] * 2
    assert (done.acknowledged, done.left) == (2, {"left out by the edit": 1})


def failing(value: bytes) -> bytes:
    if value == b"v2":
        raise KeyError("user")
    return value


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (failing, "the edit failed: KeyError: 'user'"),
        (lambda value: value.decode() if value == b"v2" else value, "the edit gave str"),
    ],
)
def test_an_edit_that_fails_is_named_with_its_record(edit: Edit, said: str) -> None:
    sender = MemorySender()
    with pytest.raises(SettingsError, match=rf"{said} \(--edit, dead letter 2/events/0/2\)"):
        Replay(sender, ("events",), edit).run(letters(5), ALL)
    assert len(sender.sent) == 2


def test_a_record_that_the_broker_refuses_ends_the_replay() -> None:
    replay = Replay(MemorySender(refuse=4), ("events",))
    with pytest.raises(SinkError, match=r"refused a record.*; of \d+ records 4 are acknowledged"):
        replay.run(letters(20), ALL)
    assert replay.done.sent < 20


def test_the_last_record_may_be_the_refused_one() -> None:
    with pytest.raises(SinkError, match="of 3 records 2 are acknowledged"):
        Replay(MemorySender(refuse=2), ("events",)).run(letters(3), ALL)


@pytest.mark.parametrize("number", [2, 20])
def test_a_broker_that_acknowledges_nothing_is_not_waited_for_without_end(number: int) -> None:
    ticks = count(step=10)
    replay = Replay(MemorySender(at_a_time=0), ("events",), clock=lambda: float(next(ticks)))
    with pytest.raises(UnreachableError, match=r"acknowledged nothing for 60 s; of \d records 0 are acknowledged"):
        replay.run(letters(number), ALL)


def test_progress_is_told() -> None:
    said: list[str] = []
    Replay(MemorySender(at_a_time=50_000, room=50_000), ("events",), say=said.append).run(letters(20_000), ALL)
    assert said == ["10,000 are sent, 0 acknowledged", "20,000 are sent, 0 acknowledged"]


def test_late_records_are_not_asked_for_without_an_edit() -> None:
    late = Selection(reasons=frozenset({"late", "not_json"}))
    with pytest.raises(SettingsError, match="late again"):
        refuse_impossible(SETTINGS, "events", late, late=False, edited=False)
    refuse_impossible(SETTINGS, "events", late, late=True, edited=False)
    refuse_impossible(SETTINGS, "events", late, late=False, edited=True)
    refuse_impossible(SETTINGS, "events", ALL, late=False, edited=False)


def test_a_replay_into_a_sink_of_the_pipeline_is_refused() -> None:
    with pytest.raises(SettingsError, match="belongs to a sink"):
        refuse_impossible(SETTINGS, "clicks.accepted", ALL, late=False, edited=False)
    refuse_impossible(SETTINGS, "clicks", ALL, late=False, edited=False)


def test_an_edit_is_imported_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mend_for_test.py").write_text("LIMIT = 3\ndef doubled(value):\n    return value * 2\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert edit_of("mend_for_test:doubled")(b"ab") == b"abab"
    for name, said in (
        ("mend_for_test:none", "AttributeError"),
        ("no_such_module:f", "ModuleNotFoundError"),
        ("json", "cannot be"),
        ("mend_for_test:LIMIT", "LIMIT is no function"),
        ("", "cannot be imported"),
    ):
        with pytest.raises(SettingsError, match=said):
            edit_of(name)
