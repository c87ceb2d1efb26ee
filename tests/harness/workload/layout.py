"""The skeleton of a seeded stream as arrays: which record stands where, at what time, copying which other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.harness.workload.errors import InputError
from tests.harness.workload.shape import Shape

Ints = npt.NDArray[np.int64]

FRESH, DUPLICATE, MALFORMED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Burst:
    """Late records sent together before position `at` of the stream.

    `times`: event times (ms) of records with ids of their own; `copies`: positions of accepted records sent again.
    """

    at: int
    times: Ints
    copies: Ints


@dataclass(frozen=True, slots=True)
class Layout:
    """Arrays over the positions of the stream without its bursts: code, event time (ms), position copied (or -1)."""

    codes: npt.NDArray[np.int8]
    times: Ints
    originals: Ints
    bursts: tuple[Burst, ...]


def lay_out(shape: Shape, rng: np.random.Generator) -> Layout:
    """Place every record of a stream; raises InputError when the span leaves no closed window for a late burst."""
    numbers = shape.numbers
    length = numbers.sent - numbers.late_sent
    codes = np.zeros(length, dtype=np.int8)
    # Position 0 stays fresh: it fixes the first event time, and every copy has something before it.
    unusual = 1 + rng.permutation(length - 1)[: numbers.duplicates_sent + numbers.malformed_sent]
    codes[unusual[: numbers.duplicates_sent]] = DUPLICATE
    codes[unusual[numbers.duplicates_sent :]] = MALFORMED

    base = shape.first_ms + np.arange(length, dtype=np.int64) * shape.span_ms // length
    times = np.maximum(base - _jitter(shape.pace.jitter_ms, length, rng), shape.first_ms)
    fresh = np.flatnonzero(codes == FRESH)
    high = np.maximum.accumulate(np.where(codes == FRESH, times, shape.first_ms))
    originals = np.full(length, -1, dtype=np.int64)
    copies = np.flatnonzero(codes == DUPLICATE)
    originals[copies] = _originals(shape, copies, fresh, times=times, high=high, rng=rng)
    return Layout(codes, times, originals, tuple(_bursts(shape, fresh, times, high, rng)))


def _jitter(limit_ms: int, length: int, rng: np.random.Generator) -> Ints:
    """Half of the records come in order, the others up to `limit_ms` behind, most of them by little."""
    behind = np.minimum(rng.exponential(limit_ms / 6, length), limit_ms) * (rng.random(length) < 0.5)
    return behind.astype(np.int64)


def _originals(shape: Shape, copies: Ints, fresh: Ints, *, times: Ints, high: Ints, rng: np.random.Generator) -> Ints:
    """Choose what each duplicate copies: mostly a near record, never one further behind than the jitter allows."""
    before = np.searchsorted(fresh, copies)
    near = rng.integers(1, min(64, shape.copy_within) + 1, copies.size)
    far = rng.integers(1, shape.copy_within + 1, copies.size)
    lag = np.where(rng.random(copies.size) < 0.7, near, far)
    while True:
        chosen = fresh[np.maximum(before - lag, 0)]
        # Two bounds: the pacer's (event time) and the promised one (records sent in between).
        behind = (high[copies] - times[chosen] > shape.pace.jitter_ms) | (copies - chosen > shape.copy_within)
        behind &= lag > 1
        if not behind.any():
            return chosen
        lag = np.where(behind, np.maximum(lag // 2, 1), lag)


def _bursts(shape: Shape, fresh: Ints, times: Ints, high: Ints, rng: np.random.Generator) -> list[Burst]:
    horizon, lateness = shape.pace.horizon_ms or 0, shape.pace.lateness_ms
    own = _shares(shape.late_own_count, len(shape.bursts))
    straddling = _shares(shape.straddling_count, len(shape.bursts))
    bursts = []
    for place, own_count, straddling_count in zip(sorted(shape.bursts), own, straddling, strict=True):
        if not own_count + straddling_count:
            continue
        at = min(int(place * times.size), times.size - 1)
        # Once all records before `at` are in declared epochs, the newest of them shares its epoch only with records at
        # most a horizon behind it, so the watermark has reached what came before those. A gate up to there is sure to
        # open without anything else being sent: the sender can simply wait.
        oldest = int(np.searchsorted(high, high[at - 1] - horizon))
        reached = int(high[oldest - 1]) if oldest else shape.first_ms
        closed_until = (reached - lateness) // shape.window_ms * shape.window_ms
        if closed_until <= shape.first_ms:
            raise InputError(
                f"workload setting bursts has {place} but no window is closed there for sure: with span_ms "
                f"{shape.span_ms}, lateness_ms {lateness} and horizon_ms {horizon} the watermark may still be at "
                f"{reached - shape.first_ms} ms of the stream; raise span_ms or move the burst back"
            )
        passed = fresh[(times[fresh] < closed_until) & (fresh < at)]
        bursts.append(
            Burst(
                at,
                rng.integers(shape.first_ms, closed_until, own_count, dtype=np.int64),
                rng.choice(passed, straddling_count, replace=passed.size < straddling_count),
            )
        )
    return bursts


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (part < total % parts) for part in range(parts)]
