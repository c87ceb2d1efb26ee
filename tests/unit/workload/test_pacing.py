"""The pacer: its limits, and the promise that no division into epochs makes a record in time late."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.harness.workload.errors import InputError
from tests.harness.workload.pacing import Outstanding, Pace, Pacer
from tests.harness.workload.record import Planned, is_late, partition_of
from tests.harness.workload.seeded import Seeded, closers
from tests.harness.workload.shape import Shape


def settle(pacer: Pacer, entry: Outstanding, partition: int, offset: int) -> None:
    pacer.acknowledge(entry, partition, offset)
    pacer.release({partition: offset + 1})


@pytest.fixture
def pacer() -> Pacer:
    return Pacer(Pace())


def test_the_horizon_is_counted_from_the_oldest_unsettled_record(pacer: Pacer) -> None:
    oldest, newer = pacer.begin(1_000), pacer.begin(50_000)
    assert (pacer.may_send(81_000), pacer.may_send(81_001)) == (True, False)
    settle(pacer, newer, 1, 0)
    assert not pacer.may_send(81_001), "a newer record settled first frees nothing"
    settle(pacer, oldest, 0, 0)
    assert pacer.may_send(10**9), "nothing outstanding admits any jump"


def test_an_acknowledgement_alone_frees_nothing(pacer: Pacer) -> None:
    pacer.acknowledge(pacer.begin(0), 2, 5)
    pacer.release({2: 5, 1: 99})
    assert not pacer.may_send(80_001)
    pacer.release({2: 6})
    assert pacer.outstanding == 0


def test_a_record_behind_counts_from_the_largest_time_before_it(pacer: Pacer) -> None:
    entry = pacer.begin(100_000)
    pacer.begin(80_000)
    settle(pacer, entry, 0, 0)
    assert (pacer.may_send(180_000), pacer.may_send(180_001)) == (True, False)


def test_records_that_never_move_the_watermark_neither_advance_nor_hide_the_horizon(pacer: Pacer) -> None:
    for at in (None, 0, None):
        pacer.begin(at)
    assert pacer.high_ms == 0
    assert [pacer.may_send(at) for at in (None, 80_000, 80_001)] == [True, True, False]


def test_max_outstanding_bounds_records_of_every_kind() -> None:
    pacer = Pacer(Pace(max_outstanding=3))
    entries = [pacer.begin(at) for at in (0, None, 1)]
    assert (pacer.may_send(1), pacer.may_send(None)) == (False, False)
    for _ in range(2):
        pacer.give_up(entries[1])
    assert pacer.outstanding == 2
    assert pacer.may_send(None)


def test_pacing_by_records_only_takes_any_order_of_times() -> None:
    pacer = Pacer(Pace(horizon_ms=None, max_outstanding=2))
    pacer.begin(10**12)
    assert (pacer.may_send(0), pacer.may_send(10**15)) == (True, True)
    pacer.begin(0)
    assert not pacer.may_send(0)


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"jitter_ms": 40_000}, "jitter_ms 40000 .* horizon_ms 80000 must be less than lateness_ms 120000"),
        ({"lateness_ms": 100_000}, "must be less than lateness_ms 100000"),
        ({"horizon_ms": -1}, "horizon_ms is -1"),
        ({"max_outstanding": 0}, "max_outstanding is 0"),
        ({"lateness_ms": -1, "horizon_ms": None}, "lateness_ms -1"),
    ],
)
def test_limits_that_could_make_records_late_are_refused(limits: dict[str, int | None], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Pace(**limits)  # type: ignore[arg-type]
    assert Pace(jitter_ms=39_999).horizon_ms == 80_000, "the last limits that keep records in time"


@dataclass
class Chain:
    """A log of four partitions and a chain that divides it into epochs at random, by the rules of the reference."""

    shape: Shape
    dice: random.Random
    log: list[list[Planned]] = field(default_factory=lambda: [[], [], [], []])
    ends: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    watermark: int | None = None
    highest: int | None = None
    judged: list[tuple[Planned, bool]] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    epochs: int = 0

    def declare(self, *, everything: bool) -> bool:
        """Pin the next epoch: anything from one record of one partition to all there is."""
        new = [self._end(partition, everything=everything) for partition in range(4)]
        if new == self.ends:
            return False
        self.watermark, self.epochs = self.highest, self.epochs + 1
        for partition, end in enumerate(new):
            for record in self.log[partition][self.ends[partition] : end]:
                self._judge(record)
        self.ends = new
        return True

    def _end(self, partition: int, *, everything: bool) -> int:
        start, high = self.ends[partition], len(self.log[partition])
        choice = self.dice.random()
        if everything or choice < 0.4:
            return high
        return start if choice < 0.7 else self.dice.randint(start, high)

    def _judge(self, record: Planned) -> None:
        if record.kind == "malformed":
            return
        assert record.event_time_ms is not None
        late = is_late(record.event_time_ms, self.watermark, self.shape.window_ms, self.shape.pace.lateness_ms)
        self.judged.append((record, late))
        if not late and record.id not in self.accepted:
            self.accepted.add(str(record.id))
            self.highest = max(self.highest or 0, record.event_time_ms)


def run(chain: Chain, pacer: Pacer, records: list[Planned]) -> None:
    """Send as the sender does, with acknowledgements and views of the chain that lag at random."""
    unacknowledged: list[tuple[Outstanding, int, int]] = []
    seen_watermark: int | None = None
    patience = 0.0

    def look() -> None:
        nonlocal seen_watermark
        while unacknowledged and chain.dice.random() < 0.9:
            pacer.acknowledge(*unacknowledged.pop(0))
        pacer.release(dict(enumerate(chain.ends)))
        seen_watermark = chain.watermark

    def may(record: Planned) -> bool:
        if record.kind == "closer" and pacer.outstanding:
            return False
        if not pacer.may_send(record.event_time_ms if record.moves_watermark else None):
            return False
        return record.gate is None or (seen_watermark is not None and seen_watermark >= record.gate)

    for record in records:
        idle = 0
        while not may(record):
            # The chain can only take what is there: if it has all, has shown it, and the sender waits, nobody moves.
            moved = chain.declare(everything=idle > 3)
            look()
            idle = 0 if moved and idle <= 3 else idle + 1
            assert idle < 50, f"record {record.n} ({record.kind}) waits for ever"
        partition = partition_of(record, 4)
        entry = pacer.begin(record.event_time_ms if record.moves_watermark else None)
        unacknowledged.append((entry, partition, len(chain.log[partition])))
        chain.log[partition].append(record)
        if chain.dice.random() < patience:
            chain.declare(everything=False)
            look()
        if chain.dice.random() < 0.01:
            patience = chain.dice.choice((0.0, 0.001, 0.02, 0.3))
    chain.declare(everything=True)


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    records=st.integers(100, 1_500),
    late=st.sampled_from((0.0, 0.01, 0.1)),
    limits=st.sampled_from(
        (
            Pace(),
            Pace(jitter_ms=0, horizon_ms=119_999),
            Pace(jitter_ms=59_999, horizon_ms=60_000),
            Pace(max_outstanding=7),
        )
    ),
)
def test_no_division_into_epochs_makes_a_record_in_time_late_or_a_late_one_timely(
    seed: int, records: int, late: float, limits: Pace
) -> None:
    shape = Shape(records=records, late=late, straddling=late / 4, duplicates=0.1, pace=limits)
    stream = list(Seeded(seed, shape))
    pacer, chain = Pacer(limits), Chain(shape, random.Random(seed))
    last = max(record.event_time_ms or 0 for record in stream if record.kind == "fresh")
    ends = closers(last, len(stream), shape.window_ms, limits.lateness_ms)
    run(chain, pacer, [*stream, *ends])
    assert len(chain.judged) == records + 2 - shape.numbers.malformed_sent
    wrong = [record for record, judged_late in chain.judged if judged_late != (record.kind == "late")]
    assert not wrong
    assert chain.watermark == ends[0].event_time_ms, "the epoch of the second closer has the watermark of the first"
    assert is_late(last, chain.watermark, shape.window_ms, limits.lateness_ms), "every window is closed"


def test_without_the_horizon_the_same_stream_does_get_late() -> None:
    shape = Shape(records=1_000, late=0, straddling=0)
    wrong = 0
    for seed in range(5):
        chain = Chain(shape, random.Random(seed))
        run(chain, Pacer(Pace(horizon_ms=None)), list(Seeded(seed, shape)))
        wrong += sum(late for _, late in chain.judged)
    assert wrong, "the property above would hold without a pacer: it proves nothing"
