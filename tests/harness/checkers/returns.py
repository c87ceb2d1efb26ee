"""Returns of gateways: what was acknowledged between a gateway's return and the first word that was heard of it.

Nobody can wait for a gateway that has said nothing yet. So what it sends at once may be refused although it was
acknowledged before its window was closed, and the certificate of that window names it. How many records that were is
told. That it was soon over is demanded of the gateways: else any refusal might be theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.harness.checkers.away import APART_MS
from tests.harness.checkers.backlog import first_publications
from tests.harness.checkers.releases import later_words, was_struck
from tests.harness.checkers.statements import Said
from tests.harness.evidence import EpochRecord
from tests.harness.lag_sorts import GATEWAY
from tests.harness.sends import Send

SPEAKS_WITHIN_MS = 10_000
"""A gateway says twice a second how far it is, and what it had kept back is acknowledged within some seconds."""


def silent(events: Sequence[Mapping[str, Any]], said: Iterable[Said]) -> Iterator[str]:
    """Describe gateways that were back, and named no later time for long; not where a server or driver was struck."""
    later = later_words(said)
    for fault in events:
        back = fault.get("healed_at")
        if fault["event"] != "fault" or fault.get("target") != GATEWAY or not fault.get("hit") or type(back) is not int:
            continue
        name = str(fault.get("process_before")).removeprefix(f"{GATEWAY} ")
        spoke = next((one.said_at for one in later.get(name, ()) if one.said_at >= back - APART_MS), None)
        if spoke is None:
            yield f"{name} was back at {back}, and never said again how far it is"
        elif spoke - back > SPEAKS_WITHIN_MS and not was_struck(events, back, spoke):
            yield f"{name} was back at {back}, and said how far it is {spoke - back} ms later"


def before_certificate(
    refused: Iterable[tuple[int, EpochRecord]],
    sends: Sequence[Send],
    acked_at: Sequence[int],
    read: Mapping[int, int],
    events: Sequence[Mapping[str, Any]],
) -> Counter[str]:
    """Count refused records, by gateway, that were acknowledged before the epoch that closed their window was pinned.

    Args:
        refused: places of records of gateways that were let go, and that epoch.
        sends: all of them.
        acked_at: of each.
        read: the last moment at which something was sent that an epoch, or one before it, has read.
        events: an epoch is pinned after the one before it was published.
    """
    published = first_publications(events)
    return Counter(
        str(sends[index].gateway)
        for index, epoch in refused
        if acked_at[index] < max(read.get(epoch.epoch, 0), published.get(epoch.epoch - 1, 0))
    )
