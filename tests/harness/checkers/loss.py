"""Input that the chain gave up: offsets that the topic lost before an epoch had read them (`accept-loss`).

What a record of the chain says of it is believed where it fits: it begins where the epoch before ends, and the epoch's
ranges begin where it ends. Any other gap is a break of the chain. It is never told as exact coverage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.harness.evidence import EpochRecord

Partition = tuple[str, int]
Span = tuple[int, int]


def spans_of(record: EpochRecord) -> dict[Partition, Span]:
    """Return what an epoch gives up, by topic and partition."""
    offsets = record.lost.offsets if record.lost is not None else {}
    return {(topic, partition): span for topic, parts in offsets.items() for partition, span in parts.items()}


def spans(epochs: Iterable[EpochRecord]) -> Iterator[tuple[Partition, Span]]:
    """Yield what all epochs give up."""
    for record in epochs:
        yield from spans_of(record).items()


def holds(given_up: Iterable[tuple[Partition, Span]], coordinate: tuple[str, int, int]) -> bool:
    """Whether a record lay in what was given up."""
    topic, partition, offset = coordinate
    return any(place == (topic, partition) and start <= offset < end for place, (start, end) in given_up)


def sentence(epochs: Iterable[EpochRecord], records: int) -> str:
    """Say what was given up; empty where nothing was.

    Args:
        epochs: of the chain.
        records: how many acknowledged records lay in it.
    """
    gave_up = [record for record in epochs if record.lost is not None]
    if not gave_up:
        return ""
    offsets = sum(end - start for _, (start, end) in spans(gave_up))
    numbers = ", ".join(str(record.epoch) for record in gave_up)
    return f"{offsets} offsets with {records} acknowledged records were lost, which epoch {numbers} accepted"
