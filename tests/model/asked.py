"""Code of the product that asks an object store itself, as a protocol step.

It cannot be stopped at a request and gone on with later. So it is run again from its beginning with every answer it has
got so far, until it needs no further one: what generators are to the chain, this is to deltas, merging, recorded
outputs and manifests. The code must be a function of the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from effectively_once.ledger.objects import Answer, ObjectStore, Request, Step

T = TypeVar("T")


class _WantedError(BaseException):
    """The next request; not an Exception, so that no handler of the product takes it for a failure."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request


class _Answered:
    """A store that knows some answers."""

    def __init__(self, answers: list[Answer]) -> None:
        self._answers = iter(answers)

    def answer(self, request: Request) -> Answer:
        """Give the next answer that is known."""
        for answer in self._answers:
            return answer
        raise _WantedError(request)


def asking(call: Callable[[ObjectStore], T]) -> Step[T]:
    """Return what `call` comes to, request by request."""
    answers: list[Answer] = []
    while True:
        try:
            return call(_Answered(answers))
        except _WantedError as wanted:
            request = wanted.request
        answers.append((yield request))
