"""The source's buffer: nothing is forgotten before it is acknowledged, and a successor begins where it must."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from effectively_once_jobs.system_usage.source_buffer import Place, SourceBuffer


class Buffering(RuleBasedStateMachine):
    """Events that arrive, are given out, fail and are acknowledged in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = SourceBuffer[str]()
        self.ends = {0: 0, 1: 0}
        self.waiting: set[Place] = set()
        self.under_way: set[Place] = set()
        self.done: set[Place] = set()

    @rule(partition=st.integers(0, 1), skipped=st.integers(0, 2))
    def arrives(self, partition: int, skipped: int) -> None:
        # Offsets of a partition may have gaps: markers of transactions.
        place = (partition, self.ends[partition] + skipped)
        self.buffer.take_in(place, f"event {place}")
        self.ends[partition] = place[1] + 1
        self.waiting.add(place)

    @rule(most=st.integers(1, 5))
    def gives_out(self, most: int) -> None:
        given = self.buffer.give_out(most)
        assert len(given) == min(most, len(self.waiting))
        for place, content in given:
            assert content == f"event {place}"
            self.waiting.remove(place)
            self.under_way.add(place)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), successful=st.booleans())
    def ends_its_way(self, data: st.DataObject, successful: bool) -> None:
        place = data.draw(st.sampled_from(sorted(self.under_way)))
        self.under_way.remove(place)
        if successful:
            self.buffer.acknowledge(place)
            self.done.add(place)
        else:
            self.buffer.keep_failed(place)
            self.waiting.add(place)

    @precondition(lambda self: self.done)
    @rule(data=st.data())
    def fails_after_all(self, data: st.DataObject) -> None:
        # Of an emission that had timed out before its replay was acknowledged: it is done with.
        self.buffer.keep_failed(data.draw(st.sampled_from(sorted(self.done))))

    @invariant()
    def nothing_is_forgotten(self) -> None:
        kept = self.waiting | self.under_way
        assert len(self.buffer) == len(kept)
        for partition, begin in self.buffer.offsets_to_commit().items():
            # A successor would read everything that is kept, and begin no earlier than it has to.
            assert begin == min((offset for at, offset in kept if at == partition), default=self.ends[partition])


TestBuffering = Buffering.TestCase


def test_what_failed_is_given_out_before_what_is_new() -> None:
    buffer = SourceBuffer[str]()
    for offset in range(4):
        buffer.take_in((0, offset), str(offset))
    assert [content for _, content in buffer.give_out(3)] == ["0", "1", "2"]
    buffer.keep_failed((0, 1))
    buffer.acknowledge((0, 0))
    buffer.acknowledge((0, 2))
    assert [content for _, content in buffer.give_out(3)] == ["1", "3"]
    assert buffer.replayed == 1
    assert buffer.offsets_to_commit() == {0: 1}


def test_an_offset_that_was_read_before_is_refused() -> None:
    buffer = SourceBuffer[str]()
    buffer.take_in((0, 3), "3")
    with pytest.raises(ValueError, match="offset 3 of partition 0 has arrived before"):
        buffer.take_in((0, 3), "3")
