"""The seeded stream: exact numbers, the same bytes for the same seed, lateness only where it is meant."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import orjson
import pytest

from tests.harness.workload.errors import InputError
from tests.harness.workload.pacing import Pace
from tests.harness.workload.record import (
    REASONS,
    Planned,
    checksum,
    is_late,
    partition_of,
    partition_of_user,
    window_end,
)
from tests.harness.workload.seeded import Seeded, closers, settler
from tests.harness.workload.shape import Numbers, Shape

SHAPE = Shape(records=20_000)
WINDOW_MS, LATENESS_MS = SHAPE.window_ms, SHAPE.pace.lateness_ms


def plan(seed: int, shape: Shape = SHAPE) -> list[Planned]:
    return list(Seeded(seed, shape))


@pytest.fixture(scope="module")
def stream() -> list[Planned]:
    return plan(7)


@pytest.mark.parametrize(
    ("seed", "records"), [(0, 20_000), (7, 20_000), (2**40, 20_000), (3, 100), (3, 101), (3, 999), (3, 12_345)]
)
def test_numbers_are_exact_for_every_seed_and_size(seed: int, records: int) -> None:
    planned, numbers = plan(seed, Shape(records=records)), Shape(records=records).numbers
    kinds = Counter(record.kind for record in planned)
    assert [record.n for record in planned] == list(range(records))
    assert numbers.sent == records
    assert (kinds["duplicate"], kinds["late"]) == (numbers.duplicates_sent, numbers.late_sent)
    assert kinds["malformed"] == numbers.malformed_sent


def test_shares_of_the_stream_are_those_of_its_shape() -> None:
    assert Seeded(7, SHAPE).numbers == Numbers(sent=20_000, duplicates_sent=1_000, late_sent=220, malformed_sent=100)


def test_the_seed_alone_decides(stream: list[Planned]) -> None:
    seeded = Seeded(7, SHAPE)
    assert list(seeded) == list(seeded) == stream
    assert [record.value for record in plan(8)] != [record.value for record in stream]


def test_well_formed_records_carry_what_they_say(stream: list[Planned]) -> None:
    for record in stream:
        if record.kind == "malformed":
            continue
        assert record.user is not None
        assert record.id is not None
        assert record.event_time_ms is not None
        assert record.payload is not None
        content = orjson.loads(record.value)
        assert list(content) == ["id", "user", "event_time_ms", "payload", "crc"]
        assert content == {name: getattr(record, name) for name in content}
        assert record.crc == checksum(record.id, record.user, record.event_time_ms, record.payload)
        assert record.key == record.user.encode()
        assert partition_of(record, 4) == partition_of_user(record.user, 4) == int(record.id[4])
    assert any(not str(record.payload).isascii() for record in stream)


def test_checksum_is_the_published_one() -> None:
    # The expected value comes from a bit-by-bit CRC-32 written apart from zlib.
    assert checksum("p0-s3-000017", "u00042", 1750000000123, "x") == 0x1F134B65


def test_ids_are_dense(stream: list[Planned]) -> None:
    sequences: dict[str, list[int]] = {}
    originals = [record for record in stream if record.kind == "fresh"]
    accepted = {record.id for record in originals}
    originals += [record for record in stream if record.kind == "late" and record.id not in accepted]
    for record in sorted(originals, key=lambda record: record.n):
        assert record.id is not None
        head, sequence = record.id.rsplit("-", 1)
        sequences.setdefault(head, []).append(int(sequence))
        assert len(sequence) >= 6
    assert sorted(sequences) == [f"p{producer}-s{shard}" for producer in range(2) for shard in range(4)]
    assert all(numbers == list(range(len(numbers))) for numbers in sequences.values())


def test_duplicates_are_exact_copies_of_a_record_sent_shortly_before(stream: list[Planned]) -> None:
    first = {record.id: record for record in stream if record.kind == "fresh"}
    lags = []
    for copy in (record for record in stream if record.kind == "duplicate"):
        original = first[copy.id]
        lags.append(copy.n - original.n)
        assert copy == replace(original, n=copy.n, kind="duplicate")
    assert 0 < min(lags) <= max(lags) <= SHAPE.copy_within + SHAPE.numbers.late_sent
    assert sorted(lags)[len(lags) // 2] <= 64
    assert max(lags) > 64


def test_no_record_in_time_is_further_behind_than_the_jitter(stream: list[Planned]) -> None:
    high = worst = 0
    for record in stream:
        if record.moves_watermark:
            assert record.event_time_ms is not None
            assert record.gate is None
            high = max(high, record.event_time_ms)
            worst = max(worst, high - record.event_time_ms)
    assert 15_000 < worst <= SHAPE.pace.jitter_ms


def test_the_stream_spans_twenty_minutes_of_skewed_users(stream: list[Planned]) -> None:
    times = [record.event_time_ms for record in stream if record.kind == "fresh" and record.event_time_ms is not None]
    assert times[0] == min(times) == SHAPE.first_ms
    assert SHAPE.first_ms % WINDOW_MS == 0
    assert SHAPE.span_ms - 1_000 < max(times) - min(times) < SHAPE.span_ms
    users = Counter(record.user for record in stream if record.kind == "fresh")
    assert len(users) > 900
    assert users.most_common(1)[0][1] > 50 * SHAPE.records / SHAPE.users


def test_late_records_are_late_at_their_gate_and_not_before(stream: list[Planned]) -> None:
    late = [record for record in stream if record.kind == "late"]
    for record in late:
        assert record.event_time_ms is not None
        assert record.gate is not None
        assert record.gate == window_end(record.event_time_ms, WINDOW_MS) + LATENESS_MS
        assert is_late(record.event_time_ms, record.gate, WINDOW_MS, LATENESS_MS)
        assert not is_late(record.event_time_ms, record.gate - 1, WINDOW_MS, LATENESS_MS)
    starts = [after.n for before, after in pairwise(late) if after.n - before.n > 1]
    assert len(starts) == 3, "four bursts"
    assert late[0].n > 0.3 * len(stream)


def test_straddling_copies_repeat_accepted_ids_and_the_other_late_ids_are_new(stream: list[Planned]) -> None:
    first = {record.id: record for record in stream if record.kind == "fresh"}
    late = [record for record in stream if record.kind == "late"]
    straddling = [record for record in late if record.id in first]
    assert len(straddling) == SHAPE.straddling_count == 20
    for record in straddling:
        original = first[record.id]
        assert record.n > original.n
        assert (record.key, record.value) == (original.key, original.value)
    assert len({record.id for record in late if record.id not in first}) == SHAPE.late_own_count == 200


def test_every_malformed_record_has_the_one_fault_it_names(stream: list[Planned]) -> None:
    malformed = [record for record in stream if record.kind == "malformed"]
    assert {record.reason for record in malformed} == set(REASONS)
    forms = set()
    for record in malformed:
        assert record.crc is None
        assert (record.key is None) == (record.user is None)
        try:
            content = orjson.loads(record.value)
        except orjson.JSONDecodeError:
            assert record.reason == "not_json"
            continue
        faults = {f"missing_{name}" for name in ("id", "user") if not content.get(name)}
        at = content.get("event_time_ms")
        if type(at) is not int or at < 0:
            faults.add("bad_time")
            forms.add(type(at))
        assert faults == {record.reason}
        assert (content.get("id"), content.get("user")) == (record.id, record.user)
    assert forms == {str, int, float, type(None)}


def test_malformed_records_without_user_are_spread_over_the_partitions(stream: list[Planned]) -> None:
    without = [record for record in stream if record.user is None]
    assert {partition_of(record, 4) for record in without} == {0, 1, 2, 3}
    assert all(partition_of(record, 4) == record.n % 4 for record in without)


def test_closers_close_every_window_and_are_two_records() -> None:
    last = SHAPE.first_ms + SHAPE.span_ms - 1
    first, second = closers(last, 20_000, WINDOW_MS, LATENESS_MS)
    assert first.event_time_ms == second.event_time_ms == last + 1 + LATENESS_MS + 2 * WINDOW_MS
    assert is_late(last, first.event_time_ms, WINDOW_MS, LATENESS_MS)
    assert not is_late(first.event_time_ms, first.event_time_ms, WINDOW_MS, LATENESS_MS)
    assert first.id != second.id
    assert (first.n, second.n, first.kind, second.kind) == (20_000, 20_001, "closer", "closer")
    assert partition_of(first, 4) == partition_of(second, 4)


def test_a_settler_moves_time_no_further_and_waits_until_all_before_it_is_declared() -> None:
    last = SHAPE.first_ms + SHAPE.span_ms - 1
    one = settler(last, 20_000)
    assert (one.event_time_ms, one.settled, one.kind, one.n) == (last, True, "closer", 20_000)
    assert one.id not in {closer.id for closer in closers(last, 20_001)}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"records": 99}, "records is 99: it must be 100 or more"),
        ({"users": 0}, "users is 0"),
        ({"late": -0.1}, "late is -0.1: it is a fraction"),
        ({"duplicates": 0.4, "late": 0.2}, "add up to more than 0.5"),
        ({"bursts": (0.1,)}, "between 0.3 and 1"),
        ({"bursts": ()}, "at least one place"),
        ({"pace": Pace(horizon_ms=None)}, "horizon_ms is None"),
        ({"records": 1_000, "span_ms": 5 * 60_000}, "raise span_ms or move the burst back"),
    ],
)
def test_impossible_shapes_are_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        plan(7, replace(SHAPE, **change))  # type: ignore[arg-type]


def test_shares_can_be_switched_off_and_copies_keep_to_a_smaller_distance() -> None:
    plain = Shape(records=1_000, duplicates=0, late=0, straddling=0, malformed=0)
    assert Counter(record.kind for record in plan(7, plain)) == {"fresh": 1_000}
    near = Shape(records=5_000, copy_within=20, late=0, straddling=0)
    first: dict[str | None, int] = {}
    lags = [record.n - first.setdefault(record.id, record.n) for record in plan(7, near) if record.id]
    assert max(lags) == 20


def test_bursts_at_the_same_place_and_at_the_end_lose_nothing() -> None:
    crowded = Shape(records=500, late=0.1, bursts=(0.7, 0.7001, 1.0))
    assert Counter(record.kind for record in plan(7, crowded))["late"] == crowded.numbers.late_sent == 50
