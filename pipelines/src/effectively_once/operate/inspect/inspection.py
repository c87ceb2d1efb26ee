"""What was found of a pipeline: chain, marks, live deltas, checkpoint, and what is damaged."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from effectively_once.errors import PipelineError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.ledger.head import Head
from effectively_once.ledger.loss import Loss
from effectively_once.operate.inspect.lives import Lives
from effectively_once.operate.inspect.start_check import StartCheck


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is damaged or missing, or that refuses a start."""

    part: str
    error: PipelineError

    def as_json(self) -> dict[str, str]:
        """Return its parts as JSON has them."""
        named = {"what": self.error.what, "where": self.error.where, "todo": self.error.todo}
        return {"part": self.part, "error": type(self.error).__name__, **named}


@dataclass(frozen=True, slots=True)
class MarkFacts:
    """The progress mark of a shard; `shard` is None for a sink without shards, `epoch` None for no mark."""

    sink: str
    shard: int | None
    epoch: int | None
    generation: int | None = None


@dataclass(slots=True)
class DeltaFacts:
    """Live deltas of one kind: how many, how many of them in the records of their epochs, rows, bytes of the others."""

    deltas: int = 0
    inline: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """Spark's checkpoint of the last lineage.

    Without one that fits, a driver begins a new lineage; where the pipeline's state is in it alone, it is refused.
    """

    lineage: str
    objects: int
    bytes: int
    fits: bool
    holds_state: bool = False


@dataclass(slots=True)
class Inspection:
    """Everything that was found. What could not be read is None, and a finding says why.

    Attributes:
        lost: input that was given up, by the epoch that records it; of those that were looked at.
        lives: of a pipeline with standbys.

    """

    pipeline: str
    where: str
    head: Head | None = None
    head_bytes: int = 0
    marks: list[MarkFacts] = field(default_factory=list)
    deltas: dict[str, DeltaFacts] = field(default_factory=dict)
    checkpoint: CheckpointFacts | None = None
    start: StartCheck | None = None
    findings: list[Finding] = field(default_factory=list)
    lost: dict[int, Loss] = field(default_factory=dict)
    lives: Lives | None = None

    @property
    def exit_code(self) -> int:
        """That of the first finding, 0 without one."""
        return self.findings[0].error.exit_code if self.findings else 0

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "pipeline": self.pipeline,
            "where": self.where,
            "head": self._head(),
            "lost": [{"epoch": epoch, **loss.model_dump(mode="json")} for epoch, loss in self.lost.items()],
            "marks": [asdict(mark) for mark in self.marks],
            "deltas": {kind: asdict(facts) for kind, facts in self.deltas.items()},
            "checkpoint": asdict(self.checkpoint) if self.checkpoint else None,
            "lives": asdict(self.lives) if self.lives else None,
            "start": self.start.verdict if self.start else None,
            "findings": [finding.as_json() for finding in self.findings],
        }

    def _head(self) -> dict[str, Any] | None:
        if self.head is None:
            return None
        brief = self.head.model_dump(mode="json", by_alias=True, exclude={"tail", "declared"})
        recorded = self.head.tail[-1] if self.head.tail else None
        return {**brief, "bytes": self.head_bytes, "recorded": _brief(recorded), "declared": _brief(self.head.declared)}


def _brief(epoch: EpochRecord | Declaration | None) -> dict[str, Any] | None:
    return None if epoch is None else epoch.model_dump(mode="json", by_alias=True, exclude={"sinks", "deltas"})
