"""The publish step where a mark can refuse a commit (PostgreSQL): any number of publishers, any order, rows once."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.errors import SinkError
from effectively_once.sinks.publish import (
    Commit,
    Committed,
    EndHanging,
    FencedError,
    Mark,
    Open,
    Published,
    Publishing,
    ReadMark,
    SinkAnswer,
    SinkRequest,
    publish,
)
from tests.unit.library.driven import driven


class Table:
    """A shard whose mark is taken by `epoch = n - 1 AND generation <= g`; opening it raises the generation."""

    def __init__(self) -> None:
        self.visible: list[int] = []
        self.mark = Mark(-1, 0, 0, "")

    def answer(self, request: SinkRequest, *, lost: bool = False) -> SinkAnswer:
        """Carry out one request; `lost` is the answer to a commit that took place."""
        match request:
            case Open(generation):
                newest = max(generation, self.mark.generation)
                self.mark = Mark(self.mark.epoch, newest, self.mark.rows, self.mark.digest)
                return None
            case EndHanging():
                return False
            case ReadMark():
                return self.mark if self.mark.epoch >= 0 else None
            case Commit(mark):
                if not (self.mark.epoch == mark.epoch - 1 and self.mark.generation <= mark.generation):
                    return Committed.REFUSED
                self.visible.append(mark.epoch)
                self.mark = mark
                return Committed.UNKNOWN if lost else Committed.YES

    def run(self, step: Publishing) -> Published:
        return driven(step, self.answer)


def _mark(epoch: int, generation: int = 1, digest: str = "a") -> Mark:
    return Mark(epoch, generation, 5, digest)


def test_a_refused_commit_finds_the_epoch_published_meanwhile() -> None:
    """By a task of the same generation that the kept session did not know of."""
    table = Table()
    table.run(publish(_mark(0), None, "here"))
    table.run(publish(_mark(1), None, "here"))
    assert table.run(publish(_mark(1), _mark(0), "here")) is Published.BEFORE
    with pytest.raises(SinkError, match="epoch 1 is published with digest a, its repeat has b"):
        table.run(publish(_mark(1, digest="b"), _mark(0), "here"))
    assert table.visible == [0, 1]


def test_a_commit_that_a_newer_generation_refuses_is_fenced() -> None:
    """Also when the newer one has published nothing yet, and when the older one opens anew."""
    table = Table()
    table.run(publish(_mark(0), None, "here"))
    assert table.run(publish(_mark(0, 2), None, "here")) is Published.BEFORE
    for kept in (_mark(0), None):
        with pytest.raises(FencedError, match="here"):
            table.run(publish(_mark(1), kept, "here"))
    assert table.visible == [0]
    assert table.run(publish(_mark(1, 2), None, "here")) is Published.NOW


def test_a_table_that_was_set_back_under_a_kept_session_is_refused() -> None:
    """Its rows and marks were restored together, and the session lived on."""
    table = Table()
    for epoch in range(4):
        table.run(publish(_mark(epoch), None, "here"))
    table.mark = _mark(1)
    with pytest.raises(SinkError, match="progress mark 1 lies outside the chain's 3 to 4"):
        table.run(publish(_mark(4), _mark(3), "here"))
    assert table.visible == [0, 1, 2, 3]


@dataclass
class Task:
    """An attempt of a driver at the epoch that is declared."""

    generation: int
    step: Generator[SinkRequest, SinkAnswer, Published]
    request: SinkRequest | None = None


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_whoever_publishes_in_whatever_order_every_epoch_is_visible_once(turns: list[tuple[int, bool]]) -> None:
    """Four tasks of two generations at one epoch after another, one request at a time, answers to commits lost."""
    table, epoch = Table(), 0
    tasks: dict[int, Task] = {}
    for number, lost in turns:
        generation = 1 + number % 2
        task = tasks.get(number)
        if task is None:
            task = tasks[number] = Task(generation, publish(_mark(epoch, generation), None, "here"))
        try:
            task.request = (
                next(task.step) if task.request is None else task.step.send(table.answer(task.request, lost=lost))
            )
        except FencedError:
            assert generation == 1
            del tasks[number]
        except StopIteration:
            # The epoch is published: its driver goes on to the next, tasks of this one may still come late.
            del tasks[number]
            epoch = table.mark.epoch + 1
    assert table.visible == list(range(len(table.visible)))
