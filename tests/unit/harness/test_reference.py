"""The reference and the digest, on cases small enough to work out by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.harness.checkers import digest
from tests.harness.checkers.reference import NEVER, Outcome, replay
from tests.harness.evidence import Chain, Clock, EpochCounts, EpochRecord, Lost, Pin, Pinned
from tests.harness.sends import Send

WINDOW_MS, LATENESS_MS = 100, 50


def send(
    id_: str, time: int, offset: int, *, partition: int = 0, kind: str = "fresh", reason: str | None = None
) -> Send:
    return Send(id_, "u", time, 0, kind, reason, "events", partition, offset)


def epoch(number: int, watermark_ms: int | None, **ranges: tuple[int, int]) -> EpochRecord:
    return EpochRecord(
        epoch=number,
        generation=1,
        ranges={"events": {int(partition[1:]): cut for partition, cut in ranges.items()}},
        topic_ids={"events": "t"},
        watermark_ms=watermark_ms,
        shards=1,
        settings_digest="s",
        counts=EpochCounts.model_validate(dict.fromkeys(("in", "accepted", "duplicate", "late", "malformed"), 0)),
        max_event_time_ms=None,
    )


def outcomes(sends: list[Send], *epochs: EpochRecord) -> list[Outcome]:
    return [Outcome(one) for one in replay(sends, epochs, WINDOW_MS, LATENESS_MS).outcomes]


def test_lowest_coordinate_of_an_epoch_wins() -> None:
    sends = [send("a", 1, 0, partition=1), send("a", 1, 5), send("a", 1, 4)]
    found = outcomes(sends, epoch(0, None, p0=(0, 6), p1=(0, 1)))
    assert found == [Outcome.DUPLICATE, Outcome.DUPLICATE, Outcome.ACCEPTED]


def test_partitions_are_ordered_as_numbers() -> None:
    sends = [send("a", 1, 0, partition=10), send("a", 1, 0, partition=9)]
    assert outcomes(sends, epoch(0, None, p9=(0, 1), p10=(0, 1))) == [Outcome.DUPLICATE, Outcome.ACCEPTED]


def test_earlier_epoch_wins_over_lower_partition() -> None:
    sends = [send("a", 1, 0), send("a", 1, 0, partition=1)]
    found = outcomes(sends, epoch(0, None, p0=(0, 0), p1=(0, 1)), epoch(1, 1, p0=(0, 1), p1=(1, 1)))
    assert found == [Outcome.DUPLICATE, Outcome.ACCEPTED]


@pytest.mark.parametrize(("watermark", "outcome"), [(149, Outcome.ACCEPTED), (150, Outcome.LATE)])
def test_late_begins_when_the_watermark_reaches_window_end_plus_lateness(watermark: int, outcome: Outcome) -> None:
    assert outcomes([send("a", 99, 0)], epoch(0, watermark, p0=(0, 1))) == [outcome]


def test_late_comes_before_duplicate_and_malformed_before_late() -> None:
    sends = [send("a", 1, 0), send("a", 1, 1, kind="resent"), send("b", 1, 2, kind="resent", reason="bad_time")]
    found = outcomes(sends, epoch(0, None, p0=(0, 1)), epoch(1, 500, p0=(1, 3)))
    assert found == [Outcome.ACCEPTED, Outcome.LATE, Outcome.MALFORMED]


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
        return dict(
            zip([one.coordinate for one in order], replay(order, epochs, WINDOW_MS, LATENESS_MS).outcomes, strict=True)
        )

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
    clock = Clock(idle={"events": idle} if idle else {})
    return epoch(number, watermark_ms, **ranges).model_copy(update={"clock": clock})


def dues(sends: list[Send], *epochs: EpochRecord) -> list[int | None]:
    return [one.watermark_due_ms for one in replay(sends, epochs, WINDOW_MS, LATENESS_MS).numbers]


@pytest.mark.parametrize(("stated", "due"), [(False, 900), (True, None), (None, None)])
def test_an_epoch_that_reads_nothing_keeps_the_watermark_only_where_it_was_abandoned(
    stated: bool | None, due: int | None
) -> None:
    """Chains of before do not say it: there each of them was."""
    empty = epoch(1, due, p0=(1, 1)).model_copy(update={"abandoned": stated})
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
    first = epoch(0, None, p0=(0, 3)).model_copy(update={"shown": shown})
    repair = epoch(1, None, p0=(3, 3)).model_copy(update={"shown": shown, "repairs": 0})
    pins = [Pin(0, "0", ("events", 0, 1))]
    found = replay(sends, [first, repair, epoch(2, 900, p0=(3, 4))], WINDOW_MS, LATENESS_MS, pins)
    assert [Outcome(one) for one in found.outcomes] == [
        Outcome.DUPLICATE,
        Outcome.ACCEPTED,
        Outcome.ACCEPTED,
        Outcome.ACCEPTED,
    ]
    assert list(found.epochs_of) == [1, 0, 1, 2]
    assert [numbers.watermark_due_ms for numbers in found.numbers] == [None, None, 900]


def test_with_a_clock_the_watermark_is_that_of_the_slowest_partition() -> None:
    sends = [send("a", 900, 0), send("b", 10, 0, partition=1), send("c", 950, 1)]
    first, second = timed(0, None, p0=(0, 1), p1=(0, 1)), timed(1, 10, p0=(1, 2), p1=(1, 1))
    assert dues(sends, first, second) == [None, 10]


def test_an_idle_partition_is_not_waited_for() -> None:
    sends = [send("a", 900, 0), send("b", 10, 0, partition=1), send("c", 950, 1)]
    assert dues(sends, timed(0, None, p0=(0, 1), p1=(0, 1)), timed(1, 900, (1,), p0=(1, 2), p1=(1, 1))) == [None, 900]


def test_a_partition_that_nothing_came_from_holds_the_watermark() -> None:
    assert dues(
        [send("a", 900, 0), send("c", 950, 1)],
        timed(0, None, p0=(0, 1), p1=(0, 0)),
        timed(1, None, p0=(1, 2), p1=(0, 0)),
    ) == [None, None]


@pytest.mark.parametrize(("forced_ms", "due"), [(5, 10), (700, 700), (None, 10)])
def test_nobody_holds_the_watermark_before_the_time_to_which_it_is_forced(forced_ms: int | None, due: int) -> None:
    sends = [send("a", 900, 0), send("b", 10, 0, partition=1), send("c", 950, 1)]
    second = timed(1, due, p0=(1, 2), p1=(1, 1)).model_copy(update={"clock": Clock(forced_ms=forced_ms)})
    assert dues(sends, timed(0, None, p0=(0, 1), p1=(0, 1)), second) == [None, due]


@pytest.mark.parametrize("idle", [(0, 1), ()])
def test_it_is_forced_where_nobody_is_waited_for_and_where_one_has_shown_nothing(idle: tuple[int, ...]) -> None:
    second = timed(1, 700, p0=(1, 2), p1=(0, 0)).model_copy(
        update={"clock": Clock(idle={"events": idle}, forced_ms=700)}
    )
    sends = [send("a", 900, 0), send("c", 950, 1)]
    assert dues(sends, timed(0, None, p0=(0, 1), p1=(0, 0)), second) == [None, 700]


def test_copies_and_late_records_tell_how_far_their_partition_has_come() -> None:
    sends = [send("a", 900, 0), send("b", 600, 0, partition=1), send("a", 700, 1, partition=1), send("d", 1, 1)]
    first, second = timed(0, None, p0=(0, 1), p1=(0, 1)), timed(1, 600, p0=(1, 2), p1=(1, 2))
    assert dues(
        sends,
        first,
        second,
        timed(2, 700, p0=(2, 2), p1=(2, 2)).model_copy(update={"ranges": {"events": {0: (2, 3), 1: (2, 2)}}}),
    ) == [None, 600, 700]


def test_what_the_chain_gave_up_is_lost_and_what_an_epoch_read_all_the_same_is_not() -> None:
    sends = [send(str(offset), 1, offset) for offset in range(4)]
    behind = epoch(1, 1, p0=(3, 4)).model_copy(update={"lost": Lost(offsets={"events": {0: (1, 3)}}, at_ms=1)})
    found = outcomes(sends, epoch(0, None, p0=(0, 2)), behind)
    assert found == [Outcome.ACCEPTED, Outcome.ACCEPTED, Outcome.LOST, Outcome.ACCEPTED]
