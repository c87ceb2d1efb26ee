"""What an operator asks of drivers: how it is put, read and told, and when a drain is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.driver.control import (
    Asked,
    Control,
    State,
    Wish,
    ask,
    count_left,
    decode,
    encode,
    is_drained,
    reached_ranges,
    read,
    stopped_line,
)
from effectively_once.errors import ControlError
from effectively_once.ledger import chain
from effectively_once.ledger.held import Held
from effectively_once.ledger.objects import Get, Request, run
from effectively_once.ledger.offsets import Ranges
from effectively_once.operate import control_commands
from effectively_once.operate.control_commands import wait_until_drained
from tests.unit.ledger.memory_store import Fate, MemoryStore
from tests.unit.ledger.samples import LAYOUT, advanced, declaration, ranges, taken
from tests.unit.library.listed_store import ListedStore

PAUSED, RUNNING = Wish.make(State.PAUSED), Wish.make(State.RUNNING)
ENDS: Ranges = {"events": {"0": (0, 30), "1": (0, 60)}}


def draining(ends: Ranges = ENDS) -> Wish:
    return Wish.make(State.DRAINING, ends)


def wished(store: MemoryStore) -> Wish:
    return run(read(LAYOUT), store)


def test_each_wish_takes_the_place_of_the_one_before_which_is_told() -> None:
    store, before = MemoryStore(), Wish()
    for wish in (PAUSED, draining(), RUNNING):
        assert run(ask(LAYOUT, wish), store) == Asked(before, wish)
        assert wished(store) == wish
        before = wish
    assert list(store.objects) == [LAYOUT.control], "head is written by drivers alone"


@pytest.mark.parametrize("fate", [Fate.LOST_APPLIED, Fate.LOST_DROPPED, Fate.LOST_DELAYED])
@pytest.mark.parametrize("first", [True, False])
def test_a_lost_answer_is_settled_by_reading(fate: Fate, first: bool) -> None:
    store = MemoryStore()
    if not first:
        run(ask(LAYOUT, RUNNING), store)
    store.fated(fate)
    assert run(ask(LAYOUT, PAUSED), store).now == wished(store) == PAUSED


def test_a_put_that_arrives_late_does_not_undo_what_was_asked_since() -> None:
    """A pause is lost on its way and sent again; when it arrives somebody resumed, in the same millisecond."""
    store = MemoryStore()
    run(ask(LAYOUT, RUNNING), store)
    store.fated(Fate.LOST_DROPPED)
    run(ask(LAYOUT, PAUSED), store)
    late = store.requests[-1]
    run(ask(LAYOUT, Wish.make(State.RUNNING).model_copy(update={"asked_ms": RUNNING.asked_ms})), store)
    store.answer(late)
    assert wished(store).state is State.RUNNING


def meanwhile(store: ListedStore, number: int, other: Wish) -> None:
    """Let somebody else ask before the request of that number is answered."""
    seen: list[Request] = []

    def before(request: Request) -> None:
        seen.append(request)
        if len(seen) == number:
            run(ask(LAYOUT, other), store)

    store.before = before


def test_who_asks_last_is_heard_when_two_ask_at_once() -> None:
    store, other = ListedStore(), draining()
    meanwhile(store, 2, other)
    assert run(ask(LAYOUT, PAUSED), store) == Asked(other, PAUSED)
    assert wished(store) == PAUSED


@pytest.mark.parametrize("fate", [Fate.LOST_APPLIED, Fate.LOST_DROPPED])
def test_two_who_ask_at_once_and_a_lost_answer_cannot_be_told_apart(fate: Fate) -> None:
    store, other = ListedStore(), draining()
    store.fated(fate)
    meanwhile(store, 3, other)
    with pytest.raises(ControlError, match="somebody else asked for something at the same time"):
        run(ask(LAYOUT, PAUSED), store)
    assert wished(store) == other


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"format": 1, "state": "halted"}',
        PAUSED.model_dump_json().encode()[:-5],
        b'{"format": 1, "x": 1}',
        b'{"format": 1, "state": "draining"}',
        PAUSED.model_copy(update={"ends": ENDS}).model_dump_json().encode(),
        PAUSED.model_dump_json().encode(),
        encode(PAUSED).replace(b'"paused"', b'"running"'),
        encode(PAUSED).replace(b'"format":2', b'"format":1'),
        b"[]",
        b"\xff",
    ],
)
def test_a_damaged_object_is_named_and_asking_again_replaces_it(body: bytes) -> None:
    store = MemoryStore()
    store.objects[LAYOUT.control] = body
    with pytest.raises(ControlError, match=r"cannot be read.*counts/control.json.*[Aa]sk again") as error:
        Control().wish(store, LAYOUT)
    assert error.value.exit_code == 72
    assert run(ask(LAYOUT, RUNNING), store) == Asked(None, RUNNING)
    assert wished(store) == RUNNING


def test_what_a_newer_version_asked_is_neither_understood_nor_replaced() -> None:
    store = MemoryStore()
    store.objects[LAYOUT.control] = newer = b'{"format": 3, "state": "running", "until": 5}'
    for step in (read(LAYOUT), ask(LAYOUT, PAUSED)):
        with pytest.raises(ControlError, match="has format 3, this version reads up to 2"):
            run(step, store)
    assert store.objects[LAYOUT.control] == newer


SPANS = st.tuples(st.integers(), st.integers())


@given(st.sampled_from(list(State)), st.dictionaries(st.text("0123", min_size=1), SPANS, min_size=1))
def test_a_wish_is_read_as_it_was_written(state: State, parts: dict[str, tuple[int, int]]) -> None:
    wish = Wish.make(state, {"events": parts} if state is State.DRAINING else {})
    assert decode(encode(wish), "control.json") == wish


@pytest.mark.parametrize("wish", [PAUSED, RUNNING, draining()])
def test_what_a_version_of_before_asked_has_no_checksum_and_is_read_and_replaced(wish: Wish) -> None:
    store, before = MemoryStore(), wish.model_copy(update={"format": 1})
    store.objects[LAYOUT.control] = before.model_dump_json().encode()
    assert wished(store) == before
    assert run(ask(LAYOUT, RUNNING), store) == Asked(before, RUNNING)
    assert wished(store) == RUNNING


def test_a_driver_reads_at_most_once_a_second() -> None:
    store, now = MemoryStore(), [5.0]
    control = Control(clock=lambda: now[0])
    for at, state, reads in ((5.0, State.RUNNING, 1), (5.99, State.RUNNING, 1), (6.0, State.PAUSED, 2)):
        now[0] = at
        assert control.wish(store, LAYOUT).state is state
        assert store.requests.count(Get(LAYOUT.control)) == reads
        if at == 5.0:
            store.objects[LAYOUT.control] = encode(PAUSED)


def test_a_driver_is_held_while_the_pipeline_is_paused() -> None:
    store, returned = ListedStore(), list[Wish]()
    run(ask(LAYOUT, PAUSED), store)
    control, seen = Control(every_s=0.01), threading.Event()
    store.before = lambda _: seen.set()
    thread = threading.Thread(target=lambda: returned.append(control.hold(store, LAYOUT, threading.Event())))
    thread.start()
    assert seen.wait(10)
    assert returned == []
    run(ask(LAYOUT, RUNNING), store)
    thread.join(10)
    assert returned == [RUNNING]


def test_a_driver_that_is_told_to_stop_is_held_no_longer() -> None:
    store, stopping = MemoryStore(), threading.Event()
    run(ask(LAYOUT, PAUSED), store)
    stopping.set()
    began = time.monotonic()
    assert Control(every_s=60).hold(store, LAYOUT, stopping) == PAUSED
    assert time.monotonic() - began < 30


def test_a_drain_is_done_when_every_partition_reached_its_end() -> None:
    wish = draining()
    assert is_drained(ranges(2), wish)
    assert is_drained(ranges(3), wish), "what came since may have been read too"
    assert count_left(ranges(1), wish) == {"events": {"0": 10, "1": 20}}
    behind: Ranges = {"events": {"0": (20, 30), "1": (40, 59)}}
    assert count_left(behind, wish) == {"events": {"1": 1}}
    assert not is_drained(behind, wish)
    assert not any(is_drained(ranges(100), other) for other in (RUNNING, PAUSED, Wish())), "only a drain can be done"


def test_a_partition_that_no_epoch_has_read_counts_from_its_first_offset() -> None:
    wish = draining({"events": {"0": (7, 7), "1": (3, 5)}})
    assert count_left({}, wish) == {"events": {"1": 2}}
    assert is_drained({}, draining({"events": {"0": (7, 7)}})), "nothing was to be read"
    assert count_left({"events": {"0": (0, 7)}}, wish) == {"events": {"1": 2}}
    assert count_left({"other": {"1": (0, 9)}}, wish) == {"events": {"1": 2}}


def test_where_the_chain_is_are_the_ranges_of_the_last_record() -> None:
    store = MemoryStore()
    held = taken(store)
    assert reached_ranges(held.head) == {}
    assert reached_ranges(advanced(store, held, 3).head) == ranges(2)


def test_a_wish_is_told_with_its_ends_and_its_time() -> None:
    wish = draining().model_copy(update={"asked_ms": 1_700_000_000_000})
    told = "draining, topic events to 0:30 1:60, asked for at 2023-11-14T22:13:20+00:00"
    assert str(wish) == told
    assert stopped_line(wish) == (
        f"the pipeline is drained ({told}). `effectively-once resume` lets drivers run again."
    )
    assert str(Wish()) == "running"


class Waiting:
    """A wait for a drain whose clock moves a second a look, and what was said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: MemoryStore, between: Callable[[int], object]) -> None:
        monkeypatch.setattr(control_commands, "LOOK_EVERY_S", 0)
        self.store, self.wish, self.said, self._between = store, draining(), list[str](), between
        self._looks = 0
        run(ask(LAYOUT, self.wish), store)

    def wait(self, wait_s: float) -> None:
        wait_until_drained(self.store, LAYOUT, self.wish, wait_s, self.said.append, clock=self._clock)

    def _clock(self) -> float:
        self._looks += 1
        self._between(self._looks)
        return float(self._looks)


def test_waiting_ends_when_the_chain_recorded_the_ends_and_declares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    held = [advanced(store, taken(store), 1)]

    def between(look: int) -> None:
        match look:
            case 3:
                held[0] = advanced(store, held[0], 2)
                held[0] = run(chain.declare(LAYOUT, held[0], declaration(3), None, 0), store)
            case 6:
                # The driver stops in order: what is declared is published and recorded.
                held[0] = Held(held[0].head.model_copy(update={"declared": None, "sequence": 99}), "")
                store.objects[LAYOUT.head] = held[0].head.encode()

    waiting = Waiting(monkeypatch, store, between)
    waiting.wait(100)
    assert waiting.said == [
        "chain: epoch 0 is the last recorded, none is declared, generation 1; topic events has offsets left: 0:20 1:40",
        "chain: epoch 2 is the last recorded, epoch 3 is declared, generation 1; epoch 3 is declared",
        "chain: epoch 2 is the last recorded, none is declared, generation 1",
        "drained",
    ]


def test_a_wait_that_is_over_says_what_is_missing_and_whether_the_chain_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    held = advanced(store, taken(store), 1)
    waiting = Waiting(monkeypatch, store, lambda _: None)
    with pytest.raises(ControlError) as error:
        waiting.wait(5)
    assert str(error.value) == (
        "not drained within 5 s: topic events has offsets left: 0:20 1:40; epoch 0 is the last recorded, none is "
        "declared, generation 1; the chain did not move meanwhile: does a driver run? "
        "(counts/control.json). The drain stays asked for. Wait again with drain, or take it back with resume."
    )
    moving = Waiting(monkeypatch, store, lambda look: look == 4 and advanced(store, held, 1))
    with pytest.raises(ControlError, match=r"0:10 1:20; epoch 1 is .*; the chain moved meanwhile"):
        moving.wait(9)


def test_a_pipeline_without_a_chain_is_waited_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ControlError, match="0:30 1:60; none yet; the chain did not move"):
        Waiting(monkeypatch, MemoryStore(), lambda _: None).wait(3)


def test_waiting_ends_when_somebody_asks_for_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    waiting = Waiting(monkeypatch, store, lambda look: look == 3 and run(ask(LAYOUT, RUNNING), store))
    with pytest.raises(ControlError, match="somebody asked for something else meanwhile: running"):
        waiting.wait(100)
