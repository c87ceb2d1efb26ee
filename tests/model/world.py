"""Everything outside the drivers, as one hashable value: objects, shards of sinks, puts that are still on their way."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from effectively_once.ledger.objects import (
    Absent,
    Answer,
    Delete,
    Found,
    Get,
    Gone,
    Lost,
    Put,
    Refused,
    Request,
    Written,
)
from effectively_once.sinks.publish import Commit, Committed
from tests.model import shards
from tests.model.inputs import Read, Rows
from tests.model.shards import Shard, ToShard


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A put without a condition. The product never sends one; rules that are left out do."""

    key: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Names:
    """The names below a prefix, as Spark lists its logs. The product's protocol never asks for them."""

    prefix: str


Step = Request | Overwrite | Names | ToShard | Read
Reply = Answer | shards.Reply | tuple[str, ...] | Rows


@dataclass(frozen=True, slots=True)
class World:
    """One state of everything outside.

    Attributes:
        objects: sorted by name.
        shards: of sinks; None where a sink is files on the object store.
        delayed: puts that arrive later.
        losses: how many answers may still get lost.
        failures: how many tasks may still fail; or what else may go wrong so often.
        early: how many inputs of steps may still end early.
        forgets: how many commits a broker may still finish and leave open.

    """

    objects: tuple[tuple[str, bytes], ...] = ()
    shards: tuple[Shard | None, ...] = ()
    delayed: tuple[Put, ...] = ()
    losses: int = 0
    failures: int = 0
    early: int = 0
    forgets: int = 0

    @property
    def quiet(self) -> World:
        """The same, with nothing going wrong from now on."""
        return replace(self, losses=0, failures=0, early=0, forgets=0)

    @property
    def failing(self) -> World:
        """The same, after one of the failures that may still happen."""
        return replace(self, failures=self.failures - 1)

    def body(self, key: str) -> bytes | None:
        """Content of an object."""
        return dict(self.objects).get(key)

    def replies(self, step: Step) -> Iterator[tuple[Reply, World]]:
        """Every way in which the outside may answer a request; the first is the one without trouble."""
        match step:
            case ToShard():
                yield from self._sink_replies(step)
            case Read():
                for rows in step.replies(self.early > 0):
                    yield rows, self if rows.whole else replace(self, early=self.early - 1)
            case Get(key):
                body = self.body(key)
                yield (Absent() if body is None else Found(body, etag(body))), self
            case Names(prefix):
                yield tuple(key for key, _ in self.objects if key.startswith(prefix)), self
            case Delete(key):
                yield Gone(), replace(self, objects=tuple(pair for pair in self.objects if pair[0] != key))
            case Overwrite(key, body):
                yield Written(etag(body)), self._with_object(key, body)
            case Put():
                done = self.put(step)
                yield (Refused() if done is None else Written(etag(step.body))), done or self
                if self.losses:
                    fewer = replace(self, losses=self.losses - 1)
                    yield Lost(), fewer
                    yield Lost(), fewer.put(step) or fewer
                    yield Lost(), replace(fewer, delayed=(*self.delayed, step))

    def happenings(self) -> Iterator[World]:
        """Yield what may happen without a driver: a delayed put arrives, an undecided commit takes place."""
        for number, put in enumerate(self.delayed):
            rest = replace(self, delayed=self.delayed[:number] + self.delayed[number + 1 :])
            yield rest.put(put) or rest
        for number, shard in enumerate(self.shards):
            if shard is not None and shard.undecided is not None:
                yield self._with_shard(number, shard.committed(shard.undecided))

    def put(self, put: Put) -> World | None:
        """Return the world after a conditional put, None when it is refused."""
        now = self.body(put.key)
        if put.etag != (None if now is None else etag(now)):
            return None
        return self._with_object(put.key, put.body)

    def without(self, prefix: str) -> World:
        """Return the world without the objects below a prefix."""
        return replace(self, objects=tuple(pair for pair in self.objects if not pair[0].startswith(prefix)))

    def _sink_replies(self, step: ToShard) -> Iterator[tuple[Reply, World]]:
        shard = self.shards[step.shard]
        assert shard is not None
        for reply, after in shard.replies(step):
            yield reply, self._with_shard(step.shard, after)
            if reply is Committed.YES and self.forgets:
                hanging = shard.hanging(step)
                if hanging is not None:
                    yield reply, replace(self, forgets=self.forgets - 1)._with_shard(step.shard, hanging)
            if isinstance(step.request, Commit) and self.losses:
                fewer = replace(self, losses=self.losses - 1)
                for unknown in shard.unknown(step) if reply is Committed.YES else (after,):
                    yield Committed.UNKNOWN, fewer._with_shard(step.shard, unknown)

    def _with_shard(self, number: int, shard: Shard) -> World:
        return replace(self, shards=(*self.shards[:number], shard, *self.shards[number + 1 :]))

    def _with_object(self, key: str, body: bytes) -> World:
        return replace(self, objects=tuple(sorted({**dict(self.objects), key: body}.items())))


def describe(step: Step, reply: Reply) -> str:
    """Tell a request and its answer in a line."""
    if isinstance(step, ToShard):
        what = f"{step.request} {', '.join(step.rows)}" if step.rows else str(step.request)
        return f"shard {step.shard}, producer {step.producer}: {what} -> {reply}"
    if isinstance(step, Names):
        return f"Names {step.prefix} -> {reply}"
    if isinstance(step, Read):
        return f"Read -> {reply}"
    on = f" on {step.etag[:6]}" if isinstance(step, Put) and step.etag else ""
    return f"{type(step).__name__} {step.key}{on} -> {type(reply).__name__}"


def kind(step: Step, reply: Reply) -> str:
    """Tell it without what distinguishes one epoch or driver from another."""
    if isinstance(step, ToShard):
        return f"{type(step.request).__name__} {reply}" if isinstance(reply, Committed) else type(step.request).__name__
    if isinstance(reply, Rows):
        return f"Read -> {'all' if reply.whole else 'a part'}"
    what = replace(step, etag=None) if isinstance(step, Put) else step
    return re.sub("[0-9]+", "N", describe(what, () if isinstance(step, Names) else reply))


@lru_cache(maxsize=100_000)
def etag(body: bytes) -> str:
    """Digest of the content, as real stores have it: two equal contents have one ETag."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
