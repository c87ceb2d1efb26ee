"""Everything outside the drivers, as one hashable value: objects, sink shards, and puts that are still on their way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

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
from effectively_once.sinks.publish import Commit, Committed, Mark, Open, ReadMark, SinkRequest

Reply = Answer | Mark | Committed | int | None


@dataclass(frozen=True, slots=True)
class ToShard:
    """A request to one shard of the sink, by the producer that `Open` gave this driver (0: none yet)."""

    shard: int
    producer: int
    request: SinkRequest
    rows: tuple[str, ...] = ()


Step = Request | ToShard


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard of a transactional sink: which producer is current, what was committed, and the last mark."""

    producer: int = 0
    rows: tuple[tuple[int, str], ...] = ()
    mark: Mark | None = None
    undecided: ToShard | None = None


@dataclass(frozen=True, slots=True)
class World:
    """One state of everything outside. `losses` is how many answers may still get lost."""

    objects: tuple[tuple[str, bytes], ...] = ()
    shards: tuple[Shard, ...] = (Shard(), Shard())
    delayed: tuple[Put, ...] = ()
    losses: int = 0
    conditional: bool = True

    def body(self, key: str) -> bytes | None:
        """Content of an object."""
        return dict(self.objects).get(key)

    def replies(self, step: Step) -> Iterator[tuple[Reply, World]]:
        """Every way in which the outside may answer a request."""
        if isinstance(step, ToShard):
            yield from self._sink_replies(step)
            return
        match step:
            case Get(key):
                body = self.body(key)
                yield (Absent() if body is None else Found(body, etag(body))), self
            case Delete(key):
                yield Gone(), replace(self, objects=tuple(pair for pair in self.objects if pair[0] != key))
            case Put():
                done = self._put(step)
                yield (Refused() if done is None else Written(etag(step.body))), done or self
                if self.losses:
                    fewer = replace(self, losses=self.losses - 1)
                    yield Lost(), fewer
                    yield Lost(), replace(done or self, losses=self.losses - 1)
                    yield Lost(), replace(fewer, delayed=(*self.delayed, step))

    def happenings(self) -> Iterator[World]:
        """Yield what may happen without a driver: a delayed put arrives, an undecided commit is completed."""
        for number, put in enumerate(self.delayed):
            rest = replace(self, delayed=self.delayed[:number] + self.delayed[number + 1 :])
            yield rest._put(put) or rest
        for number, shard in enumerate(self.shards):
            if shard.undecided is not None:
                yield self._with_shard(number, _committed(replace(shard, undecided=None), shard.undecided))

    def _put(self, put: Put) -> World | None:
        now = self.body(put.key)
        unconditional = not self.conditional and put.etag is not None
        if not unconditional and (put.etag is None) != (now is None):
            return None
        if not unconditional and now is not None and etag(now) != put.etag:
            return None
        objects = {**dict(self.objects), put.key: put.body}
        return replace(self, objects=tuple(sorted(objects.items())))

    def _sink_replies(self, step: ToShard) -> Iterator[tuple[Reply, World]]:
        shard = self.shards[step.shard]
        match step.request:
            case Open():
                # A new producer of the transactional id aborts what the former one left open and fences it.
                opened = replace(shard, producer=shard.producer + 1, undecided=None)
                yield opened.producer, self._with_shard(step.shard, opened)
            case ReadMark():
                yield shard.mark, self
            case Commit():
                if step.producer != shard.producer:
                    yield Committed.FENCED, self
                    return
                yield Committed.YES, self._with_shard(step.shard, _committed(shard, step))
                if self.losses:
                    fewer = replace(self, losses=self.losses - 1)
                    yield Committed.UNKNOWN, fewer._with_shard(step.shard, replace(shard, undecided=step))
                    yield Committed.UNKNOWN, fewer._with_shard(step.shard, _committed(shard, step))

    def _with_shard(self, number: int, shard: Shard) -> World:
        shards = (*self.shards[:number], shard, *self.shards[number + 1 :])
        return replace(self, shards=shards)


def _committed(shard: Shard, step: ToShard) -> Shard:
    assert isinstance(step.request, Commit)
    mark = step.request.mark
    return replace(shard, rows=shard.rows + tuple((mark.epoch, row) for row in step.rows), mark=mark)


def etag(body: bytes) -> str:
    """Digest of the content, as real stores have it: two equal contents have one ETag."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
