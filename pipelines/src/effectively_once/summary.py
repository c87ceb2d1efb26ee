"""What the shards of an epoch told, put together to its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from effectively_once.columns import DEAD_LETTER
from effectively_once.ledger.records import Counts, Declaration, Delta, EpochRecord, Rows, Span
from effectively_once.pipeline import Pipeline
from effectively_once.sinks.publish import Published

Note = dict[str, Any]


class Summary:
    """The notes of the shards' steps (`ShardStep.summary`), with the shard of each, and what the driver published."""

    def __init__(self, shards: Sequence[int], notes: Sequence[Note]) -> None:
        self._notes = list(zip(map(str, shards), notes, strict=True))
        self.repeated = any(note["repeated"] for note in notes)
        self._sinks: dict[str, dict[str, Rows]] = {}
        self.ms: dict[str, int] = {}
        for note in notes:
            # The slowest shard is what the epoch waits for.
            self.ms.update({step: max(took, self.ms.get(step, 0)) for step, took in note["ms"].items()})

    def published(self, sink: str, content: Rows, published: Published, ms: int) -> None:
        """Take in what the driver itself published."""
        self._sinks[sink] = {"0": content}
        self.ms[sink] = ms
        self.repeated |= published is Published.BEFORE

    def record(self, declaration: Declaration, generation: int, pipeline: Pipeline, shards: int) -> EpochRecord:
        """Return the epoch's record.

        Raises:
            RuntimeError: a shard did not report; the epoch has to be repeated.

        """
        sinks = {**self._gathered("sinks", Rows), **self._sinks}
        wanted = {DEAD_LETTER: shards, **dict.fromkeys(pipeline.destinations, shards)}
        wanted |= dict.fromkeys(self._sinks, 1)
        missing = [name for name, number in wanted.items() if len(sinks.get(name, {})) != number]
        if missing:
            raise RuntimeError(f"epoch {declaration.epoch}: some shards of {missing} did not report")
        decided = [note for _, note in self._notes if "accepted" in note]
        times = [note["max_event_time_ms"] for note in decided if note["max_event_time_ms"] is not None]
        known: Counter[str] = Counter()
        for note in decided:
            known.update(note["catalog"])
        return EpochRecord(
            **declaration.model_dump(),
            generation=generation,
            counts=Counts(**{name: sum(note[name] for note in decided) for name in Counts.model_fields}),
            max_event_time_ms=max(times, default=None),
            sinks=sinks,
            deltas=self._gathered("deltas", Delta),
            merged=self._gathered("merged", Span),
            catalog=dict(known),
            ms=self.ms,
        )

    def _gathered(self, part: str, kind: type[Any]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for shard, note in self._notes:
            for name, content in note[part].items():
                found.setdefault(name, {})[shard] = kind(**content)
        return found
