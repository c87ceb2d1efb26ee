"""What gateways said of themselves: whether it was true of what they sent, and whether clocks have it from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.harness.evidence import EpochRecord, EvidenceError, Settings
from tests.harness.run_directory import RunDirectory, read_lines
from tests.harness.sends import Send

ON_PURPOSE = ("late", "resent", "malformed")
"""Kinds that no gateway vouches for."""


class Said(NamedTuple):
    """One statement: of `source` nothing before `time_ms` is unsent, it lies before these offsets.

    `delivered_at`: the broker had acknowledged a word of this time by then; None where that is not known.
    """

    said_at: int
    source: str
    time_ms: int
    offsets: Mapping[int, int]
    delivered_at: int | None = None


def statements(run: RunDirectory) -> list[Said]:
    """Read what was said; raises EvidenceError."""
    found: list[Said] = []
    delivered: dict[tuple[str, int], list[int]] = {}
    for number, row in enumerate(read_lines(run.statements_path), 1):
        try:
            if "delivered_at" in row:
                _whole(row["delivered_at"], row["time_ms"])
                delivered.setdefault((row["source"], row["time_ms"]), []).append(row["delivered_at"])
                continue
            offsets = {int(partition): end for partition, end in row["offsets"].items()}
            _whole(row["said_at"], row["time_ms"], *offsets.values())
            found.append(Said(row["said_at"], row["source"], row["time_ms"], offsets))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            where = f"{run.statements_path}:{number}"
            raise EvidenceError(f"no statement of a source ({error!r})", where, "run again") from error
    # Of several words of one time the broker had them in their order.
    had = (delivered.get((one.source, one.time_ms), []) for one in found)
    return [one._replace(delivered_at=times.pop(0) if times else None) for one, times in zip(found, had, strict=True)]


def _whole(*numbers: object) -> None:
    if {type(number) for number in numbers} != {int}:
        raise TypeError("a time or an offset is no whole number")


def find_misattributed(sends: Iterable[Send], gateways: Sequence[str]) -> list[str]:
    """Describe sends of nobody who is registered, or of another one than those of the same user before it."""
    owners: dict[str, str | None] = {}
    found: list[str] = []
    for send in sends:
        owner = send.gateway if send.user is None else owners.setdefault(send.user, send.gateway)
        if send.gateway not in gateways or send.gateway != owner:
            found.append(f"id {send.id} of {send.user} is said to be of {send.gateway}, and its user of {owner}")
    return found


def covers(said: Said, read: Mapping[int, int]) -> bool:
    """Whether what was read, by partition, holds all that a statement speaks of."""
    return all(end <= read.get(partition, 0) for partition, end in said.offsets.items())


def read_on(read: dict[int, int], record: EpochRecord, topic: str) -> None:
    """Take note, by partition, of what an epoch has read."""
    for partition, (_, end) in record.ranges.get(topic, {}).items():
        read[partition] = max(end, read.get(partition, 0))


def untrue(said: Iterable[Said], sends: Sequence[Send]) -> list[str]:
    """Describe statements that ran ahead of what was sent: a record from before it lies behind its offsets."""
    places: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for send in sends:
        if send.gateway is not None and send.event_time_ms is not None and send.kind not in ON_PURPOSE:
            places.setdefault((send.gateway, send.partition), []).append((send.offset, send.event_time_ms))
    least: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    for place, records in places.items():
        offsets, times = map(list, zip(*sorted(records), strict=True))
        for at in reversed(range(len(times) - 1)):
            times[at] = min(times[at], times[at + 1])
        least[place] = offsets, times
    return [
        f"{one.source} said at {one.said_at} that nothing before {one.time_ms} is unsent: a record of {times[at]} "
        f"came to partition {partition} behind offset {one.offsets.get(partition, 0)}"
        for one in said
        for (source, partition), (offsets, times) in least.items()
        if source == one.source
        and (at := bisect_left(offsets, one.offsets.get(partition, 0))) < len(times)
        and times[at] < one.time_ms
    ]


def unsaid(epochs: Iterable[EpochRecord], said: Iterable[Said], settings: Settings) -> list[str]:
    """Describe clocks that do not have each gateway where it had said it is, by what the epochs before have read."""
    by_word: dict[tuple[str, int], list[Said]] = {}
    for one in said:
        by_word.setdefault((one.source, one.time_ms), []).append(one)
    read: dict[int, int] = {}
    before: dict[str, int | None] = {}
    found: list[str] = []
    for record in epochs:
        pinned = {} if record.clock is None else record.clock.sources
        released = () if record.clock is None else record.clock.released
        if not record.keeps_watermark and {*pinned} != {*settings.gateways}:
            found.append(f"epoch {record.epoch} waits for {sorted(pinned)}, registered are {sorted(settings.gateways)}")
        if len({*released} & {*pinned}) < len(released):
            found.append(f"epoch {record.epoch} let {list(released)} go, it waits for {sorted(pinned)}")
        for source, time_ms in pinned.items():
            words = [] if time_ms is None else by_word.get((source, time_ms), [])
            if time_ms is not None and not any(covers(one, read) for one in words):
                why = "not said yet by what was read" if words else "never said"
                found.append(f"epoch {record.epoch} has {source} at {time_ms}, which was {why}")
            if (known := before.get(source)) is not None and (time_ms is None or time_ms < known):
                found.append(f"epoch {record.epoch} has {source} at {time_ms}, after one that had it at {known}")
        before = pinned
        read_on(read, record, settings.topic)
    return found
