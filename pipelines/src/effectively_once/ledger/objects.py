"""Requests to an object store as values, so that the protocol can be run by a store and by a model alike.

A protocol step is a generator: it yields a request, is sent the answer, and returns its result. `run` drives one
against a real store; the two-driver model in tests/model drives many, in every order, with answers that get lost.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class Get:
    """Read an object. Answered by `Found` or `Absent`."""

    key: str


@dataclass(frozen=True, slots=True)
class Put:
    """Write an object if it is as expected: `etag` None means that it must not exist.

    Answered by `Written`, `Refused` or `Lost`.
    """

    key: str
    body: bytes
    etag: str | None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; deleting what is not there is no error. Answered by `Gone`."""

    key: str


@dataclass(frozen=True, slots=True)
class Found:
    """The object as it was when read."""

    body: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class Written:
    """The conditional put took place; `etag` is the object's new one."""

    etag: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The condition did not hold; nothing was written."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The answer got lost: the put took place, or not, or will yet."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The object is not there (any more)."""


Request = Get | Put | Delete
Answer = Found | Absent | Written | Refused | Lost | Gone
T = TypeVar("T")
Step = Generator[Request, Answer, T]


class ObjectStore(Protocol):
    """Anything that answers requests: MinIO, another S3 store, a dictionary."""

    def answer(self, request: Request) -> Answer:
        """Carry out one request. Raises UnreachableError or AccessError where no answer is to be had."""
        ...


class ListedStore(ObjectStore, Protocol):
    """One that can list: for checkpoints, backups and tools, never for state (R5)."""

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of all objects below a prefix."""
        ...


def run(step: Step[T], store: ObjectStore) -> T:
    """Drive a protocol step against a store and return its result."""
    try:
        request = next(step)
        while True:
            request = step.send(store.answer(request))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def delete_all(keys: Iterable[str]) -> Step[None]:
    """Delete objects; one that is not there is as good as deleted."""
    for key in keys:
        yield Delete(key)


def create_once(key: str, body: bytes) -> Step[bytes]:
    """Create an object unless it is there; return the content that holds: ours, or the winner's (R4)."""
    while True:
        answer = yield Put(key, body, None)
        if isinstance(answer, Written):
            return body
        found = yield Get(key)
        if isinstance(found, Found):
            return found.body
        # The answer was lost and nothing is there: the put did not take place (or not yet), and may be sent again.


def body_of(key: str) -> Step[bytes | None]:
    """Return the content of an object, None when there is none."""
    found = yield Get(key)
    return found.body if isinstance(found, Found) else None
