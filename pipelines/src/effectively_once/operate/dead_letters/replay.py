"""Sends dead letters again, as they came or edited. What is sent carries where it came from in a header.

A replay may be interrupted and repeated: a record with an attached id is accepted once, however often it is sent, until
its window closes.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from effectively_once.errors import SettingsError, SinkError, SourceError, UnreachableError
from effectively_once.kafka_client import client_config
from effectively_once.pipeline.columns import RESULT_REFUSED
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sinks.dead_letters import LATE, DeadLetter, Message, Selection, Unreadable
from effectively_once.state.accumulator import IMPOSSIBLE

HEADER = "effectively-once-replay"
"""Of every record that is sent: epoch/topic/partition/offset of the dead letter, and the place of its row (`pos`)."""
SILENCE_S = 60.0
"""How long the broker may acknowledge nothing."""
SAY_EVERY = 10_000
Edit = Callable[[bytes], bytes | None]
Say = Callable[[str], object]
Whole = Callable[[DeadLetter], DeadLetter]


class Sender(Protocol):
    """A producer, as far as it is used here."""

    def produce(self, topic: str, value: bytes | None, **how: Any) -> None:
        """Queue a record. Raises BufferError when the queue is full."""
        ...

    def poll(self, timeout: float) -> int:
        """Serve delivery reports; return how many."""
        ...

    def __len__(self) -> int:
        """How many records are not acknowledged."""
        ...


@dataclass
class Replayed:
    """What became of a replay; `left` counts what was meant and not sent, and why."""

    sent: int = 0
    acknowledged: int = 0
    last_epoch: int = -1
    left: Counter[str] = field(default_factory=Counter)


class Replay:
    """Sends the dead letters that are meant to a topic.

    Args:
        sender: an idempotent producer.
        topics: where they go: each to the one that it came from, else to the first.
        edit: gives what to send instead, or None to leave one out.
        late: whether records that came too late are sent. They are late again, unless they are edited.
        say: is told how far it is.
        whole: gives a dead letter that was cut its record.
        clock: seconds, for the wait for acknowledgements.

    """

    def __init__(
        self,
        sender: Sender,
        topics: tuple[str, ...],
        edit: Edit | None = None,
        *,
        late: bool = False,
        say: Say = lambda _: None,
        whole: Whole = lambda it: it,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender, self._topics, self._edit, self._late = sender, topics, edit, late
        self._say, self._whole, self._clock = say, whole, clock
        self._where = f"topic {', '.join(topics)}"
        self._refused: list[Any] = []
        self._whole_records: set[tuple[str, int, int]] = set()
        self.done = Replayed()

    def run(self, messages: Iterable[Message], meant: Selection) -> Replayed:
        """Send what is meant, and wait until all of it is acknowledged.

        Raises:
            SettingsError: `edit` failed, or gave something else than bytes or None.
            UnreachableError: the broker does not acknowledge.
            SinkError: it refuses a record, or `whole` finds none.

        """
        for message in messages:
            if isinstance(message, Unreadable):
                self.done.left["no dead letters"] += 1
            elif meant.holds(message):
                self._send(message)
        while len(self._sender):
            self._wait()
        return self.done

    def _send(self, letter: DeadLetter) -> None:
        if letter.reason in IMPOSSIBLE or letter.reason.startswith(RESULT_REFUSED):
            self.done.left["results of windows, which are no records"] += 1
            return
        if letter.cut is not None and letter.cut.key is None:
            self.done.left["cut by a former version, which kept no copy: send them from their source"] += 1
            return
        if letter.reason == LATE and not self._late and self._edit is None:
            self.done.left["late"] += 1
            return
        if letter.pos is not None:
            # Each row that is refused has the whole record, which brings all of them again.
            if letter.source in self._whole_records:
                self.done.left["of a record that another of its dead letters sends"] += 1
                return
            self._whole_records.add(letter.source)
        letter = self._whole(letter)
        if self._edit is not None and letter.value is None:
            self.done.left["tombstones, which have nothing to edit"] += 1
            return
        value = self._apply_edit(letter)
        if self._edit is not None and value is None:
            self.done.left["left out by the edit"] += 1
            return
        came_from, partition, _ = letter.source
        topic = came_from if came_from in self._topics else self._topics[0]
        # Where records of one key were before; the key itself is not kept in a dead letter.
        where = {"partition": partition} if topic == came_from else {}
        while True:
            try:
                self._sender.produce(
                    topic,
                    value,
                    headers=[(HEADER, letter.coordinate.encode())],
                    on_delivery=self._take_delivery,
                    **where,
                )
                break
            except BufferError:
                self._wait()
        self.done.sent += 1
        self.done.last_epoch = max(self.done.last_epoch, letter.epoch)
        self._sender.poll(0)
        self._raise_refused()
        if self.done.sent % SAY_EVERY == 0:
            self._say(f"{self.done.sent:,} are sent, {self.done.acknowledged:,} acknowledged")

    def _apply_edit(self, letter: DeadLetter) -> bytes | None:
        if self._edit is None or letter.value is None:
            return letter.value
        try:
            value = self._edit(letter.value)
        except Exception as error:
            raise SettingsError(
                f"the edit failed: {type(error).__name__}: {error}",
                f"--edit, dead letter {letter.coordinate}",
                "Correct it, or let it return None for what it cannot mend; then run the replay again.",
            ) from error
        if not isinstance(value, bytes | None):
            raise SettingsError(
                f"the edit gave {type(value).__name__}",
                f"--edit, dead letter {letter.coordinate}",
                "Let it return bytes, or None.",
            )
        return value

    def _wait(self) -> None:
        """Wait for an acknowledgement, as long as the broker goes on."""
        began, acknowledged = self._clock(), self.done.acknowledged
        while not self._sender.poll(1.0):
            self._raise_refused()
            if self._clock() - began > SILENCE_S:
                raise UnreachableError(
                    f"the Kafka broker acknowledged nothing for {SILENCE_S:g} s; of {self.done.sent:,} records "
                    f"{acknowledged:,} are acknowledged",
                    self._where,
                    "Check the broker, then run the replay again.",
                )
        self._raise_refused()

    def _take_delivery(self, error: Any, _: object) -> None:
        if error is None:
            self.done.acknowledged += 1
        else:
            self._refused.append(error)

    def _raise_refused(self) -> None:
        if self._refused:
            raise SinkError(
                f"the Kafka broker refused a record: {self._refused[0].str()}; of {self.done.sent:,} records "
                f"{self.done.acknowledged:,} are acknowledged",
                self._where,
                "Correct it, then run the replay again.",
            )


def edit_of(name: str) -> Edit:
    """Import `module:function`. Raises SettingsError when there is none."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:
        raise SettingsError(
            f"the edit cannot be imported: {type(error).__name__}: {error}",
            f"--edit {name}",
            "Write module:function, and put the module's folder on PYTHONPATH.",
        ) from error
    if not callable(found):
        raise SettingsError(f"{function} is no function", f"--edit {name}", "Write module:function.")
    edit: Edit = found
    return edit


def refuse_impossible(settings: PipelineSettings, topic: str, meant: Selection, *, late: bool, edited: bool) -> None:
    """Refuse a replay that cannot end well.

    Raises:
        SettingsError: records that came too late are asked for and would be again; or the topic is the pipeline's own.

    """
    if LATE in meant.reasons and not late and not edited:
        raise SettingsError(
            "records that came too late are late again when they are sent again",
            "--reason late",
            "Give them another event time with --edit, or send them all the same with --anyway.",
        )
    if topic.startswith(f"{settings.pipeline}."):
        raise SettingsError("the topic belongs to a sink of the pipeline", f"--to {topic}", "Name an input topic.")


def replay(
    settings: PipelineSettings,
    messages: Iterable[Message],
    meant: Selection,
    say: Say,
    *,
    to: str | None = None,
    edit: str | None = None,
    anyway: bool = False,
    whole: Whole = lambda it: it,
) -> None:
    """Send dead letters to the pipeline's input, or to another topic; tell what became of them.

    Raises:
        PipelineError: any of the named refusals; what was acknowledged before stays sent.

    """
    topics = (to,) if to else settings.topics
    for topic in topics:
        refuse_impossible(settings, topic, meant, late=anyway, edited=edit is not None)
    function = edit_of(edit) if edit else None
    for topic in topics:
        _refuse_missing(settings, topic)
    producer = Producer(
        {
            **client_config(settings.kafka_bootstrap),
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "message.max.bytes": 100_000_000,
        }
    )
    work = Replay(producer, topics, function, late=anyway, say=say, whole=whole)
    try:
        work.run(messages, meant)
    finally:
        done = work.done
        where = ", ".join(topics)
        say(f"{done.acknowledged:,} of {done.sent:,} records that were sent to topic {where} are acknowledged")
        if done.left:
            say("not sent: " + ", ".join(f"{number:,} {why}" for why, number in sorted(done.left.items())))
        if done.sent:
            say(f"their last epoch is {done.last_epoch}: what is refused again comes after it")


def _refuse_missing(settings: PipelineSettings, topic: str) -> None:
    """Refuse a topic that does not exist: a producer that asks for it would have some brokers make it."""
    admin = AdminClient(client_config(settings.kafka_bootstrap))
    asked = admin.describe_topics(TopicCollection([topic]), request_timeout=settings.start_patience_s)
    try:
        asked[topic].result()
    except KafkaException as error:
        if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
            raise SourceError("the topic does not exist", f"topic {topic}", "Create it, or name another.") from error
        raise UnreachableError(
            f"the Kafka broker does not answer: {error.args[0].str()}", settings.kafka_bootstrap, "Check that it runs."
        ) from error
