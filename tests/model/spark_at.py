"""What a driver of a job with Spark's own state knows, and the rules such a job has to keep."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from effectively_once.ledger import chain
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import Counts, EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.held import Held
from tests.model.at import LAYOUT, head_of
from tests.model.world import Step

INPUT = ("a", "b", "a", "c")
BACKUPS = f"{LAYOUT.pipeline}/backups/"
GONE = "the checkpoint is gone, and there is no backup from which the deltas are kept"
EVERY = 2
"""A backup is made after each second epoch."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What such a job has to keep; each is left out once."""

    r7_recorded_before_commit: bool = True
    r7_checkpoint_fits: bool = True
    r7_refused_without_state: bool = True
    r7_ranges_of_the_chain: bool = True
    r7_recorded_runs_for_state: bool = True
    r9_deltas_until_backup: bool = True
    r9_backup_above_floor: bool = True
    r11_offsets_once: bool = True
    r13_whole_input: bool = True
    r13_whole_results: bool = True


@dataclass(frozen=True, slots=True)
class At:
    """What a driver knows at the start of a phase.

    Attributes:
        phase: `start`, `load`, `plan`, `epoch`, `decide`, `publish`, `fenced`, `record`, `commit`, `conflict`, `end` or
            `done`.
        head: head as the driver holds it, with its ETag.
        lineage: of the checkpoint.
        batch: the next one that Spark runs.
        span: offsets of the batch.
        state: ids counted before it, in order.
        new: ids that its epoch decided on.
        epoch: the declaration of its epoch.
        silent: the epoch is recorded, and the batch runs for the state alone.
        published: the record of the declared epoch once it is published.
        backup: the epoch of the newest backup, -1 before the first.

    """

    phase: str = "start"
    head: bytes = b""
    etag: str = ""
    lineage: str = ""
    batch: int = 0
    span: tuple[int, int] = (0, 0)
    state: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    epoch: str = ""
    silent: bool = False
    published: str = ""
    backup: int = -1

    @property
    def held(self) -> Held:
        """Head and its proof."""
        return Held(head_of(self.head), self.etag)

    @property
    def recorded_head(self) -> Head:
        """Head with the published epoch recorded."""
        return chain.record_epoch(self.held.head, self.record)

    @property
    def declaration(self) -> Declaration:
        """The declaration being worked on."""
        return Declaration.model_validate_json(self.epoch)

    @property
    def record(self) -> EpochRecord | None:
        """The record that the next change of head takes along."""
        return EpochRecord.model_validate_json(self.published) if self.published else None

    @property
    def folder(self) -> str:
        """The checkpoint."""
        return LAYOUT.checkpoint(self.lineage)

    def holding(self, held: Held, **changes: Any) -> At:
        """Return the same with another head."""
        return replace(self, head=held.head.encode(), etag=held.etag, **changes)


Phase = Generator[Step, Any, At]


def epoch_of(name: str) -> int:
    """Epoch of a backup, or batch of a log's entry, by its name."""
    return int(name.rsplit("/", 1)[1])


def record_of(declaration: Declaration, head: Head) -> EpochRecord:
    return EpochRecord(
        **declaration.model_dump(),
        generation=head.generation,
        counts=Counts(),
        max_event_time_ms=None,
        sinks={},
        deltas={},
    )


def declaration_of(declaration: Declaration) -> str:
    return Declaration(**{name: getattr(declaration, name) for name in Declaration.model_fields}).model_dump_json()


def of_commit(body: bytes) -> tuple[int, int, tuple[str, ...]]:
    """Batch, end offset and state."""
    batch, end, _, state = body.decode().split("|")
    return int(batch), int(end), ids_of(state)


def ids_of(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
