"""What a run sends: a seeded stream, or a user's own file. One face, so that everything after it is the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.spread import PARTITIONS
from tests.harness.workload import file_input
from tests.harness.workload.bounds import EXTRA, Bounded
from tests.harness.workload.errors import InputError
from tests.harness.workload.held_back import HeldBack
from tests.harness.workload.pacing import Pace
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.shape import SMALLEST, Numbers, Shape

SLACK_MS = 60_000
PLACES = (0.5,)
"""Of the bounds in a seeded stream, as fractions of its span. Each is four epochs that wait for one another."""
SPEED = 15
"""Seconds of event time in a second of an unpaced stream."""
BURSTS = (0.3, 0.45, 0.6, 0.7)
"""Of late records in an unpaced stream: what is sent after them moves time on beyond their gates."""


@dataclass(frozen=True)
class Subject:
    """Records to send, and the settings that go with them.

    Attributes:
        kind: `seeded` or `file`.
        says: one line for the console.
        epoch_rows_max: rows an epoch reads at most.
        fault_gates: first epoch and spacing of the kills.
        named: what the manifest says beside the numbers.
        payload_bytes: of each record, at least.
        portion: records after which the sender waits until a fault waits for its step; 0: never.
        rate: records/s that are sent whatever the chain does; None: the chain holds the sender back (`pace`).
        held: partitions and gateways whose records an unpaced sender keeps back.
        gateways: registered sources that the records come from.
        disorder_ms: by how much a record in time may be behind another one of an unpaced stream.
    """

    kind: str
    says: str
    numbers: Numbers
    pace: Pace
    source: Iterable[Planned]
    window_ms: int = 60_000
    lateness_ms: int = 120_000
    epoch_rows_max: int = 24_000
    fault_gates: dict[str, int] = field(default_factory=dict)
    named: dict[str, Any] = field(default_factory=dict)
    payload_bytes: int = 0
    portion: int = 0
    rate: float | None = None
    held: HeldBack = field(default_factory=HeldBack)
    gateways: tuple[str, ...] = ()
    disorder_ms: int = 0

    def records(self) -> Iterable[Planned]:
        """The records, from the first; may be asked for again and gives the same bytes."""
        return self.source


def seeded(
    seed: int,
    records: int,
    minutes: int = 12,
    portion: int = 0,
    *,
    payload_bytes: int = 0,
    places: tuple[float, ...] = PLACES,
) -> Subject:
    """A seeded stream of `records` records over some minutes of event time.

    The pacing lets 80 s of event time be on its way: 200,000 records over 12 minutes make epochs of some 20,000 rows.
    """
    # Records at the bounds are among those that were asked for.
    extra = EXTRA * len(places)
    if records < SMALLEST + extra:
        raise InputError(f"{records} records: a seeded stream has {SMALLEST + extra} or more")
    shape = Shape(records=records - extra, span_ms=minutes * 60_000, payload_bytes=payload_bytes, scripts=True)
    stream = Bounded(Seeded(seed, shape), places)
    n = stream.numbers
    says = (
        f"{n.sent:,} records ({n.duplicates_sent:,} duplicates, {n.late_sent:,} late, {n.malformed_sent:,} malformed), "
        f"{shape.users:,} users, {shape.span_ms // 60_000} minutes"
    )
    return Subject(
        "seeded",
        says,
        n,
        shape.pace,
        stream,
        shape.window_ms,
        shape.pace.lateness_ms,
        portion=portion,
        payload_bytes=payload_bytes,
    )


def unpaced(
    seed: int,
    records: int,
    rate: float,
    skew: float | None = None,
    *,
    payload_bytes: int = 0,
    gateways: tuple[str, ...] = (),
) -> Subject:
    """A seeded stream that goes on through outages, for a pipeline whose time goes by partition.

    Its time goes SPEED times as fast as the clock, so that 40 s of outage are ten minutes. No record lies at a bound:
    there a watermark is known to the millisecond only where one record alone makes it.

    Args:
        seed: draws.
        records: how many.
        rate: records/s.
        skew: the first partition gets so many times the records of each other one; None: as users fall.
        payload_bytes: of each record, at least.
        gateways: registered sources that the records come from.
    """
    if rate <= 0:
        raise InputError(f"rate is {rate:g} records/s: it must be more than 0")
    # A partition's records are in time whatever the others do, as long as their own disorder is within the lateness.
    pace = Pace(jitter_ms=110_000, horizon_ms=5_000)
    shape = Shape(
        records=records,
        span_ms=int(1000 * SPEED * records / rate),
        payload_bytes=payload_bytes,
        scripts=True,
        partitions=PARTITIONS,
        partition_skew=skew,
        bursts=BURSTS,
        pace=pace,
    )
    stream = Seeded(seed, shape)
    n = stream.numbers
    says = (
        f"{n.sent:,} records ({n.duplicates_sent:,} duplicates, {n.late_sent:,} late, {n.malformed_sent:,} malformed), "
        f"{rate:g} a second whatever the pipeline does, {shape.span_ms // 60_000} minutes in {records / rate:.0f} s"
    )
    unbounded = Pace(lateness_ms=pace.lateness_ms, horizon_ms=None, max_outstanding=records + 1_000_000)
    return Subject(
        "seeded",
        says,
        n,
        unbounded,
        stream,
        shape.window_ms,
        pace.lateness_ms,
        payload_bytes=payload_bytes,
        rate=rate,
        gateways=gateways,
        disorder_ms=pace.jitter_ms,
    )


def from_file(path: Path, key: str, time: str, epochs: int = 12) -> Subject:
    """A user's own events; the allowed lateness covers the file's disorder, so that no row is late.

    Raises:
        InputError: the file, its format or its columns are not what was said.
    """
    survey = file_input.survey(path, key, time)
    if not survey.usable:
        raise InputError(
            f"{path}: none of its {survey.rows:,} rows can be counted ({survey.broken:,} broken, "
            f"{survey.missing_keys:,} without {key!r}, {survey.bad_times:,} without a usable {time!r}): "
            "check KEY and TIME"
        )
    lateness_ms = survey.disorder_ms + SLACK_MS
    # Some epochs are needed for kills to hit; big files get big epochs.
    epoch_rows_max = min(max(survey.rows // epochs, 1), 200_000)
    says = (
        f"{survey.rows:,} rows of {path.name} ({survey.broken:,} broken, {survey.missing_keys:,} without key, "
        f"{survey.bad_times:,} without a usable time); rows are out of order by up to "
        f"{survey.disorder_ms / 1000:,.0f} s, allowed lateness is set to {lateness_ms / 1000:,.0f} s"
    )
    pace = Pace(lateness_ms=lateness_ms, horizon_ms=None, max_outstanding=4 * epoch_rows_max)
    return Subject(
        "file",
        says,
        survey.numbers,
        pace,
        file_input.FileInput(path, key, time),
        lateness_ms=lateness_ms,
        epoch_rows_max=epoch_rows_max,
        fault_gates={"first_epoch": 0, "spacing": 0},
        named={"input": path.name, "key": key, "time": time},
    )
