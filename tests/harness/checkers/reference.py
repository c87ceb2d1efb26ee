"""The plain-Python reference: what every output of a run must be, from the acknowledged sends and the chain.

Deliberately simple and slow to go wrong: dicts, one pass, no code of the pipeline. It follows the section "The
reference" of docs/reference/run-directory.md line by line.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from tests.harness.checkers import loss
from tests.harness.checkers.repairs import Shares
from tests.harness.checkers.watermark import Watermark
from tests.harness.evidence import EpochRecord, Pin
from tests.harness.sends import Send
from tests.harness.wire import TEXT, bytes_of, json_object

NEVER = -1


class Outcome(IntEnum):
    """What must become of a send."""

    UNREAD = 0
    ACCEPTED = 1
    DUPLICATE = 2
    LATE = 3
    MALFORMED = 4
    LOST = 5
    """The topic lost it before an epoch had read it, and the chain says so."""


@dataclass
class EpochNumbers:
    """What the reference finds in one epoch."""

    epoch: int
    in_: int = 0
    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    malformed: int = 0
    max_event_time_ms: int | None = None
    watermark_due_ms: int | None = None
    user_counts: int = 0
    global_counts: int = 0


@dataclass
class Reference:
    """The outcome of every send and the rows every sink must hold.

    Attributes:
        outcomes: per index into the sends, an `Outcome`.
        epochs_of: per index, the epoch that read the send, or NEVER.
        accepted: id -> index of the send that was accepted, in the order of acceptance.
        user_counts: (user, window start) -> (count, epoch that emits it).
        global_counts: window start -> (count, epoch that emits it).
        open_windows: window start -> accepted records, of windows that no epoch closed.
        numbers: per epoch of the chain, in its order.
        reread: indexes of sends that more than one epoch read (overlapping ranges).

    """

    outcomes: bytearray
    epochs_of: array[int]
    accepted: dict[str, int] = field(default_factory=dict)
    user_counts: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    global_counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    open_windows: dict[int, int] = field(default_factory=dict)
    numbers: list[EpochNumbers] = field(default_factory=list)
    reread: list[int] = field(default_factory=list)


def is_malformed(send: Send) -> bool:
    """Whether the pipeline must refuse the record; a copy sent again keeps the reason of its original."""
    return send.kind == "malformed" or send.reason not in (None, "", "late")


def id_in(send: Send) -> str | None:
    """Return the id that the pipeline reads: of a malformed record that of its JSON, if it has one."""
    if not is_malformed(send):
        return send.id
    id_ = (json_object(bytes_of(send.value, send.encoding or TEXT)) or {}).get("id")
    return id_ if isinstance(id_, str) else None


def window_start(event_time_ms: int, window_ms: int) -> int:
    """Return the start of the fixed window that holds a time."""
    return event_time_ms - event_time_ms % window_ms


class _Source:
    """The sends of each partition in offset order, to be cut by ranges."""

    def __init__(self, sends: Sequence[Send]) -> None:
        self._indexes: dict[tuple[str, int], list[int]] = {}
        for index, send in enumerate(sends):
            self._indexes.setdefault((send.topic, send.partition), []).append(index)
        self._offsets: dict[tuple[str, int], list[int]] = {}
        for key, indexes in self._indexes.items():
            indexes.sort(key=lambda index: sends[index].offset)
            self._offsets[key] = [sends[index].offset for index in indexes]

    def of(self, record: EpochRecord) -> Iterator[int]:
        """Indexes of the sends in the epoch's ranges, by (topic, partition, offset)."""
        for topic in sorted(record.ranges):
            for partition, span in sorted(record.ranges[topic].items()):
                yield from self.within((topic, partition), span)

    def within(self, place: tuple[str, int], span: tuple[int, int]) -> Sequence[int]:
        """Indexes of the sends in a range of one partition."""
        offsets, indexes = self._offsets.get(place, []), self._indexes.get(place, [])
        return indexes[bisect_left(offsets, span[0]) : bisect_left(offsets, span[1])]


def replay(
    sends: Sequence[Send], epochs: Iterable[EpochRecord], window_ms: int, lateness_ms: int, shown: Iterable[Pin] = ()
) -> Reference:
    """Replay the sends in epoch order.

    Args:
        sends: every acknowledged send, in any order.
        epochs: the epoch records of the chain; only `ranges`, `watermark_ms`, idle partitions, losses and repairs are
            believed.
        window_ms: length of a window.
        lateness_ms: allowed lateness.
        shown: rows of epochs that were finished as they are shown.

    """
    source = _Source(sends)
    shares = Shares[int](shown, lambda index: (id_in(sends[index]), sends[index].coordinate))
    reference = Reference(outcomes=bytearray(len(sends)), epochs_of=array("q", [NEVER]) * len(sends))
    outcomes, epochs_of, accepted = reference.outcomes, reference.epochs_of, reference.accepted
    windows: dict[int, dict[str, int]] = {}
    clock = Watermark()
    for record in epochs:
        watermark = record.watermark_ms
        numbers = EpochNumbers(record.epoch, watermark_due_ms=clock.due(record))
        _give_up(record, source, outcomes)
        _close(windows, record, window_ms + lateness_ms, reference, numbers)
        newest: int | None = None
        for index in shares.of(record, source.of(record)):
            send = sends[index]
            numbers.in_ += 1
            start = NEVER
            if is_malformed(send):
                outcome = Outcome.MALFORMED
                numbers.malformed += 1
            else:
                time, id_, user = send.event_time_ms, send.id, send.user
                if time is None or id_ is None or user is None:
                    raise ValueError(f"well-formed send without id, user or time at {send.coordinate}")
                start = time - time % window_ms
                if watermark is not None and start + window_ms + lateness_ms <= watermark:
                    outcome = Outcome.LATE
                    numbers.late += 1
                elif id_ in accepted:
                    outcome = Outcome.DUPLICATE
                    numbers.duplicate += 1
                else:
                    outcome = Outcome.ACCEPTED
                    numbers.accepted += 1
                    accepted[id_] = index
                    users = windows.setdefault(start, {})
                    users[user] = users.get(user, 0) + 1
                    if newest is None or time > newest:
                        newest = time
                clock.show(record, (send.topic, send.partition), time, accepted=outcome is Outcome.ACCEPTED)
            if epochs_of[index] == NEVER:
                outcomes[index] = outcome
                epochs_of[index] = record.epoch
            else:
                reference.reread.append(index)
        numbers.max_event_time_ms = newest
        clock.end(record)
        reference.numbers.append(numbers)
    reference.open_windows = {start: sum(users.values()) for start, users in sorted(windows.items())}
    return reference


def _give_up(record: EpochRecord, source: _Source, outcomes: bytearray) -> None:
    for place, span in loss.spans_of(record).items():
        for index in source.within(place, span):
            # What an epoch did read was not lost, whatever another one says.
            if outcomes[index] == Outcome.UNREAD:
                outcomes[index] = Outcome.LOST


def _close(
    windows: dict[int, dict[str, int]], record: EpochRecord, span_ms: int, reference: Reference, numbers: EpochNumbers
) -> None:
    """Emit the windows that the epoch's watermark closes; what is emitted is final."""
    if record.watermark_ms is None:
        return
    for start in sorted(start for start in windows if start + span_ms <= record.watermark_ms):
        users = windows.pop(start)
        for user, count in users.items():
            reference.user_counts[user, start] = (count, record.epoch)
        reference.global_counts[start] = (sum(users.values()), record.epoch)
        numbers.user_counts += len(users)
        numbers.global_counts += 1
