"""Releases of gateways: whether each had been silent for the bound, and whether somebody listened meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.harness.checkers.statements import Said, covered, read_on
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
    declared, found = _declared(events), []
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
    declared, read, before, found = _declared(events), dict[int, int](), set[str](), list[str]()
    for record in epochs:
        clock, at = record.clock, declared.get(record.epoch)
        # Who was let go before stays so until a word of its is heard, and that may take an outage.
        new = {*clock.released} - before if clock is not None and at is not None else set()
        for source in sorted(new):
            assert clock is not None
            assert at is not None
            pinned = clock.sources.get(source)
            newer = [
                one for one in said
                if one.source == source and one.said_at + HEARD_WITHIN_MS <= at
                and (pinned is None or one.time_ms > pinned) and covered(one, read)
            ]  # fmt: skip
            if newer:
                found.append(f"epoch {record.epoch} let {source} go, which had said {newer[-1].time_ms} by then")
        before = before if clock is None else {*clock.released}
        read_on(read, record, topic)
    return found


def _declared(events: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """When epochs were first declared, by the harness's clock: a driver's may have been stepped.

    It reads an announcement after the pin.
    """
    declared: dict[int, int] = {}
    for event in events:
        if event["event"] == "epoch" and event.get("state") == "declared":
            declared.setdefault(event.get("epoch", -1), event["t"])
    return declared
