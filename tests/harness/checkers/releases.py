"""Releases of gateways: whether each had been silent for the bound, and whether somebody listened meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.harness.checkers.lags import LAGGARDS
from tests.harness.checkers.reference import NEVER
from tests.harness.checkers.statements import Said, covers, read_on
from tests.harness.evidence import EpochRecord

HEARD_WITHIN_MS = 10_000
"""What was said so long before is in the topic. Time in which the broker is away is no silence of a gateway."""


def too_early(
    epochs: Iterable[EpochRecord], said: Iterable[Said], events: Iterable[Mapping[str, Any]], hold_max_ms: int
) -> list[str]:
    """Describe releases that did not wait for the bound, counted from when the gateway had said what it said last."""
    events = [*events]
    began = min((one["t"] for one in events if (one["event"], one.get("state")) == ("driver", "started")), default=None)
    first: dict[tuple[str, int], int] = {}
    for one in said:
        first.setdefault((one.source, one.time_ms), one.said_at)
    declared, found = declared_at(events), []
    for record in epochs:
        clock, at = record.clock, declared.get(record.epoch)
        for source in clock.released if clock is not None and at is not None else ():
            assert clock is not None
            assert at is not None
            # Of who has said nothing, drivers count from when they began.
            last = first.get((source, time_ms)) if (time_ms := clock.sources.get(source)) is not None else began
            if last is not None and at - last < hold_max_ms:
                found.append(
                    f"epoch {record.epoch} let {source} go {at - last} ms after its last word, hold_max_ms is "
                    f"{hold_max_ms}"
                )
    return found


def unheard(
    epochs: Iterable[EpochRecord], said: Sequence[Said], events: Iterable[Mapping[str, Any]], topic: str
) -> list[str]:
    """Describe releases of gateways that had said more, of what was read by then: a driver that did not listen."""
    declared, read, before, found = declared_at(events), dict[int, int](), set[str](), list[str]()
    for record in epochs:
        clock, at = record.clock, declared.get(record.epoch)
        # Who was let go before stays so until a word of its is heard, and that may take an outage.
        new = {*clock.released} - before if clock is not None and at is not None else set()
        for source in sorted(new):
            assert clock is not None
            assert at is not None
            pinned = clock.sources.get(source)
            newer = [
                one
                for one in said
                if one.source == source
                and one.said_at + HEARD_WITHIN_MS <= at
                and (pinned is None or one.time_ms > pinned)
                and covers(one, read)
            ]
            if newer:
                found.append(f"epoch {record.epoch} let {source} go, which had said {newer[-1].time_ms} by then")
        before = before if clock is None else {*clock.released}
        read_on(read, record, topic)
    return found


def find_unheeded(
    epochs: Iterable[EpochRecord],
    said: Iterable[Said],
    events: Sequence[Mapping[str, Any]],
    read: Mapping[int, int],
    hold_max_ms: int,
) -> list[str]:
    """Describe epochs that went on without a gateway that was back: it had said a later time, and was to be heard.

    An epoch is pinned after all that it reads was sent (`read`), and a word that the broker had by then was in the
    topic. From that word on the gateway has the bound once more, whether what it speaks of was read or not. Where a
    server was struck meanwhile its driver may not have been able to hear it.
    """
    later = later_words(said)
    declared, found = declared_at(events), []
    for record in epochs:
        clock, at = record.clock, declared.get(record.epoch)
        if clock is None or at is None or record.keeps_watermark:
            continue
        for source in clock.released:
            words = [
                one
                for one in later.get(source, ())
                if one.delivered_at is not None and one.delivered_at < read.get(record.epoch, 0)
            ]
            if words and at - words[-1].said_at < hold_max_ms and not was_struck(events, words[-1].said_at, at):
                back_ms = at - words[-1].said_at
                found.append(
                    f"epoch {record.epoch} went on without {source}, which was back {back_ms} ms before: it had said "
                    f"{words[-1].time_ms}"
                )
    return found


def last_sent(epochs: Iterable[EpochRecord], epochs_of: Sequence[int], sent_at: Sequence[int]) -> dict[int, int]:
    """Return epoch -> the last `sent_at` (ms) of what it and those before it have read: it was declared later."""
    newest: dict[int, int] = {}
    for epoch, at in zip(epochs_of, sent_at, strict=True):
        if epoch != NEVER:
            newest[epoch] = max(at, newest.get(epoch, at))
    found, last = {}, 0
    for record in epochs:
        found[record.epoch] = last = max(last, newest.get(record.epoch, 0))
    return found


def later_words(said: Iterable[Said]) -> dict[str, list[Said]]:
    """Words by gateway that name a later time than all before: others show nothing of whether it gets on."""
    found: dict[str, list[Said]] = {}
    for one in said:
        words = found.setdefault(one.source, [])
        if not words or one.time_ms > words[-1].time_ms:
            words.append(one)
    return found


def was_struck(events: Iterable[Mapping[str, Any]], since: int, until: int) -> bool:
    """Whether a server or a driver was struck between two moments, or still had to do with what came before."""
    return any(
        event["event"] == "fault"
        and event.get("target") not in LAGGARDS
        and (at := event.get("injected_at", event["t"])) <= until
        and since <= (event.get("healed_at") or at) + HEARD_WITHIN_MS
        for event in events
    )


def declared_at(events: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """When epochs were first declared, by the harness's clock: a driver's may have been stepped.

    It reads an announcement after the pin.
    """
    declared: dict[int, int] = {}
    for event in events:
        if event["event"] == "epoch" and event.get("state") == "declared":
            declared.setdefault(event.get("epoch", -1), event["t"])
    return declared
