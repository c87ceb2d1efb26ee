"""The publish step, driven to its end by whatever answers its requests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from effectively_once.sinks.publish import SinkAnswer, SinkRequest

T = TypeVar("T")


def driven(step: Generator[SinkRequest, SinkAnswer, T], answer: Callable[[SinkRequest], SinkAnswer]) -> T:
    """Answer one request after the other; return what the step comes to."""
    try:
        request = next(step)
        while True:
            request = step.send(answer(request))
    except StopIteration as end:
        found: T = end.value
        return found
