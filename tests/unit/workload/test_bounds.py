"""Records at the bounds: the reference of the judge finds each 1 ms before, at or after the moment that it is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.harness.checkers.reference import Outcome, Reference, replay
from tests.harness.evidence import EpochRecord
from tests.harness.sends import Send
from tests.harness.subject import seeded
from tests.harness.workload.bounds import COPIES, OTHERS, Bounded
from tests.harness.workload.pacing import Pacer
from tests.harness.workload.record import Planned, partition_of, window_end
from tests.harness.workload.seeded import Seeded, closers
from tests.harness.workload.shape import Shape
from tests.unit.harness.epochs import record_of

SHAPE = Shape(records=6_000, span_ms=12 * 60_000)
WINDOW_MS, LATENESS_MS, PARTITIONS = SHAPE.window_ms, SHAPE.pace.lateness_ms, 4
PLACES = (0.5, 0.85)


@pytest.fixture(scope="module", params=[1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (7, 4242))])
def stream(request: pytest.FixtureRequest) -> Bounded:
    return Bounded(Seeded(request.param, SHAPE), PLACES)


def test_the_numbers_are_exact_and_the_seed_alone_decides(stream: Bounded) -> None:
    records, numbers = list(stream), stream.numbers
    kinds = Counter(record.kind for record in records)
    assert [record.n for record in records] == list(range(numbers.sent))
    assert (kinds["duplicate"], kinds["late"], kinds["malformed"]) == (
        numbers.duplicates_sent,
        numbers.late_sent,
        numbers.malformed_sent,
    )
    assert records == list(stream)
    assert len({record.id for record in records if record.kind == "fresh"}) == kinds["fresh"]


@pytest.mark.parametrize("records", [228, 1_000, 5_000])
def test_a_subject_sends_as_many_records_as_it_was_asked_for(records: int) -> None:
    subject = seeded(3, records)
    sent, numbers = list(subject.records()), subject.numbers
    kinds = Counter(record.kind for record in sent)
    assert len(sent) == numbers.sent == records
    assert (kinds["late"], kinds["malformed"]) == (numbers.late_sent, numbers.malformed_sent)
    assert [record.value for record in sent] == [record.value for record in seeded(3, records).records()]


@pytest.mark.parametrize("horizon", ["small", "large"])
def test_the_reference_decides_each_at_its_moment(stream: Bounded, horizon: str) -> None:
    """However epochs fall, as long as the sender waits where it has to."""
    sends, epochs = played(stream, every=150 if horizon == "small" else 600)
    found = replay(sends, epochs, WINDOW_MS, LATENESS_MS)
    assert not kinds_beside(sends, found)
    margins = list(margins_of(sends, epochs, found))
    for moment in stream.moments:
        at_bound = {
            (margin, outcome)
            for send, margin, outcome in margins
            if send.event_time_ms is not None and window_end(send.event_time_ms, WINDOW_MS) + LATENESS_MS == moment
        }
        assert {(-1, Outcome.ACCEPTED), (-1, Outcome.DUPLICATE), (0, Outcome.LATE), (1, Outcome.LATE)} <= at_bound


def test_copies_are_of_every_window_that_is_open_and_some_of_another_user(stream: Bounded) -> None:
    records = list(stream)
    first = {record.id: record for record in reversed(records) if record.kind == "fresh"}
    pin = next(at for at, record in enumerate(records) if record.settled)
    copies = [record for record in records[pin : pin + COPIES + 3] if record.kind == "duplicate"]
    windows = {window_end(record.event_time_ms or 0, WINDOW_MS) for record in copies}
    assert len(windows) == (WINDOW_MS + LATENESS_MS) // WINDOW_MS
    assert sum(first[record.id].user != record.user for record in copies) == OTHERS
    assert len(copies) == COPIES


def test_a_record_that_is_refused_is_far_ahead_of_all(stream: Bounded) -> None:
    ahead = [record for record in stream if record.kind == "malformed" and str(record.id).endswith("-ahead")]
    high = max(record.event_time_ms or 0 for record in stream if record.kind == "fresh")
    assert len(ahead) == len(PLACES)
    assert all((record.event_time_ms or 0) > high for record in ahead)


def played(stream: Bounded, every: int) -> tuple[list[Send], list[EpochRecord]]:
    """Send what the pacer allows; an epoch takes all there is after so many records, and when one has to wait."""
    pacer, sends, ends = Pacer(SHAPE.pace), list[Send](), [0] * PARTITIONS
    taken, epochs, high = list(ends), list[EpochRecord](), None

    def epoch() -> None:
        nonlocal taken, high
        ranges = {"events": {number: (taken[number], ends[number]) for number in range(PARTITIONS)}}
        epochs.append(record_of(len(epochs), high, ranges=ranges, shards=2))
        taken = list(ends)
        pacer.release(dict(enumerate(ends)))
        due = replay(sends, epochs, WINDOW_MS, LATENESS_MS).numbers[-1]
        newest = [time for time in (high, due.max_event_time_ms) if time is not None]
        high = max(newest, default=None)

    for record in (*stream, *last(stream)):
        moving = record.event_time_ms if record.moves_watermark else None
        while not pacer.may_send(moving) or (record.settled and pacer.outstanding):
            epoch()
        while record.gate is not None and (high or 0) < record.gate:
            epoch()
        entry, number = pacer.begin(moving), partition_of(record, PARTITIONS)
        sends.append(send_of(record, number, ends[number]))
        pacer.acknowledge(entry, number, ends[number])
        ends[number] += 1
        if len(sends) % every == 0:
            epoch()
    epoch()
    return sends, epochs


def last(stream: Bounded) -> tuple[Planned, ...]:
    latest = max(record.event_time_ms or 0 for record in stream if record.moves_watermark)
    return closers(latest, stream.numbers.sent, WINDOW_MS, LATENESS_MS)


def send_of(record: Planned, partition: int, offset: int) -> Send:
    at = ("events", partition, offset)
    return Send(record.id, record.user, record.event_time_ms, record.crc, record.kind, record.reason, *at)


def margins_of(sends: list[Send], epochs: list[EpochRecord], found: Reference) -> Iterator[tuple[Send, int, Outcome]]:
    """By how much (ms) the watermark was beyond what a record's window allows."""
    watermarks = {one.epoch: one.watermark_ms for one in epochs}
    for index, send in enumerate(sends):
        watermark = watermarks[found.epochs_of[index]]
        if watermark is not None and send.event_time_ms is not None and send.reason is None:
            bound = window_end(send.event_time_ms, WINDOW_MS) + LATENESS_MS
            yield send, watermark - bound, Outcome(found.outcomes[index])


def kinds_beside(sends: list[Send], found: Reference) -> list[tuple[str | None, str, str]]:
    """Sends that are decided otherwise than their kind says."""
    due = {
        "fresh": Outcome.ACCEPTED,
        "duplicate": Outcome.DUPLICATE,
        "late": Outcome.LATE,
        "closer": Outcome.ACCEPTED,
        "malformed": Outcome.MALFORMED,
    }
    return [
        (send.id, send.kind, Outcome(found.outcomes[index]).name)
        for index, send in enumerate(sends)
        if found.outcomes[index] != due[send.kind]
    ]
