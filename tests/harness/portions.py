"""What a campaign sends, in portions: one for each fault, so that there are records to hit an epoch with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.harness.conditions import HOLD_MAX_MS, Conditions
from tests.harness.cut_sorts import CUT
from tests.harness.faults.campaign import PORTIONS_UNDONE
from tests.harness.lag_sorts import GATEWAY
from tests.harness.mixture import FLOWING
from tests.harness.schedule import Strike
from tests.harness.stall_sorts import UNFELT
from tests.harness.subject import Subject, from_file, seeded, unpaced
from tests.harness.workload.errors import InputError
from tests.harness.workload.gateways import GATEWAYS
from tests.harness.workload.pacing import Pace
from tests.harness.workload.record import Planned

# An epoch takes in 80 s of event time at most (the pacing): a portion holds more, so that a fault that waits when it
# begins finds an epoch. A seeded stream needs some minutes before its first late records.
PORTION_MINUTES, SPARE_PORTIONS, LEAST_PORTIONS = 2, 3, 6
LEAST_ROWS = 50
"""Of a portion of a file: every shard is to have some, so that it announces its steps."""
EPOCHS_A_PORTION = 2


def portions(strikes: Sequence[Strike]) -> int:
    """One a fault, some more where a fault is undone while records flow, and some to spare.

    A cut comes twice: it drops nothing where nobody just asks. So does a stall that the pipeline does not feel: it
    reads on, and there has to be an epoch afterwards.
    """
    tries = [*strikes, *(one for one in strikes if one.kind == CUT or one in UNFELT)]
    return len(tries) + PORTIONS_UNDONE * sum(one.kind in FLOWING for one in tries) + SPARE_PORTIONS


def seeded_for(seed: int, records: int, strikes: Sequence[Strike], payload_bytes: int = 0) -> Subject:
    """A seeded stream."""
    count = max(portions(strikes), LEAST_PORTIONS)
    minutes, portion = PORTION_MINUTES * count, max(1, records // count)
    return seeded(seed, records, minutes, portion=portion, payload_bytes=payload_bytes)


def sent_by(seed: int, records: int, strikes: Sequence[Strike], conditions: Conditions) -> Subject:
    """A seeded stream under conditions: in portions for faults, or at a rate."""
    payload_bytes, named = conditions.payload_bytes, {"records": str(records)}
    if conditions.rate is None:
        return replace(seeded_for(seed, records, strikes, payload_bytes), named=named)
    away = any(one.target == GATEWAY for one in strikes)
    if away and conditions.idle_ms is None:
        raise InputError("gateway-away needs --idle-ms: the time of a gateway is beside that of the partitions")
    if not away and conditions.hold_max_ms != HOLD_MAX_MS:
        raise InputError("--hold-max-ms needs gateway-away: without it no window waits for a gateway")
    gateways = GATEWAYS if away else ()
    found = unpaced(seed, records, conditions.rate, conditions.skew, payload_bytes=payload_bytes, gateways=gateways)
    return replace(found, named=named)


@dataclass(frozen=True)
class Rows:
    """Rows of a file as records of the pipeline's own: each as JSON; one that is none as it is, behind its number."""

    planned: Iterable[Planned]

    def __iter__(self) -> Iterator[Planned]:
        """From the first."""
        for one in self.planned:
            yield one if one.payload is None else replace(one, value=one.payload.encode())


def rows_of(path: Path, key: str, time: str, strikes: Sequence[Strike], settings: Mapping[str, Any]) -> Subject:
    """The rows of a file, which is read for that; see `in_portions`."""
    return in_portions(from_file(path, key, time), path, strikes, settings)


def in_portions(subject: Subject, path: Path, strikes: Sequence[Strike], settings: Mapping[str, Any]) -> Subject:
    """The rows of a file that was looked at.

    Args:
        subject: the file; see `tests.harness.subject.from_file`.
        path: of it.
        strikes: what is done.
        settings: of the pipeline: its `window_ms` and `lateness_ms`.

    Raises:
        InputError: it is too short for the faults.
    """
    count, rows = portions(strikes), subject.numbers.sent
    if rows < count * LEAST_ROWS:
        raise InputError(
            f"{path}: {rows:,} rows are too few for {len(strikes)} faults: each needs records to hit an epoch with, "
            f"{count} portions of {LEAST_ROWS} here; give {count * LEAST_ROWS:,} rows, or ask for fewer FAULTS"
        )
    portion = rows // count
    epoch_rows_max = max(portion // EPOCHS_A_PORTION, 1)
    lateness_ms = settings["lateness_ms"]
    # By number of records alone: which of them are late under the pipeline's own lateness is for the reference to say.
    pace = Pace(lateness_ms=lateness_ms, horizon_ms=None, max_outstanding=4 * epoch_rows_max)
    return replace(
        subject,
        says=f"{rows:,} rows of {path.name}, in portions of {portion:,}",
        source=Rows(subject.source),
        pace=pace,
        window_ms=settings["window_ms"],
        lateness_ms=lateness_ms,
        epoch_rows_max=epoch_rows_max,
        portion=portion,
    )
