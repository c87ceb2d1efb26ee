"""The publish step, driven to its end by whatever answers its requests."""

from __future__ import annotations

from collections.abc import Callable

from effectively_once.sinks.publish import Published, Publishing, SinkAnswer, SinkRequest


def driven(step: Publishing, answer: Callable[[SinkRequest], SinkAnswer]) -> Published:
    """Answer one request after the other; return what became of the epoch."""
    try:
        request = next(step)
        while True:
            request = step.send(answer(request))
    except StopIteration as end:
        published: Published = end.value
        return published
