"""What a driver of the model knows at the start of a phase, and the names it uses."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.held import Held
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.offsets import Place
from effectively_once.sinks.publish import Mark
from tests.model.world import Step

LAYOUT = Layout("model")

Kept = tuple[int, Mark]
"""A producer (0: a session), and the mark that it committed last."""


@dataclass(frozen=True, slots=True)
class At:
    """What a driver knows; texts are JSON, so that two ways to the same knowledge are one state of the exploration.

    Attributes:
        phase: `start`, `next`, `decide`, `record`, `publish`, `fenced`, `aggregate`, `show`, `finish`, `end` or `done`.
        began: head as this driver took it over.
        head: head as the driver holds it, with its ETag.
        epoch: the declaration being worked on.
        new: the ids that this epoch decided on.
        read: the offsets of their records, where rows tell them.
        delta: what the record is to say of the decision.
        value: what the recorded step gave.
        shard: the next one to publish to.
        staged: the files of the epoch that are written and not visible yet, with their shards.
        attempt: of the task; 0 is the first.
        part: the task decided on a part of its input: it publishes that, and is reported as failed.
        partials: of the shards of the first step, as the second one read them; None: it has not.
        counted: what the record is to say of its decision.
        left: the first row of each shard that the epoch left to the next one.
        kept: for every shard, what is kept of its sink between epochs.
        published: the record of the declared epoch once it is published.
        recovering: the epoch was declared by another driver.

    """

    phase: str = "start"
    began: bytes = b""
    head: bytes = b""
    etag: str = ""
    epoch: str = ""
    new: tuple[str, ...] = ()
    read: tuple[int, ...] = ()
    delta: str = ""
    value: str = ""
    shard: int = 0
    staged: tuple[tuple[int, str], ...] = ()
    attempt: int = 0
    part: bool = False
    partials: tuple[str, ...] | None = None
    counted: str = ""
    left: tuple[tuple[str, Place], ...] = ()
    kept: tuple[Kept | None, ...] = ()
    published: str = ""
    recovering: bool = False

    @property
    def held(self) -> Held:
        """Head and its proof."""
        return Held(head_of(self.head), self.etag)

    @property
    def declaration(self) -> Declaration:
        """The declaration being worked on."""
        return _declaration(self.epoch)

    @property
    def record(self) -> EpochRecord | None:
        """The record that the next change of head takes along."""
        return _record(self.published) if self.published else None

    def holding(self, held: Held, **changes: Any) -> At:
        """Return the same with another head."""
        return replace(self, head=held.head.encode(), etag=held.etag, **changes)

    def keeping(self, kept: Kept | None) -> At:
        """Return the same with what is kept of the sink of this shard."""
        return replace(self, kept=(*self.kept[: self.shard], kept, *self.kept[self.shard + 1 :]))


@cache
def head_of(body: bytes) -> Head:
    """Head of its content; read once however often it is met."""
    return decode(body, LAYOUT.head)


@cache
def _declaration(text: str) -> Declaration:
    return Declaration.model_validate_json(text)


@cache
def _record(text: str) -> EpochRecord:
    return EpochRecord.model_validate_json(text)


Phase = Generator[Step, Any, At]
