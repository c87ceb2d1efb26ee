"""Answers of conditional puts that get lost are settled by reading owner and sequence, in every case (R1)."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.errors import StaleDriverError
from effectively_once.ledger import chain, segments
from effectively_once.ledger.objects import Answer, Get, Lost, Put, create_once, run
from tests.unit.ledger.memory_store import Fate, MemoryStore
from tests.unit.ledger.samples import LAYOUT, SETTINGS, advanced, declaration, record_of, taken

LOSSES = [fate for fate in Fate if fate is not Fate.ANSWERED]
FATES = st.lists(st.sampled_from(Fate), max_size=24)


@pytest.mark.parametrize("fates", list(itertools.product(LOSSES, repeat=2)), ids=" then ".join)
def test_every_write_of_head_takes_place_exactly_once_whatever_becomes_of_its_answers(fates: tuple[Fate, ...]) -> None:
    store = MemoryStore()
    store.fated(*fates)
    held = taken(store)
    store.fated(*fates)
    held = run(chain.declare(LAYOUT, held, declaration(0), None, 0), store)
    store.fated(*fates)
    held = run(chain.record(LAYOUT, held, record_of(declaration(0))), store)
    store.fated(*fates)
    second = taken(store, "second")
    # One change of sequence for each of the four writes: none was lost, none took place twice.
    assert (second.head.sequence, second.head.generation, second.head.last_recorded) == (3, 2, 0)
    assert run(chain.read(LAYOUT), store) == second.head
    with pytest.raises(StaleDriverError):
        run(chain.declare(LAYOUT, held, declaration(1), None, 0), store)


@given(FATES, st.integers(1, 8))
def test_a_lone_driver_is_never_taken_for_a_stale_one(fates: list[Fate], epochs: int) -> None:
    store = MemoryStore(fates)
    held = advanced(store, taken(store), epochs)
    assert [record.epoch for record in run(segments.history(LAYOUT, held.head), store)] == list(range(epochs))
    assert run(chain.read(LAYOUT), store) == held.head
    assert held.head.sequence == epochs + 1  # began at 0, one put an epoch, and one to record the last


@given(FATES)
def test_a_put_that_arrives_after_another_driver_took_over_changes_nothing(fates: list[Fate]) -> None:
    store = MemoryStore()
    first = taken(store)
    late = Put(LAYOUT.head, first.head.model_copy(update={"sequence": 1, "floor": 9}).encode(), first.etag)
    store.fated(Fate.LOST_DROPPED)
    assert store.answer(late) == Lost()
    store.fated(*fates)
    second = advanced(store, taken(store, "second"), 2)
    store.answer(late)  # the packet that was on its way all the time
    assert run(chain.read(LAYOUT), store) == second.head


def test_a_driver_learns_that_it_is_stale_also_when_the_refusal_got_lost() -> None:
    store = MemoryStore()
    first = taken(store)
    second = taken(store, "second")
    store.fated(Fate.LOST_APPLIED)  # "applied" to a head that is not the one expected: refused, and the answer lost
    with pytest.raises(StaleDriverError):
        run(chain.declare(LAYOUT, first, declaration(0), None, 0), store)
    assert run(chain.read(LAYOUT), store) == second.head


def test_two_drivers_that_start_at_once_get_two_generations() -> None:
    store = MemoryStore()
    slow = chain.take_over(LAYOUT, "slow", SETTINGS)
    assert next(slow) == Get(LAYOUT.head)
    assert taken(store, "quick").head.generation == 1
    answer: Answer = store.answer(Get("nothing"))  # the slow one still believes that there is no head
    with pytest.raises(StopIteration) as end:
        while True:
            answer = store.answer(slow.send(answer))
    assert (end.value.value.head.generation, end.value.value.head.owner) == (2, "slow")


@given(FATES, st.booleans())
def test_create_once_returns_the_content_that_holds(fates: list[Fate], other_was_first: bool) -> None:
    store = MemoryStore()
    if other_was_first:
        store.objects["name"] = b"theirs"
    store.fated(*fates)
    held = run(create_once("name", b"ours"), store)
    store.answer(Get("a moment later"))
    assert held == store.objects["name"] == (b"theirs" if other_was_first else b"ours")


@given(st.lists(st.tuples(st.sampled_from(["declare", "take over"]), st.sampled_from(Fate)), max_size=40))
def test_drivers_that_take_over_from_each_other_leave_a_dense_chain(moves: list[tuple[str, Fate]]) -> None:
    store = MemoryStore()
    held = taken(store, "0")
    takeovers = 1
    for move, fate in moves:
        store.fated(fate)
        if move == "take over":
            held = taken(store, str(takeovers))
            takeovers += 1
        declared = held.head.declared
        if declared is not None:  # whoever recovers finishes the declared epoch first
            held = run(chain.record(LAYOUT, held, record_of(declared, held.head.generation)), store)
        else:
            held = run(chain.declare(LAYOUT, held, declaration(held.head.last_recorded + 1), None, 0), store)
    records = run(segments.history(LAYOUT, run(chain.read(LAYOUT), store)), store)
    assert [record.epoch for record in records] == list(range(held.head.last_recorded + 1))
    assert held.head.generation == takeovers
    assert all(count == 1 for count in Counter(str(record.ranges) for record in records).values())
