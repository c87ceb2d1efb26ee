"""Frames: whatever a crash or a disk does to them, what is found was written, and what is whole is found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from effectively_once.gateway import frames

SEED = 77
BODIES = st.lists(st.binary(max_size=40), max_size=6)


def _written(bodies: list[bytes], first: int = 5, seed: int = SEED) -> bytes:
    return b"".join(frames.encode(ordinal, body, seed) for ordinal, body in enumerate(bodies, first))


@given(BODIES)
def test_what_was_written_is_found_in_order(bodies: list[bytes]) -> None:
    found, holes = frames.scan(_written(bodies), SEED, 5)
    assert [(frame.ordinal, frame.body) for frame in found] == list(enumerate(bodies, 5))
    assert not holes


@given(BODIES.filter(bool))
def test_torn_anywhere_the_frames_before_are_found_and_the_rest_is_one_hole(bodies: list[bytes]) -> None:
    whole = _written(bodies)
    for size in range(len(whole)):
        found, holes = frames.scan(whole[:size], SEED, 5)
        ends = [len(_written(bodies[:number])) for number in range(len(bodies) + 1)]
        kept = max(number for number, end in enumerate(ends) if end <= size)
        assert [frame.body for frame in found] == bodies[:kept]
        assert holes == ([frames.Hole(ends[kept], size - ends[kept])] if size > ends[kept] else [])


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=4), st.integers(1, 255))
def test_a_changed_byte_anywhere_loses_its_own_frame_only(bodies: list[bytes], change: int) -> None:
    whole = _written(bodies)
    ends = [len(_written(bodies[:number])) for number in range(len(bodies) + 1)]
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= change
        hit = max(number for number, end in enumerate(ends) if end <= at)
        found, holes = frames.scan(bytes(damaged), SEED, 5)
        assert [(frame.ordinal, frame.body) for frame in found] == [
            (ordinal, body) for ordinal, body in enumerate(bodies, 5) if ordinal != 5 + hit
        ]
        assert holes == [frames.Hole(ends[hit], ends[hit + 1] - ends[hit])]


def test_a_frame_inside_a_damaged_payload_is_not_taken_for_a_record() -> None:
    foreign = _written([b"another buffer's"], first=9, seed=SEED + 1)
    earlier = _written([b"this buffer's, sent as a payload"], first=5)
    whole = bytearray(_written([b"a", b"b"]) + frames.encode(7, foreign + earlier, SEED))
    whole[len(_written([b"a", b"b"])) + 12] ^= 1
    found, (hole,) = frames.scan(bytes(whole), SEED, 5)
    assert [frame.body for frame in found] == [b"a", b"b"]
    assert hole.offset + hole.size == len(whole)


def test_a_frame_with_an_ordinal_from_before_is_none() -> None:
    found, holes = frames.scan(_written([b"x"], first=4) + _written([b"y"]), SEED, 5)
    assert [frame.ordinal for frame in found] == [5]
    assert len(holes) == 1
