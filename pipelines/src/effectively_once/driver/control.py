"""What an operator asks of the drivers of a pipeline: to run, to pause, or to drain and stop.

It is an object beside the chain and no part of it: only drivers write head. A driver that reads a wish late, or not at
all, publishes nothing wrong; so the wish fences nobody and needs no fencing.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from pydantic import Field, ValidationError, model_validator

from effectively_once.errors import ControlError
from effectively_once.ledger import checksum
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, Lost, ObjectStore, Put, Step, Written, body_of, run
from effectively_once.ledger.offsets import Ranges
from effectively_once.ledger.record import Record, Versioned

FORMAT = 2
"""From 2 on with a checksum; what a version before asked is read without one."""
READ_EVERY_S = 1.0
"""How long a wish that was read counts as what is wished: a request a second, and a pause that begins within one."""


class State(StrEnum):
    """What drivers are to do.

    running: declare and publish epochs. paused: declare no epoch; what is declared is still published. draining:
    declare epochs until they cover given offsets, then stop in order.
    """

    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"


class Wish(Record):
    """What an operator asked for last. Without an object nobody asked for anything, and drivers run.

    Attributes:
        ends: of a drain: first offset and end offset of every partition when it was asked for.
        asked_ms: when, in milliseconds since 1970.
        request: random, so that no content ever repeats (an ETag is a digest of the content).

    """

    format: int = FORMAT
    state: State = State.RUNNING
    ends: Ranges = Field(default_factory=dict)
    asked_ms: int | None = None
    request: str = ""

    @model_validator(mode="after")
    def _possible(self) -> Wish:
        if (self.state is State.DRAINING) != bool(self.ends):
            raise ValueError("end offsets belong to a drain, and a drain has some")
        return self

    @classmethod
    def make(cls, state: State, ends: Ranges | None = None) -> Wish:
        """Make a wish of now."""
        return cls(state=state, ends=ends or {}, asked_ms=time.time_ns() // 1_000_000, request=uuid.uuid4().hex)

    def __str__(self) -> str:
        """As an operator is told it."""
        at = self.asked_ms and datetime.fromtimestamp(self.asked_ms / 1000, UTC).isoformat(timespec="seconds")
        ends = "; ".join(
            f"topic {topic} to " + " ".join(f"{p}:{end}" for p, (_, end) in sorted(parts.items()))
            for topic, parts in self.ends.items()
        )
        return ", ".join([self.state.value, *([ends] if ends else []), *([f"asked for at {at}"] if at else [])])


def encode(wish: Wish) -> bytes:
    """Return the object's content, with its checksum: a bit that flips must not make a pause a drain."""
    return checksum.seal({**wish.model_dump(mode="json"), "format": FORMAT})


def decode(body: bytes, key: str) -> Wish:
    """Parse the object. Raises ControlError when it is damaged or of a newer format."""
    try:
        content, sealed = checksum.open_sealed(body)
        version = Versioned.model_validate(content).format
        if version > FORMAT:
            raise ControlError(
                f"what is asked of drivers has format {version}, this version reads up to {FORMAT}",
                key,
                "Use the version that asked.",
            )
        if version == FORMAT and not sealed:
            raise ValueError("it has no checksum")
        return Wish.model_validate(content)
    except ValueError as wrong:
        why = wrong.errors()[0]["msg"] if isinstance(wrong, ValidationError) else str(wrong)
        raise ControlError(
            f"what is asked of drivers cannot be read: {why}",
            key,
            "Ask again with pause, drain or resume: that replaces the object.",
        ) from wrong


def read(layout: Layout) -> Step[Wish]:
    """Return what is wished now. Raises ControlError when it cannot be read."""
    body = yield from body_of(layout.control)
    return Wish() if body is None else decode(body, layout.control)


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking: the wish before (None: it could not be read), and the one that holds."""

    before: Wish | None
    now: Wish


def ask(layout: Layout, wish: Wish) -> Step[Asked]:
    """Put a wish in the place of the one that is there; a lost answer is settled by reading what is there.

    Raises:
        ControlError: somebody else asked while the answer got lost, so which of the two came last cannot be told.

    """
    body, etag, lost = encode(wish), None, False
    before: Wish | None = None
    while True:
        found = yield Get(layout.control)
        if isinstance(found, Found) and found.body == body:
            return Asked(before, wish)
        there = found.etag if isinstance(found, Found) else None
        if lost and there != etag:
            raise ControlError(
                "somebody else asked for something at the same time",
                layout.control,
                "Look at what is asked for now, and ask again.",
            )
        etag, before = there, _readable(found.body, layout.control) if isinstance(found, Found) else Wish()
        answer = yield Put(layout.control, body, etag)
        if isinstance(answer, Written):
            return Asked(before, wish)
        # Refused: somebody was quicker, and the last one to ask is to be heard. Lost: settled by what is there now;
        # where nothing changed it is sent again, and at most one of the two can take place.
        lost = lost or isinstance(answer, Lost)


def _readable(body: bytes, key: str) -> Wish | None:
    """Return the wish that is to be replaced; None when it is damaged. A newer version's is refused, not replaced."""
    try:
        return decode(body, key)
    except ControlError as error:
        if isinstance(error.__cause__, ValueError):
            return None
        raise


class Control:
    """A driver's view of what is wished, read at most once in `every_s` seconds. May be shared by threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, every_s: float = READ_EVERY_S) -> None:
        self._clock, self._every_s = clock, every_s
        self._read: tuple[float, Wish] | None = None

    def wish(self, store: ObjectStore, layout: Layout) -> Wish:
        """Return what is wished. Raises ControlError when it cannot be read, and what the store raises."""
        kept = self._read
        if kept is not None and self._clock() - kept[0] < self._every_s:
            return kept[1]
        wish = run(read(layout), store)
        self._read = self._clock(), wish
        return wish

    def hold(self, store: ObjectStore, layout: Layout, stopping: threading.Event) -> Wish:
        """Wait while the pipeline is paused or until `stopping` is set; return what is wished then."""
        while (wish := self.wish(store, layout)).state is State.PAUSED and not stopping.wait(self._every_s):
            pass
        return wish


def reached_ranges(head: Head) -> Ranges:
    """Return the ranges that the chain recorded last; their ends are where it is."""
    return head.tail[-1].ranges if head.tail else {}


def count_left(ranges: Ranges, wish: Wish) -> dict[str, dict[str, int]]:
    """Count the offsets between an epoch's ranges and the ends that a drain is to reach, where there are any.

    A partition that no epoch has read yet begins at its first offset.
    """
    behind = {
        topic: {
            partition: end - now
            for partition, (first, end) in parts.items()
            if (now := ranges.get(topic, {}).get(partition, (0, first))[1]) < end
        }
        for topic, parts in wish.ends.items()
    }
    return {topic: parts for topic, parts in behind.items() if parts}


def is_drained(ranges: Ranges, wish: Wish) -> bool:
    """Whether a drain is wished and published up to its ends; `ranges` are those of the last epoch."""
    return wish.state is State.DRAINING and not count_left(ranges, wish)


def stopped_line(wish: Wish) -> str:
    """Say why a driver stops, or does not begin, although nothing failed."""
    return f"the pipeline is drained ({wish}). `effectively-once resume` lets drivers run again."
