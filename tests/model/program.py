"""A driver of the model: the protocol's own steps (chain, create-once, publish) around a pipeline of five records.

The records are ids, one of them sent twice. Every epoch also has a value that its driver draws at random (here: the
driver's name), which must be recorded before anything is published: a stand-in for user code that is not
deterministic.
A rule that is switched off is left out in the way a plausible implementation would leave it out.

A driver is cut into phases. Each begins from an `At`, which is all a driver knows there, and ends in the next one: so
that two ways to the same knowledge are one state of the exploration.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from effectively_once.errors import SinkError
from effectively_once.ledger import chain
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, body_of, create_once
from effectively_once.ledger.records import Counts, Declaration, Delta, EpochRecord, Head
from effectively_once.sinks.publish import Commit, FencedError, Mark, Open, publish
from tests.model.world import Reply, Step, ToShard

INPUT = ("a", "b", "c", "a", "d")
SHARDS = 2
LAYOUT = Layout("model")
SETTINGS: dict[str, Any] = {"shards": SHARDS}


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rules hold. All do in the product; each is switched off once to see the model find the hole it closes."""

    r1_conditional_head: bool = True
    r3_declare_before_publish: bool = True
    r3_repeat_the_declared: bool = True
    r8_mark_decides: bool = True
    r9_floor_before_deletion: bool = True


@dataclass(frozen=True, slots=True)
class At:
    """What a driver knows at the start of a phase; texts are JSON, so that it can be compared.

    Attributes:
        phase: `start`, `next`, `decide`, `publish`, `end` or `done`.
        head: head as the driver holds it, with its ETag.
        epoch: the declaration being worked on.
        value: the recorded decision of that epoch.
        shard: the next shard to publish.
        published: the record of the declared epoch once it is published.

    """

    phase: str = "start"
    head: bytes = b""
    etag: str = ""
    epoch: str = ""
    value: str = ""
    shard: int = 0
    published: str = ""
    recovering: bool = False

    @property
    def held(self) -> chain.Held:
        """Head and its proof."""
        return chain.Held(Head.model_validate_json(self.head), self.etag)

    @property
    def declaration(self) -> Declaration:
        """The declaration being worked on."""
        return Declaration.model_validate_json(self.epoch)

    @property
    def record(self) -> EpochRecord | None:
        """The record that the next change of head takes along."""
        return EpochRecord.model_validate_json(self.published) if self.published else None

    def holding(self, held: chain.Held, **changes: Any) -> At:
        """Return the same with another head."""
        return replace(self, head=held.head.encoded(), etag=held.etag, **changes)


Phase = Generator[Step, Any, At]


def shard_of(identity: str) -> int:
    """Shard of an id."""
    return ord(identity) % SHARDS


def phase(name: str, rows_per_epoch: int, rules: Rules, at: At) -> Phase:
    """Run one phase of driver `name`, which reads `rows_per_epoch` rows an epoch until the input ends."""
    match at.phase:
        case "start":
            return _started(name, rules, at)
        case "next":
            return _next(rows_per_epoch, rules, at)
        case "decide":
            return _decided(name, at)
        case "publish":
            return _published(name, rules, at)
        case "end":
            return _ended(at)
    raise ValueError(at.phase)


def _started(name: str, rules: Rules, at: At) -> Phase:
    held = yield from chain.take_over(LAYOUT, name, SETTINGS)
    declared = held.head.declared
    if declared is not None and rules.r3_repeat_the_declared:
        return at.holding(held, phase="decide", epoch=declared.model_dump_json(), recovering=True)
    if declared is not None:
        held = chain.Held(held.head.model_copy(update={"declared": None}), held.etag)
    return at.holding(held, phase="next")


def _next(rows_per_epoch: int, rules: Rules, at: At) -> Phase:
    """Declare the next epoch, or end."""
    held = at.held
    seen = chain.recorded(held.head, at.record)
    start = seen.tail[-1].ranges["t"]["0"][1] if seen.tail else 0
    if start >= len(INPUT):
        return replace(at, phase="end")
    declaration = Declaration(
        epoch=seen.last_recorded + 1, lineage="", batch_id=0,
        ranges={"t": {"0": (start, min(start + rows_per_epoch, len(INPUT)))}}, topic_ids={},
        watermark_ms=None, previous_watermark_ms=None, shards=SHARDS, wheel_digest="", settings_digest="",
    )  # fmt: skip
    text = declaration.model_dump_json()
    if not rules.r9_floor_before_deletion:
        # Tidying up as soon as an epoch is published, before a later one is declared, with the floor where it was.
        for record in seen.tail[:-1]:
            yield Delete(LAYOUT.delta("ids", record.epoch, 0))
    if not rules.r3_declare_before_publish:
        return replace(at, phase="decide", epoch=text)
    held = yield from chain.declare(LAYOUT, held, declaration, at.record, max(seen.last_recorded, 0))
    for record in held.head.tail:
        # The last recorded delta carries the ids of those before it, which are below the floor now and may go.
        if record.epoch < held.head.floor:
            yield Delete(LAYOUT.delta("ids", record.epoch, 0))
    return at.holding(held, phase="decide", epoch=text, published="")


def _decided(name: str, at: At) -> Phase:
    """Fold the state that the chain names, decide, and record the decision once."""
    known: set[str] = set()
    head, declaration = at.held.head, at.declaration
    for record in chain.recorded(head, at.record).tail:
        body = yield from body_of(LAYOUT.delta("ids", record.epoch, 0))
        if body is not None:
            known = set(body.decode().split("|")[2].split(","))
    start, end = declaration.ranges["t"]["0"]
    new = sorted({identity for identity in INPUT[start:end] if identity not in known})
    ours = f"{name}|{','.join(new)}|{','.join(sorted(known | set(new)))}".encode()
    decided = yield from create_once(LAYOUT.delta("ids", declaration.epoch, 0), ours)
    if decided.split(b"|")[1] != ours.split(b"|")[1]:
        # As deltas.write does: the choice of ids is a pure function, only the drawn value may be another driver's.
        raise SinkError(f"epoch {declaration.epoch} was decided otherwise", "delta", "")
    return replace(at, phase="publish", value=decided.decode(), shard=0)


def _published(name: str, rules: Rules, at: At) -> Phase:
    """Publish one shard; after a fence look at head and go on only as its owner."""
    head, declaration = at.held.head, at.declaration
    value, new, _ = at.value.split("|")
    rows = tuple(f"{identity}={value}" for identity in new.split(",") if identity and shard_of(identity) == at.shard)
    mark = Mark(declaration.epoch, head.generation, len(rows), ",".join(rows))
    while True:
        try:
            yield from _to_shard(at.shard, mark, rows, rules)
            break
        except FencedError:
            now = yield from chain.read(LAYOUT)
            if now.owner != name:
                raise
    if at.shard + 1 < SHARDS:
        return replace(at, shard=at.shard + 1)
    record = EpochRecord(
        **declaration.model_dump(), generation=head.generation, counts=Counts(), max_event_time_ms=None,
        sinks={}, deltas={"ids": {"0": Delta(rows=len(new))}},
    )  # fmt: skip
    after = replace(at, phase="next", epoch="", value="", shard=0, recovering=False)
    if at.recovering:
        held = yield from chain.record(LAYOUT, at.held, record)
        return after.holding(held)
    if not rules.r3_declare_before_publish:
        held = yield from chain.declare(LAYOUT, at.held, declaration, at.record, 0)
        return after.holding(held, published=record.model_dump_json())
    return replace(after, published=record.model_dump_json())


def _ended(at: At) -> Phase:
    if at.record is not None:
        yield from chain.record(LAYOUT, at.held, at.record)
    return At(phase="done")


def _to_shard(shard: int, mark: Mark, rows: tuple[str, ...], rules: Rules) -> Generator[Step, Reply, None]:
    producer = 0
    if not rules.r8_mark_decides:
        opened = yield ToShard(shard, 0, Open())
        assert isinstance(opened, int)
        yield ToShard(shard, opened, Commit(mark), rows)
        return
    step = publish(mark, None, f"shard {shard}")
    try:
        request = next(step)
        while True:
            reply = yield ToShard(shard, producer, request, rows)
            if isinstance(request, Open):
                assert isinstance(reply, int)
                producer, reply = reply, None
            request = step.send(reply)  # type: ignore[arg-type]
    except StopIteration:
        return
