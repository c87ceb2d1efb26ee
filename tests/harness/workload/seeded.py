"""The seeded workload: the same seed and shape give the same records, byte for byte."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from tests.harness.workload.errors import InputError
from tests.harness.workload.layout import DUPLICATE, FRESH, Burst, Layout, lay_out
from tests.harness.workload.record import (
    REASONS,
    Kind,
    Planned,
    Reason,
    copy_of,
    partition_of_user,
    well_formed,
    window_end,
)
from tests.harness.workload.shape import Numbers, Shape

Weights = npt.NDArray[np.floating[Any]]
_CHUNK = 16_384
SCRIPTS = {3: "-жук", 7: "-東京", 11: "-🦉", 15: '-"\\é'}
"""What names of users end with, by their number modulo 16: keys are text of any script."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """A seeded stream; iterate it as often as wanted, every pass yields the same records."""

    seed: int
    shape: Shape = field(default_factory=Shape)

    @property
    def numbers(self) -> Numbers:
        """Exact numbers of the stream, without generating it."""
        return self.shape.numbers

    def __iter__(self) -> Iterator[Planned]:
        """Yield the records in sending order, closers not included."""
        rng = np.random.default_rng(self.seed)
        return _Maker(self.shape, lay_out(self.shape, rng), rng).records()


def closers(
    last_event_time_ms: int, first_n: int, window_ms: int = 60_000, lateness_ms: int = 120_000
) -> tuple[Planned, Planned]:
    """Two records that close every window: same user and time, far ahead of `last_event_time_ms`, different ids.

    The first, once accepted, raises the watermark beyond all windows; the second starts the epoch that has this
    watermark. The sender sends each only when everything before it lies in a declared epoch, so the second is never in
    the epoch of the first. No watermark gate could say so: the new watermark is declared only with the second.
    """
    at = window_end(last_event_time_ms, window_ms) + lateness_ms + 2 * window_ms
    first, second = (
        well_formed(
            first_n + i, f"closer-{i + 1}", "closer", at, "closes every window before it", kind="closer", settled=True
        )
        for i in range(2)
    )
    return first, second


def in_every_partition(last: Planned, partitions: int) -> Iterator[Planned]:
    """Yield such a record for each partition, and one more: for pipelines whose time goes by partition.

    The one more is there for the epoch that has the watermark of all of them.
    """
    for number in range(partitions + 1):
        assert last.event_time_ms is not None
        names = (f"{last.user}-{one}" for one in itertools.count())
        user = next(one for one in names if partition_of_user(one, partitions) == number % partitions)
        yield well_formed(
            last.n + number,
            f"{last.id}-{number}",
            user,
            last.event_time_ms,
            last.payload or "",
            kind=last.kind,
            settled=True,
        )


def settler(last_event_time_ms: int, n: int) -> Planned:
    """Build a record that has windows closed which the records before it have ended, and moves time no further.

    It is sent when everything before it lies in a declared epoch: the epoch that reads it has the watermark of all.
    """
    what = "closes what ended before it"
    return well_formed(n, "closer-0", "closer", last_event_time_ms, what, kind="closer", settled=True)


class _Maker:
    """Fills the skeleton with users, ids and payloads, in sending order."""

    def __init__(self, shape: Shape, layout: Layout, rng: np.random.Generator) -> None:
        self.shape, self.layout, self.rng = shape, layout, rng
        self.n = 0
        numbers = rng.permutation(shape.users).tolist()
        ends = SCRIPTS if shape.scripts else {}
        self.users = [f"u{number:05d}{ends.get(number % 16, '')}" for number in numbers]
        self.shards = [partition_of_user(user, shape.partitions) for user in self.users]
        weights = np.arange(1, shape.users + 1) ** -shape.skew
        if shape.partition_skew is not None:
            weights *= _skew(weights, np.array(self.shards), shape.partition_skew)
        self.cumulated = np.cumsum(weights / weights.sum())[:-1]  # the last rank takes what rounding leaves
        self.sequences = [[0] * shape.partitions for _ in range(shape.producers)]
        burst_copies = [burst.copies.tolist() for burst in layout.bursts]
        self.copied = set(layout.originals.tolist()).union(*burst_copies)
        self.kept: dict[int, Planned] = {}

    def records(self) -> Iterator[Planned]:
        bursts = list(self.layout.bursts)
        for position, (code, event_time_ms, original, rank, noise) in enumerate(self._rows()):
            while bursts and bursts[0].at == position:
                yield from self._burst(bursts.pop(0))
            if code == FRESH:
                record = self._own(event_time_ms, rank, noise)
                if position in self.copied:
                    self.kept[position] = record
            elif code == DUPLICATE:
                record = copy_of(self.kept[original], self.n, "duplicate")
            else:
                record = _build_malformed(self.n, REASONS[noise % len(REASONS)], event_time_ms, self.users[rank], noise)
            yield record
            self.n += 1

    def _rows(self) -> Iterator[tuple[int, int, int, int, int]]:
        layout = self.layout
        for start in range(0, layout.codes.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            codes = layout.codes[part].tolist()
            times, originals = layout.times[part].tolist(), layout.originals[part].tolist()
            yield from zip(codes, times, originals, *self._draw(len(codes)), strict=True)

    def _draw(self, count: int) -> tuple[list[int], list[int]]:
        """Draw ranks of users and noise for payloads."""
        ranks = np.searchsorted(self.cumulated, self.rng.random(count), side="right")
        return ranks.tolist(), self.rng.integers(0, 2**62, count).tolist()

    def _own(self, event_time_ms: int, rank: int, noise: int, gate: int | None = None) -> Planned:
        """Build a record with the next id of its dense sequence."""
        producer, shard = self.n % self.shape.producers, self.shards[rank]
        sequence = self.sequences[producer][shard]
        self.sequences[producer][shard] += 1
        id_ = f"p{producer}-s{shard}-{sequence:06d}"
        payload = f'{noise:016x} | naïve ✓ "\\' if noise % 61 == 0 else f"{noise:016x}"
        payload = payload.ljust(self.shape.payload_bytes, ".")
        kind: Kind = "fresh" if gate is None else "late"
        return well_formed(self.n, id_, self.users[rank], event_time_ms, payload, kind=kind, gate=gate)

    def _burst(self, burst: Burst) -> Iterator[Planned]:
        times = burst.times.tolist()
        for event_time_ms, rank, noise in zip(times, *self._draw(len(times)), strict=True):
            yield self._own(event_time_ms, rank, noise, _gate(event_time_ms, self.shape))
            self.n += 1
        for accepted in burst.copies.tolist():
            yield copy_of(self.kept[accepted], self.n, "late", _gate(int(self.layout.times[accepted]), self.shape))
            self.n += 1


def _skew(weights: Weights, shards: npt.NDArray[np.int_], skew: float) -> Weights:
    """By what the weights of users are to be multiplied, so that the first partition has `skew` times another's."""
    sums = np.bincount(shards, weights=weights)
    if not sums.all():
        raise InputError("workload setting users is too low: a partition has none of them, and none can be skewed")
    shares = np.where(np.arange(sums.size) == 0, skew, 1.0) / sums
    return np.asarray(shares[shards])


def _gate(event_time_ms: int, shape: Shape) -> int:
    return window_end(event_time_ms, shape.window_ms) + shape.pace.lateness_ms


def _build_malformed(n: int, reason: Reason, event_time_ms: int, user: str, noise: int) -> Planned:
    """Build a record with exactly one fault, in one of several forms; its id is outside the dense sequences."""
    form = noise // len(REASONS) % 4
    fields: dict[str, object] = {
        "id": f"malformed-{n}",
        "user": user,
        "event_time_ms": event_time_ms,
        "payload": f"{noise:016x}",
        "crc": 0,
    }
    if reason == "not_json":
        whole = orjson.dumps(fields)
        value = (whole[: len(whole) // 2], b"plain text", b"\xff\xfe\x00\x80 not text", b"<event/>")[form]
        return Planned(n, None, None, None, None, None, "malformed", reason, None, value)
    if reason == "bad_time":
        fields["event_time_ms"] = ("yesterday", -1 - noise % 1_000_000, 17.5, None)[form]
        return Planned(
            n, f"malformed-{n}", user, None, None, None, "malformed", reason, user.encode(), orjson.dumps(fields)
        )
    absent = "id" if reason == "missing_id" else "user"
    if form % 2:
        fields[absent] = None
    else:
        del fields[absent]
    id_, owner = (None, user) if absent == "id" else (f"malformed-{n}", None)
    key = owner.encode() if owner else None
    return Planned(n, id_, owner, event_time_ms, None, None, "malformed", reason, key, orjson.dumps(fields))
