"""Two ways to effectively-once, what needs no servers: the operator, and a chain of stages under crashes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once.errors import CheckpointError, StaleDriverError
from effectively_once_jobs.two_ways.memory import Delta, Memory
from effectively_once_jobs.two_ways.notes import EVERY, Notes
from effectively_once_jobs.two_ways.running import MODULUS, Record, advance, pass_on
from effectively_once_jobs.two_ways.stage import NOTED, PASSED_ON, TAKEN, Kept, Stage
from tests.depth import examples
from tests.unit.library.listed_store import ListedStore

POINTS = (TAKEN, PASSED_ON, NOTED)


class CrashError(Exception):
    """The process is gone; what was not durable is lost."""


def sent(number: int, users: int = 3) -> list[Record]:
    rng = random.Random(number)
    return [Record(f"r{n}", f"u{rng.randrange(users)}", n, rng.randrange(1_000)) for n in range(number)]


def truth(records: Sequence[Record], operators: int) -> dict[str, int]:
    """Id -> amount behind the last operator, reckoned record by record and without any of the code of a stage."""
    counts = [dict.fromkeys([one.user for one in records], 0) for _ in range(operators)]
    sums = [dict.fromkeys([one.user for one in records], 0) for _ in range(operators)]
    found = {}
    for one in records:
        amount = one.amount
        for operator in range(operators):
            counts[operator][one.user] += 1
            sums[operator][one.user] = (sums[operator][one.user] + amount) % MODULUS
            amount = (amount + sums[operator][one.user] + counts[operator][one.user]) % MODULUS
        found[one.id] = amount
    return found


@dataclass
class Topic:
    """One partition: what is in it, and what was committed."""

    records: list[Record] = field(default_factory=list)
    committed: int = 0


@dataclass
class Reading:
    """Reads a topic from what was committed, in portions that are drawn."""

    topic: Topic
    sizes: random.Random
    at: int = field(init=False)

    def __post_init__(self) -> None:
        self.at = self.topic.committed

    def read(self) -> Sequence[Record]:
        found = self.topic.records[self.at : self.at + self.sizes.randint(1, 7)]
        self.at += len(found)
        return found

    def commit(self) -> None:
        self.topic.committed = self.at


@dataclass
class Chain:
    """Stages between topics; a crash is drawn at points, and then the stage begins anew with what is durable."""

    operators: int
    rng: random.Random
    crash_rate: float
    drops_copies: bool = True
    make: type[Stage] = Stage
    bucket: ListedStore = field(default_factory=ListedStore)
    crashes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(POINTS, 0))
    copies: int = 0

    def run(self, records: Sequence[Record]) -> list[Record]:
        topics = [Topic(list(records)), *(Topic() for _ in range(self.operators))]
        stages = [self._begun(number, topics) for number in range(self.operators)]
        while any(topic.committed < len(topic.records) for topic in topics[:-1]):
            number = self.rng.randrange(self.operators)
            try:
                stages[number].turn()
            except CrashError:
                stages[number] = self._begun(number, topics)
        return topics[-1].records

    def _begun(self, number: int, topics: list[Topic]) -> Stage:
        memory = Memory(self.drops_copies)
        notes = Notes(self.bucket, "chain", number)
        notes.restore(memory)

        def pass_on(found: Sequence[Record]) -> None:
            # The broker may have some of them when the process dies.
            whole = self.rng.random() >= self.crash_rate / 4
            topics[number + 1].records += found[: None if whole else self.rng.randrange(len(found) + 1)]
            if not whole:
                raise CrashError

        return self.make(Reading(topics[number], self.rng), pass_on, memory, notes, self._at)

    def _at(self, point: str, _: int, copies: int) -> None:
        self.copies += copies
        if self.rng.random() < self.crash_rate:
            self.crashes[point] += 1
            raise CrashError


def first_of_each(records: Sequence[Record]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in records:
        found.setdefault(one.id, one.amount)
    return found


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32), operators=st.integers(1, 4), rate=st.sampled_from([0.0, 0.1, 0.4]))
def test_whatever_crashes_the_output_is_that_of_the_sends(seed: int, operators: int, rate: float) -> None:
    records = sent(40)
    chain = Chain(operators, random.Random(seed), rate)
    out = chain.run(records)
    assert first_of_each(out) == truth(records, operators)
    # Written by id, a second writing has to be the same as the first.
    assert {(one.id, one.amount) for one in out} == set(truth(records, operators).items())


def test_crashes_at_every_point_leave_copies_and_the_catalog_drops_them() -> None:
    chain = Chain(3, random.Random(7), 0.3)
    chain.run(sent(200))
    assert min(chain.crashes.values()) > 0
    assert chain.copies > 0


@pytest.mark.parametrize("point", [PASSED_ON, NOTED])
def test_without_a_catalog_the_same_crashes_double(point: str) -> None:
    def crashing(chain: Chain) -> dict[str, int]:
        left = [2]

        def at(where: str, _taken: int, _copies: int) -> None:
            if where == point and left[0] and chain.rng.random() < 0.2:
                left[0] -= 1
                raise CrashError

        chain._at = at  # type: ignore[assignment, method-assign]
        return first_of_each(chain.run(records))

    records = sent(100)
    assert crashing(Chain(2, random.Random(7), 0.0)) == truth(records, 2)
    wrong = crashing(Chain(2, random.Random(7), 0.0, drops_copies=False))
    assert wrong.keys() == truth(records, 2).keys()
    assert wrong != truth(records, 2)


class NotesFirst(Stage):
    """Notes before it passes on: what a crash between loses."""

    def turn(self) -> int:
        records = self.source.read()
        new = self.memory.new(records)
        if new:
            found, delta = self.memory.take(new)
            self.notes.keep(delta)
            self.memory.fold(delta)
            self.at(NOTED, len(new), 0)
            self.pass_on(found)
        self.source.commit()
        return len(records)


class CommitsFirst(Stage):
    """Commits before it has noted: what a crash between forgets."""

    def turn(self) -> int:
        records = self.source.read()
        new = self.memory.new(records)
        self.source.commit()
        if new:
            found, delta = self.memory.take(new)
            self.pass_on(found)
            self.at(PASSED_ON, len(new), 0)
            self.notes.keep(delta)
            self.memory.fold(delta)
        return len(records)


class Leaky:
    """Notes that keep the state and forget the ids."""

    def __init__(self, notes: Kept) -> None:
        self.notes = notes

    def keep(self, delta: Delta) -> None:
        self.notes.keep(Delta((), delta.users))

    def tidy(self, memory: Memory) -> None:
        del memory


@dataclass
class ForgetsIds(Stage):
    """Its catalog does not outlive it."""

    def __post_init__(self) -> None:
        self.notes = Leaky(self.notes)


@pytest.mark.parametrize("order", [NotesFirst, CommitsFirst, ForgetsIds])
def test_another_order_does_not_hold(order: type[Stage]) -> None:
    records = sent(200)
    assert first_of_each(Chain(2, random.Random(7), 0.2, make=order).run(records)) != truth(records, 2)
    assert first_of_each(Chain(2, random.Random(7), 0.0, make=order).run(records)) == truth(records, 2)


def test_notes_are_written_as_one_and_a_start_reads_few_objects() -> None:
    bucket, memory = ListedStore(), Memory()
    notes = Notes(bucket, "p", 0)
    for record in sent(3 * EVERY + 5):
        _, delta = memory.take([record])
        notes.keep(delta)
        memory.fold(delta)
        notes.tidy(memory)
    again = Memory()
    assert Notes(bucket, "p", 0).restore(again) == len(bucket.objects) == 6
    assert again.whole() == memory.whole()
    assert again.new(sent(3 * EVERY + 6)) == sent(3 * EVERY + 6)[-1:]


def test_a_second_process_of_an_operator_is_refused() -> None:
    bucket = ListedStore()
    one, other = Notes(bucket, "p", 0), Notes(bucket, "p", 0)
    one.keep(Delta((("a", 1),), {}))
    with pytest.raises(StaleDriverError, match="another process runs this operator"):
        other.keep(Delta((("b", 1),), {}))


def test_a_note_that_is_none_is_named() -> None:
    bucket = ListedStore()
    bucket.objects["p/00/notes/000000000"] = b"{"
    with pytest.raises(CheckpointError, match="p/00/notes/000000000"):
        Notes(bucket, "p", 0).restore(Memory())


@pytest.mark.parametrize("number", [0, 1, 51])
def test_a_note_that_is_not_listed_is_missed(number: int) -> None:
    """Its ids would be new again, and its counts would be gone."""
    bucket, memory = ListedStore(), Memory()
    notes = Notes(bucket, "p", 0)
    for record in sent(3 if number < 3 else EVERY + 3):
        _, delta = memory.take([record])
        notes.keep(delta)
        memory.fold(delta)
        notes.tidy(memory)
    del bucket.objects[f"p/00/notes/{number:09}"]
    with pytest.raises(CheckpointError, match="have a gap"):
        Notes(bucket, "p", 0).restore(Memory())


def test_records_keep_their_form_between_operators() -> None:
    record = Record("a", "u", 5, 17)
    assert Record.decode(record.encode()) == record
    assert Record.decode(b'{"id":"a","user":"u","event_time_ms":5,"payload":"17","crc":1}') == record


@given(st.integers(1, 3), st.data())
def test_a_record_lost_doubled_or_misplaced_shows_behind_the_last_operator(operators: int, data: st.DataObject) -> None:
    records = [Record(f"r{n}", "u", n, 10 + n) for n in range(12)]
    at = data.draw(st.integers(0, 10))
    damaged = {
        "lost": records[:at] + records[at + 1 :],
        "doubled": [*records[: at + 1], *records[at:]],
        "misplaced": [*records[:at], records[at + 1], records[at], *records[at + 2 :]],
    }[data.draw(st.sampled_from(["lost", "doubled", "misplaced"]))]
    for _ in range(operators):
        damaged, _ = pass_on(damaged, {})
    assert {one.id: one.amount for one in damaged} != truth(records, operators)


def test_amounts_stay_below_the_modulus() -> None:
    assert advance((1, MODULUS - 1), MODULUS - 1) == ((2, MODULUS - 2), (MODULUS - 1 + MODULUS - 2 + 2) % MODULUS)
