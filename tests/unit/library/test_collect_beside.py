"""What nobody reads any more is deleted beside the epoch that follows: after head, and before its end (R9)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from effectively_once.driver.epoch_job import Outcome
from effectively_once.epoch import refusals
from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.objects import Answer, Delete, Put, Request
from tests.unit.library.broken_epochs import broken
from tests.unit.library.orders_world import TOPIC
from tests.unit.library.test_repair_by_driver import MemoryDriver

WAIT_S = 20.0
"""For a condition that comes at once, or never."""


class Deletions:
    """A driver after some epochs, and what happens at each deletion of its next one."""

    def __init__(self) -> None:
        world = broken(2, part=lambda _, rows: rows)
        self.driver = MemoryDriver(world)
        self.driver.recover()
        self.world, self.at_each = world, lambda: None
        self.asked: list[Request] = []
        self.driver.chain.store = self  # type: ignore[assignment]
        end = self.driver.head.tail[-1].ranges[TOPIC]["0"][1]
        self.ranges = {TOPIC: {"0": (end, end + 10)}}

    at_each: Callable[[], object]

    def answer(self, request: Request) -> Answer:
        if isinstance(request, Delete):
            self.at_each()
        self.asked.append(request)
        return self.world.store.answer(request)

    def run(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Publish the next epoch, whose job does something first; the one before it left records of refusals."""
        job = self.driver.epoch_job.attempt

        def attempt(declaration: Declaration, frame: Any, *, measured: bool) -> Outcome:
            meanwhile()
            return job(declaration, frame, measured=measured)

        self.driver.epoch_job.attempt = attempt  # type: ignore[method-assign]
        publisher, head = self.driver.publisher, self.driver.head
        seen = head.model_copy(update={"tail": (head.tail[-1].model_copy(update={"tried": ("orders",)}),)})
        new = publisher.declarations.of_batch(head, self.ranges, "000002-new", 0)
        frame: Any = self.ranges
        publisher.publish(publisher.pin(new, seen), frame, repeat=False)

    def keys(self) -> list[str]:
        return [request.key for request in self.asked if isinstance(request, Delete)]


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("effectively_once.epoch.rows.judge_each", lambda _, read: read(None))


def test_an_epoch_does_not_wait_for_deletions_to_begin_its_job() -> None:
    found, both = Deletions(), threading.Barrier(2)
    first = iter([True])
    found.at_each = lambda: both.wait(WAIT_S) if next(first, False) else None
    found.run(lambda: both.wait(WAIT_S))
    epoch = found.driver.chain.published
    assert epoch is not None
    layout = found.driver.layout
    assert {layout.step_record(refusals.STEP, epoch.epoch - 1, shard) for shard in (0, 1)} <= {*found.keys()}


def test_nothing_is_deleted_before_head_records_the_epoch() -> None:
    found = Deletions()
    found.run()
    assert found.keys()
    heads = [n for n, it in enumerate(found.asked) if isinstance(it, Put) and it.key == found.driver.layout.head]
    assert heads[0] < min(n for n, it in enumerate(found.asked) if isinstance(it, Delete))


def test_an_epoch_that_fails_leaves_no_deletion_behind() -> None:
    """A driver that ends, or repeats the epoch, has no thread of its own at the store."""
    found, failed, deleting = Deletions(), threading.Event(), []

    def fail() -> None:
        failed.set()
        raise SinkError("refused", "a sink", "Mend it.")

    def delete() -> None:
        assert failed.wait(WAIT_S)
        deleting.append(threading.current_thread())

    found.at_each = delete
    with pytest.raises(SinkError, match="refused"):
        found.run(fail)
    assert deleting
    assert not any(thread.is_alive() for thread in deleting)


def test_a_store_that_does_not_delete_ends_the_driver_by_name() -> None:
    found = Deletions()

    def refuse() -> None:
        raise UnreachableError("the object store does not answer", "http://s3", "Check that it runs.")

    found.at_each = refuse
    with pytest.raises(UnreachableError):
        found.run()
