"""Requests of the product, changed on their way: how rules are left out of steps that do not know how to."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from effectively_once.ledger.objects import Put, Written
from tests.model.world import Overwrite, Step, etag

T = TypeVar("T")


def changed(step: Generator[Any, Any, T], change: Callable[[Step], Step]) -> Generator[Step, Any, T]:
    """Return what a step comes to whose requests are changed."""
    try:
        request = next(step)
        while True:
            request = step.send((yield change(request)))
    except StopIteration as end:
        result: T = end.value
        return result


def once(step: Generator[Any, Any, T], holds: bool) -> Generator[Step, Any, T]:
    """Carry out a step; where create-once does not hold its objects are written over."""
    return step if holds else changed(step, lambda request: _overwriting(request, created=True))


def conditional(step: Generator[Any, Any, T], holds: bool) -> Generator[Step, Any, T]:
    """Carry out a step; where conditions do not hold objects that are there are written over whatever their ETag."""
    return step if holds else changed(step, lambda request: _overwriting(request, created=False))


def withheld(step: Generator[Any, Any, T]) -> Generator[Step, Any, T]:
    """Carry out a step whose puts are not sent, though it is told that they took place."""
    try:
        request = next(step)
        while True:
            sent = not isinstance(request, Put)
            request = step.send((yield request) if sent else Written(etag(request.body)))
    except StopIteration as end:
        result: T = end.value
        return result


def _overwriting(request: Step, created: bool) -> Step:
    if isinstance(request, Put) and (request.etag is None) == created:
        return Overwrite(request.key, request.body)
    return request
