"""Lag: no record that was acknowledged before the certificate of its window is refused as late.

Asked of runs whose sender went on through the outages (`rate`). The certificate of a window is the epoch that closed
it, so what was acknowledged before that epoch was declared has to be counted. Two moments are known to lie before it:

- the last `sent_at` of what it, and the epochs before it, have read: who reads a record declares after it was sent.
  That is told by the sender's clock alone;
- its first announcement, where no earlier driver may have declared it, by the earlier of the two clocks that date it.
  Not asked of a partition that the epoch pins as idle: who was not waited for may come between the pin and the
  declaration.

A record of a source that the certificate names as released is not asked for: oracle *certificates* judges whether that
source had to be let go. Nor is one of a source that was too far behind for what shards may hold. Which partitions were
so is not found out here: a run in which a record without a gateway was refused there is unknown. Where it is not known
who had a record, it may be any that was released.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.harness.checkers.case import Case, refute, source_of
from tests.harness.checkers.certificates import let_go
from tests.harness.checkers.reference import Outcome, Reference, window_start
from tests.harness.checkers.releases import last_sent
from tests.harness.evidence import EpochRecord, Settings
from tests.harness.results import Oracle, Verdict
from tests.harness.sends import Send

NAME, NUMBER = "in time", 0
ON_PURPOSE = ("late", "resent")
"""Kinds that are sent once the chain shows that their window is closed, perhaps before the driver has announced it."""


@dataclass(frozen=True)
class Seal:
    """An epoch as what closes windows.

    Attributes:
        record: of the chain.
        read_ms: the last `sent_at` of what it and the epochs before it have read.
        announced_ms: when it was first announced; None where that may have been after its declaration.
    """

    record: EpochRecord
    read_ms: int
    announced_ms: int | None

    def is_after(self, send: Send, acked_ms: int) -> bool:
        """Whether it was declared after a record was acknowledged."""
        clock = self.record.clock
        if clock is not None and send.gateway is not None and not clock.waits_for(send.gateway):
            # Its records may even be read by this epoch: it is waited for once its word is heard, which comes later.
            return False
        if self.is_unsure_of(send):
            return False
        if acked_ms < self.read_ms:
            return True
        # The word of a gateway holds time for idle partitions too.
        excused = (
            clock is not None
            and send.gateway is None
            and (clock.released or send.partition in clock.idle.get(send.topic, ()))
        )
        if self.announced_ms is None or excused or send.kind in ON_PURPOSE:
            return False
        return acked_ms < self.announced_ms

    def is_unsure_of(self, send: Send) -> bool:
        """Whether its partition may have been left behind, with all that lay there unread.

        Of who has a gateway that is known to be waited for, all was read before the gateway's word counted.
        """
        if self.record.clock is None or send.gateway is not None or send.kind in ON_PURPOSE:
            return False
        return self.record.clock.is_forced


def announcements(events: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Return epoch -> when it was first announced, where that announcement is of no repeat."""
    first: dict[int, int | None] = {}
    for event in events:
        if event["event"] == "epoch" and event.get("state") == "declared" and type(event.get("epoch")) is int:
            told = event.get("told_t")
            at = min(event["t"], told) if type(told) is int else event["t"]
            first.setdefault(event["epoch"], None if event.get("repeat") is True else at)
    return {epoch: at for epoch, at in first.items() if at is not None}


def seals(
    epochs: Sequence[EpochRecord], epochs_of: Sequence[int], sent_at: Sequence[int], announced: Mapping[int, int]
) -> list[Seal]:
    """Return the epochs that have a watermark, in their order."""
    read = last_sent(epochs, epochs_of, sent_at)
    return [
        Seal(record, read[record.epoch], announced.get(record.epoch))
        for record in epochs
        if record.watermark_ms is not None
    ]


def find_refused(
    sends: Sequence[Send], reference: Reference, acked_at: Sequence[int], closing: Sequence[Seal], settings: Settings
) -> list[str]:
    """Describe the records that were refused as late, and acknowledged before their window was closed."""
    return [
        f"id {send.id} at {source_of(send)}, acknowledged at {acked_at[index]}, was refused: epoch "
        f"{seal.record.epoch} closed its window {start}, and was declared later"
        for index, send, start, seal in _refused(sends, reference, closing, settings)
        if seal.is_after(send, acked_at[index])
    ]


def count_unsure(sends: Sequence[Send], reference: Reference, closing: Sequence[Seal], settings: Settings) -> int:
    """Return how many records were refused of which nobody knows whether their partition was waited for."""
    refused = _refused(sends, reference, closing, settings)
    return sum(seal.is_unsure_of(send) for _, send, _, seal in refused)


def _refused(
    sends: Sequence[Send], reference: Reference, closing: Sequence[Seal], settings: Settings
) -> Iterator[tuple[int, Send, int, Seal]]:
    """Yield index, record, window and who closed it of all that were refused as late."""
    span, watermarks = settings.window_ms + settings.lateness_ms, [seal.record.watermark_ms or 0 for seal in closing]
    for index, send in enumerate(sends):
        if reference.outcomes[index] == Outcome.LATE and send.event_time_ms is not None:
            start = window_start(send.event_time_ms, settings.window_ms)
            yield index, send, start, closing[bisect_left(watermarks, start + span)]


def count_kept_by_partition(sends: Sequence[Send], reference: Reference, settings: Settings) -> int:
    """Return how many accepted records the largest event time seen anywhere would have refused."""
    span, reached, found = settings.window_ms + settings.lateness_ms, -1, 0
    by_epoch: dict[int, list[int]] = {}
    for index in reference.accepted.values():
        by_epoch.setdefault(reference.epochs_of[index], []).append(sends[index].event_time_ms or 0)
    for _, times in sorted(by_epoch.items()):
        found += sum(window_start(time, settings.window_ms) + span <= reached for time in times)
        reached = max(reached, *times)
    return found


def judge(case: Case) -> Oracle:
    """Judge it; raises EvidenceError."""
    sends, reference, settings = case.sends, case.reference, case.manifest.settings
    closing = seals(case.chain.pinned, reference.epochs_of, case.sent_at, announcements(case.events))
    found = find_refused(sends, reference, case.acked_at, closing, settings)
    late = sum(outcome == Outcome.LATE for outcome in reference.outcomes)
    if found:
        says = f"{len(found)} records were refused that were acknowledged before their window's certificate"
        return refute(NAME, NUMBER, says, found)
    if unsure := count_unsure(sends, reference, closing, settings):
        says = (
            f"too much was held, so that epochs went on without who was behind; of {unsure} records that were refused "
            "it is not known whether their partition was"
        )
        return Oracle(name=NAME, number=NUMBER, verdict=Verdict.UNKNOWN, says=says)
    kept = count_kept_by_partition(sends, reference, settings)
    gone = len(let_go(case))
    if not kept and not gone:
        says = "nothing lagged: the largest event time seen anywhere would have refused no record either"
        return Oracle(name=NAME, number=NUMBER, verdict=Verdict.UNKNOWN, says=says)
    says = (
        f"all {late - gone} records that were refused were acknowledged after their window's certificate; the largest "
        f"event time seen anywhere would have refused {kept} more"
    )
    if gone:
        says += f". {gone} others are of gateways that had been let go, as their certificates say"
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)
