"""The reference and the digest, on cases small enough to work out by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.harness.checkers import digest
from tests.harness.checkers.reference import NEVER, Outcome, replay
from tests.harness.evidence import Chain, Clock, EpochRecord, Lost, Pin, Pinned
from tests.harness.sends import Send
from tests.unit.harness.epochs import record_of

WINDOW_MS, LATENESS_MS = 100, 50


def send(
    id_: str, time: int, offset: int, *, partition: int = 0, kind: str = "fresh", reason: str | None = None
) -> Send:
    return Send(id_, "u", time, 0, kind, reason, "events", partition, offset)


def epoch(number: int, watermark_ms: int | None, **ranges: tuple[int, int]) -> EpochRecord:
    read = {int(partition[1:]): cut for partition, cut in ranges.items()}
    return record_of(number, watermark_ms, ranges={"events": read}, topic_ids={"events": "t"})


def changed(record: EpochRecord, **fields: Any) -> EpochRecord:
    return record.model_copy(update=fields)


ACCEPTED, DUPLICATE, LATE, MALFORMED, LOST = (
    Outcome.ACCEPTED,
    Outcome.DUPLICATE,
    Outcome.LATE,
    Outcome.MALFORMED,
    Outcome.LOST,
)
OUTCOMES: dict[str, tuple[list[Send], list[EpochRecord], list[Outcome]]] = {
    "the lowest coordinate of an epoch wins": (
        [send("a", 1, 0, partition=1), send("a", 1, 5), send("a", 1, 4)],
        [epoch(0, None, p0=(0, 6), p1=(0, 1))],
        [DUPLICATE, DUPLICATE, ACCEPTED],
    ),
    "partitions are ordered as numbers": (
        [send("a", 1, 0, partition=10), send("a", 1, 0, partition=9)],
        [epoch(0, None, p9=(0, 1), p10=(0, 1))],
        [DUPLICATE, ACCEPTED],
    ),
    "an earlier epoch wins over a lower partition": (
        [send("a", 1, 0), send("a", 1, 0, partition=1)],
        [epoch(0, None, p0=(0, 0), p1=(0, 1)), epoch(1, 1, p0=(0, 1), p1=(1, 1))],
        [DUPLICATE, ACCEPTED],
    ),
    "in time until the watermark": ([send("a", 99, 0)], [epoch(0, 149, p0=(0, 1))], [ACCEPTED]),
    "reaches window end plus lateness": ([send("a", 99, 0)], [epoch(0, 150, p0=(0, 1))], [LATE]),
    "late comes before duplicate, and malformed before late": (
        [send("a", 1, 0), send("a", 1, 1, kind="resent"), send("b", 1, 2, kind="resent", reason="bad_time")],
        [epoch(0, None, p0=(0, 1)), epoch(1, 500, p0=(1, 3))],
        [ACCEPTED, LATE, MALFORMED],
    ),
    "what the chain gave up is lost, and what an epoch read all the same is not": (
        [send(str(offset), 1, offset) for offset in range(4)],
        [
            epoch(0, None, p0=(0, 2)),
            changed(epoch(1, 1, p0=(3, 4)), lost=Lost(offsets={"events": {0: (1, 3)}}, at_ms=1)),
        ],
        [ACCEPTED, ACCEPTED, LOST, ACCEPTED],
    ),
}


@pytest.mark.parametrize("what", OUTCOMES)
def test_what_becomes_of_a_record(what: str) -> None:
    sends, epochs, outcomes = OUTCOMES[what]
    assert [Outcome(one) for one in replay(sends, epochs, WINDOW_MS, LATENESS_MS).outcomes] == outcomes


def test_window_is_emitted_once_by_the_epoch_whose_watermark_closes_it() -> None:
    sends = [send("a", 1, 0), send("b", 99, 1), send("c", 150, 2), send("d", 400, 3), send("e", 401, 4)]
    epochs = [epoch(0, None, p0=(0, 3)), epoch(1, 150, p0=(3, 4)), epoch(2, 400, p0=(4, 5)), epoch(3, 401)]
    reference = replay(sends, epochs, WINDOW_MS, LATENESS_MS)
    assert reference.user_counts == {("u", 0): (2, 1), ("u", 100): (1, 2)}
    assert reference.global_counts == {0: (2, 1), 100: (1, 2)}
    assert reference.open_windows == {400: 2}
    assert [numbers.watermark_due_ms for numbers in reference.numbers] == [None, 150, 400, 401]
    assert [numbers.user_counts for numbers in reference.numbers] == [0, 1, 1, 0]


def test_gap_leaves_sends_unread_and_overlap_reads_them_again() -> None:
    sends = [send(str(offset), 1, offset) for offset in range(4)]
    reference = replay(sends, [epoch(0, None, p0=(0, 2)), epoch(1, 1, p0=(1, 3))], WINDOW_MS, LATENESS_MS)
    assert list(reference.epochs_of) == [0, 0, 1, NEVER]
    assert reference.reread == [1]
    assert reference.outcomes[3] == Outcome.UNREAD


def test_order_of_the_log_does_not_matter() -> None:
    sends = [
        send(f"i{offset % 40}", offset * 7 % 300, offset, partition=part) for part in (0, 1) for offset in range(50)
    ]
    epochs = [epoch(0, None, p0=(0, 20), p1=(0, 30)), epoch(1, 290, p0=(20, 50), p1=(30, 50))]
    shuffled = random.Random(3).sample(sends, len(sends))

    def by_coordinate(order: list[Send]) -> dict[Any, int]:
        found = replay(order, epochs, WINDOW_MS, LATENESS_MS).outcomes
        return dict(zip([one.coordinate for one in order], found, strict=True))

    assert by_coordinate(sends) == by_coordinate(shuffled)


def test_digest_is_the_sum_of_the_hashes_that_the_run_directory_describes() -> None:
    former = "0" * 31 + "1"
    assert digest.digest([b"a"], former)[16:] == "1cf61a4bc2010d8a"
    assert digest.digest([b"a"]) == "xxh3:a96faf705af16834e6c632b61e964e1f"
    assert digest.digest([]) == digest.digest([], former) == "0" * 32
    assert (
        digest.digest([b"a", b"b"])
        == digest.digest([b"b", b"a"])
        == digest.add([digest.digest([b"a"]), digest.digest([b"b"])])
    )
    assert digest.digest([b"a", b"a"]) != digest.digest([b"a"])
    for form in ("", "xxh3:"):
        assert digest.add([form + "f" * 32, f"{form}{2:032x}"]) == form + "f" * 16 + f"{1:016x}"


def timed(number: int, watermark_ms: int | None, idle: tuple[int, ...] = (), **ranges: tuple[int, int]) -> EpochRecord:
    return changed(epoch(number, watermark_ms, **ranges), clock=Clock(idle={"events": idle} if idle else {}))


def dues(sends: list[Send], *epochs: EpochRecord) -> list[int | None]:
    return [one.watermark_due_ms for one in replay(sends, epochs, WINDOW_MS, LATENESS_MS).numbers]


@pytest.mark.parametrize(("stated", "due"), [(False, 900), (True, None), (None, None)])
def test_an_epoch_that_reads_nothing_keeps_the_watermark_only_where_it_was_abandoned(
    stated: bool | None, due: int | None
) -> None:
    """Chains of before do not say it: there each of them was."""
    empty = changed(epoch(1, due, p0=(1, 1)), abandoned=stated)
    assert dues([send("a", 900, 0)], epoch(0, None, p0=(0, 1)), empty) == [None, due]


@pytest.mark.parametrize(("format_", "stated"), [(3, None), (4, False)])
def test_that_an_epoch_was_abandoned_is_read_where_the_format_states_it(format_: int, stated: bool | None) -> None:
    head = {"format": format_, "generation": 1, "owner": "o", "last_recorded": 0, "declared": None}
    one = epoch(0, None, p0=(1, 1)).model_dump(mode="json", by_alias=True)
    for told, due in ((None, stated), (False, False), (True, True)):
        read = Chain.model_validate({"head": head, "epochs": [{**one, "abandoned": told}]}).epochs[0]
        assert (read.abandoned, read.is_abandoned) == ((due, due is not False) if told is None else (told, told))


def test_an_epoch_that_repairs_another_takes_what_that_one_left_and_keeps_its_watermark() -> None:
    """Of one shard: the epoch takes the copy that it shows, and the record before it is left with its repair."""
    sends = [send("a", 1, 0), send("a", 2, 1), send("b", 900, 2), send("c", 901, 3)]
    shown = {"0": Pinned(rows=1)}
    first = changed(epoch(0, None, p0=(0, 3)), shown=shown)
    repair = changed(epoch(1, None, p0=(3, 3)), shown=shown, repairs=0)
    pins = [Pin(0, "0", ("events", 0, 1))]
    found = replay(sends, [first, repair, epoch(2, 900, p0=(3, 4))], WINDOW_MS, LATENESS_MS, pins)
    assert [Outcome(one) for one in found.outcomes] == [DUPLICATE, ACCEPTED, ACCEPTED, ACCEPTED]
    assert list(found.epochs_of) == [1, 0, 1, 2]
    assert [numbers.watermark_due_ms for numbers in found.numbers] == [None, None, 900]


BOTH = timed(0, None, p0=(0, 1), p1=(0, 1))
ONE = timed(0, None, p0=(0, 1), p1=(0, 0))
"""An epoch that something came from both partitions in, or from one."""
FAR, NEAR, THEN = send("a", 900, 0), send("b", 10, 0, partition=1), send("c", 950, 1)


def forced(
    number: int, due: int, to_ms: int | None, idle: tuple[int, ...] = (), **ranges: tuple[int, int]
) -> EpochRecord:
    return changed(timed(number, due, **ranges), clock=Clock(idle={"events": idle}, forced_ms=to_ms))


DUES: dict[str, tuple[list[Send], list[EpochRecord], list[int | None]]] = {
    "that of the slowest partition": (
        [FAR, NEAR, THEN],
        [BOTH, timed(1, 10, p0=(1, 2), p1=(1, 1))],
        [None, 10],
    ),
    "an idle partition is not waited for": (
        [FAR, NEAR, THEN],
        [BOTH, timed(1, 900, (1,), p0=(1, 2), p1=(1, 1))],
        [None, 900],
    ),
    "one that nothing came from is": ([FAR, THEN], [ONE, timed(1, None, p0=(1, 2), p1=(0, 0))], [None, None]),
    "forced to an earlier time": ([FAR, NEAR, THEN], [BOTH, forced(1, 10, 5, p0=(1, 2), p1=(1, 1))], [None, 10]),
    "forced to a later time": ([FAR, NEAR, THEN], [BOTH, forced(1, 700, 700, p0=(1, 2), p1=(1, 1))], [None, 700]),
    "not forced": ([FAR, NEAR, THEN], [BOTH, forced(1, 10, None, p0=(1, 2), p1=(1, 1))], [None, 10]),
    "forced where nobody is waited for": (
        [FAR, THEN],
        [ONE, forced(1, 700, 700, (0, 1), p0=(1, 2), p1=(0, 0))],
        [None, 700],
    ),
    "forced where one has shown nothing": ([FAR, THEN], [ONE, forced(1, 700, 700, p0=(1, 2), p1=(0, 0))], [None, 700]),
    "copies and late records tell how far their partition has come": (
        [FAR, send("b", 600, 0, partition=1), send("a", 700, 1, partition=1), send("d", 1, 1)],
        [BOTH, timed(1, 600, p0=(1, 2), p1=(1, 2)), timed(2, 700, p0=(2, 3), p1=(2, 2))],
        [None, 600, 700],
    ),
}


@pytest.mark.parametrize("what", DUES)
def test_the_watermark_that_is_due_by_a_clock(what: str) -> None:
    sends, epochs, due = DUES[what]
    assert dues(sends, *epochs) == due
