"""What the shards of an epoch told, put together to its record."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from effectively_once.epoch.epoch import totals_of
from effectively_once.errors import InputError
from effectively_once.ledger.clock import Times, latest
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.epoch_record import Counts, EpochRecord
from effectively_once.ledger.rows import Rows
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.side_by_side import Turn, in_turn
from effectively_once.sinks.publish import Published
from effectively_once.sinks.staged import StagedFile, StagedSink

log = structlog.get_logger()
Note = dict[str, Any]
Beside = tuple[Sequence[int], Sequence[Note]]
"""Notes that came beside the rows: their shards, and the notes."""


class Summary:
    """The notes of the shards' steps (`ShardStep.summary`), with the shard of each, and what the driver published.

    Attributes:
        repeated: some of the epoch had been published before.
        ms: milliseconds of the slowest shard, by step.
        letters: dead letters by the first word of their reason (`letter_reasons`).

    """

    def __init__(self, shards: Sequence[int], notes: Sequence[Note]) -> None:
        self._notes = list(zip(map(str, shards), notes, strict=True))
        self.repeated = any(note["repeated"] for note in notes)
        self._sinks: dict[str, dict[str, Rows]] = {}
        self.ms: dict[str, int] = {}
        self.letters: Counter[str] = Counter()
        for note in notes:
            self.letters.update(note.get("letters", {}))
            # The slowest shard is what the epoch waits for.
            self.ms.update({step: max(took, self.ms.get(step, 0)) for step, took in note["ms"].items()})

    @classmethod
    def of(cls, found: pa.Table, beside: Beside = ((), ())) -> Summary:
        """Take the notes from what the steps returned (`between`), and from what came `beside` it, by shard."""
        told = found.filter(pc.equal(found["kind"], "shard"))
        shards = [*beside[0], *told["shard"].to_pylist()]
        return cls(shards, [*beside[1], *(json.loads(note) for note in told["note"].to_pylist())])

    def require_every_offset(self, declaration: Declaration, *, dense: bool) -> None:
        """Compare the records that all shards read with the offsets that are declared (R13).

        Args:
            declaration: of the epoch.
            dense: whether every offset of the topic is a record. Transactions and aborted records leave holes.

        Raises:
            InputError: there are too many records, or too few.

        """
        offsets = declaration.offsets
        if offsets is None:
            return
        read = sum(note["came" if "came" in note else "read"] for _, note in self._notes if "read" in note)
        if read > offsets or (dense and read < offsets):
            raise InputError(
                f"the shards read {read} {'records' if self._records is not None else 'rows'} of {offsets} offsets",
                f"epoch {declaration.epoch}",
                "The epoch is repeated. If no repeat helps: set dense_offsets to false "
                "where somebody sends in transactions, else keep the driver's log.",
            )

    @property
    def _records(self) -> int | None:
        """Return of how many records the epoch took the first row; None where a record is one row."""
        told = [note["records"] for _, note in self._notes if "records" in note]
        return sum(told) if told else None

    def files(self) -> dict[str, list[StagedFile]]:
        """Files that the shards staged, by sink."""
        return {name: list(by_shard.values()) for name, by_shard in self._gather("files", StagedFile).items()}

    def publish_files(
        self,
        pipeline: Pipeline,
        found: pa.Table,
        declaration: Declaration,
        generation: int,
        sink: Callable[[str], StagedSink],
    ) -> None:
        """Make visible what is published as files: those that the shards staged, and the totals of windows.

        Args:
            pipeline: the declaration.
            found: what the steps returned (`between`).
            declaration: of the epoch.
            generation: of this driver.
            sink: opens one.

        Raises:
            RuntimeError: a shard did not report; nothing of any of them is visible.
            SinkError: the epoch is there with other rows (R4).
            PipelineError: as a sink does; of several, the first one's.

        """
        epoch, staged = declaration.epoch, self.files()
        totals = {each.totals.name: each for each in pipeline.windows if each.totals is not None}
        names = pipeline.staged_sinks
        missing = [name for name in names if name not in totals and len(staged.get(name, [])) != declaration.shards]
        if missing:
            # They are shown at once: with some of the rows the epoch could never be completed.
            raise RuntimeError(f"epoch {epoch}: some shards of {missing} did not report")

        def show(name: str, opened: StagedSink, turn: Turn) -> tuple[Rows, Published, int]:
            began = time.monotonic()
            if name in totals:
                table, wide = totals_of(pipeline, totals[name], found)
                for row in wide:
                    log.warning("total too large, null is published", epoch=epoch, sink=name, **_exact(row))
                table = table.select(pipeline.schema_of(name).names)
                content, published = opened.publish_table(epoch, generation, table, turn=turn)
            else:
                content, published = opened.publish_staged(epoch, generation, staged[name], turn=turn)
            return content, published, round((time.monotonic() - began) * 1000)

        # What is visible becomes so in the order of declaration, and nothing does behind one that fails.
        shown = in_turn("show", [partial(show, name, sink(name)) for name in names])
        for name, (content, published, took) in zip(names, shown, strict=True):
            self._sinks[name] = {"0": content}
            self.ms[name] = self.ms.get(name, 0) + took
            self.repeated |= published is Published.BEFORE

    def record(self, declaration: Declaration, generation: int, pipeline: Pipeline, shards: int) -> EpochRecord:
        """Return the epoch's record.

        Raises:
            RuntimeError: a shard did not report; the epoch has to be repeated.

        """
        sinks = {**self._gather("sinks", Rows), **self._sinks}
        wanted = {DEAD_LETTER: shards, **dict.fromkeys(pipeline.sinks, shards)}
        wanted |= dict.fromkeys(pipeline.staged_sinks, 1)
        missing = [name for name, number in wanted.items() if len(sinks.get(name, {})) != number]
        if missing:
            raise RuntimeError(f"epoch {declaration.epoch}: some shards of {missing} did not report")
        decided = [note for _, note in self._notes if "accepted" in note]
        times = [note["max_event_time_ms"] for note in decided if note["max_event_time_ms"] is not None]
        known: Counter[str] = Counter()
        left_out: Counter[str] = Counter()
        shown: Times = {}
        excess = (note["excess_ms"] for _, note in self._notes if note.get("excess_ms") is not None)
        for note in decided:
            known.update(note["catalog"])
            left_out.update(note.get("filtered", {}))
            shown = latest(shown, note.get("shown_ms", {}))
        left = {shard: note["left"] for shard, note in self._notes if "left" in note}
        came = {shard: Rows(**note["input"]) for shard, note in self._notes if "input" in note}
        if declaration.is_abandoned:
            # A rest that was abandoned is left once more.
            left, came = declaration.after, declaration.came
        return EpochRecord(
            **declaration.model_dump(exclude={"came"}),
            generation=generation,
            counts=Counts(**{name: sum(note[name] for note in decided) for name in Counts.model_fields}),
            filtered=dict(sorted(left_out.items())),
            records=self._records,
            max_event_time_ms=max(times, default=None),
            sinks=sinks,
            deltas=self._gather("deltas", Delta),
            merged=self._gather("merged", Span),
            catalog=dict(known),
            ms=self.ms,
            shown_ms=shown,
            left=left,
            excess_ms=max(excess, default=None),
            came=came,
        )

    def _gather(self, part: str, kind: type[Any]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for shard, note in self._notes:
            for name, content in note[part].items():
                found.setdefault(name, {})[shard] = kind(**content)
        return found


def _exact(row: dict[str, Any]) -> dict[str, str]:
    """Whole numbers as text: a reader of JSON may take them for floating-point numbers."""
    return {name: str(value) for name, value in row.items()}
