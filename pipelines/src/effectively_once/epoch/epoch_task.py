"""What a task of an epoch is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.state import deltas
from effectively_once.state.lateness import Windows


@dataclass(frozen=True)
class EpochTask:
    """What a task of an epoch is given. Everything is pinned by the chain; nothing is looked up by listing."""

    pipeline: Pipeline
    settings: PipelineSettings
    declaration: Declaration
    generation: int
    owner: str
    named: Mapping[str, Mapping[int, list[deltas.Named]]]

    @property
    def layout(self) -> Layout:
        """Object names."""
        return Layout(self.settings.pipeline)

    @property
    def front_ms(self) -> int | None:
        """Where time would be if nobody was waited for; None where it goes by the largest time seen anyway."""
        clock = self.declaration.clock
        return None if clock is None else clock.front_ms

    @property
    def windows(self) -> Windows:
        """The windows of the pipeline, by which records are late and ids forgotten."""
        return self.settings.windows

    def where(self, step: str, shard: int) -> str:
        """Name a step of a shard, for messages."""
        return f"pipeline {self.settings.pipeline}, epoch {self.declaration.epoch}, step {step!r}, shard {shard}"

    def own_deltas(self, kind: str, shard: int) -> list[deltas.Named]:
        """Return the live deltas that were decided for a shard of this number of shards, oldest first."""
        return deltas.list_own(self.named.get(kind, {}), shard, self.declaration.shards)

    def deltas_of(self, kind: str, shard: int) -> list[deltas.Named]:
        """Return the live deltas that may have rows of a shard, oldest first."""
        return deltas.list_all(self.named.get(kind, {}), shard, self.declaration.shards)
