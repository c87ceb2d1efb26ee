"""One attempt at one step of one shard: what it decides, publishes and tells."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from effectively_once import long_texts, points
from effectively_once.epoch import message_bytes, publishable, recorded, task_token, whole_input
from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.epoch.publishing import open_sink, open_stager
from effectively_once.epoch.shard_state import ShardState
from effectively_once.errors import ChainError, InputError, StaleDriverError
from effectively_once.ledger import chain
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.ledger.rows import Rows
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.progress import announce
from effectively_once.sinks.publish import Published, Sink
from effectively_once.sinks.staged import StagedFile
from effectively_once.state import deltas
from effectively_once.store import object_store

Confirm = Callable[[], None]
"""Raises EndedTaskError where the task has ended that this step belongs to."""
Opened = Callable[[str, int, Callable[[str], None]], Sink[Any]]
"""Sink of a name and shard, which tells its steps to a function."""


class ShardStep:
    """One attempt at one step of one shard: its sinks, its summary and its announcements.

    Args:
        task: the epoch.
        step: its name.
        shard: the shard.
        attempt: 0 for the first one.
        store: where the chain is.
        opened: opens the sinks.
        confirm: comes before everything that others may see.

    """

    def __init__(
        self,
        task: EpochTask,
        step: str,
        shard: int,
        attempt: int,
        *,
        store: ObjectStore,
        opened: Opened,
        confirm: Confirm = lambda: None,
    ) -> None:
        self.task, self.step, self.shard, self.attempt = task, step, shard, attempt
        self.store, self._opened, self.confirm = store, opened, confirm
        self.state = ShardState(task, shard, store)
        self.sinks: dict[str, Rows] = {}
        self.files: dict[str, StagedFile] = {}
        self.repeated = attempt > 0
        self.ms: dict[str, int] = {}
        self._lap_s = time.perf_counter()
        if attempt > 0:
            self._still_ours()
        self.announce(f"{step}_begun")

    @classmethod
    def of_task(cls, task: EpochTask, step: str) -> ShardStep:
        """Return the step that the running task of Spark is."""
        context = TaskContext.get()
        store = object_store.shared_store(task.settings.bucket)
        shard, attempt = context.partitionId(), context.taskAttemptId()
        return cls(
            task,
            step,
            shard,
            context.attemptNumber(),
            store=store,
            opened=lambda name, shard, told: open_sink(task.pipeline, task.settings, name, shard, told),
            confirm=lambda: task_token.confirm(attempt, task.where(step, shard)),
        )

    def whole_input(
        self, batches: Iterable[pa.RecordBatch], digested: Sequence[str] = (), *, nothing: bool = False
    ) -> list[pa.RecordBatch]:
        """Read the shard's input to its end; for arguments and errors see `whole_input.proven`."""
        return list(self.proven_input(batches, digested, nothing=nothing))

    def proven_input(
        self, batches: Iterable[pa.RecordBatch], digested: Sequence[str], *, nothing: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the shard's input as it comes: nothing is decided before its end. As `whole_input.proven`."""
        where = self.task.where(self.step, self.shard)
        try:
            yield from whole_input.proven(batches, digested, where, nothing=nothing)
        except InputError:
            self.announce(f"{self.step}_refused")
            raise

    def announce(self, what: str, sink: str | None = None) -> None:
        """Tell observers how far this attempt has come."""
        announce(
            "step",
            epoch=self.task.declaration.epoch,
            shard=self.shard,
            sink=sink,
            step=what,
            pid=os.getpid(),
            attempt=self.attempt,
        )
        self.reach(what, sink)

    def reach(self, point: str, sink: str | None = None) -> None:
        """Come by a named point of the protocol."""
        points.reach(point, epoch=self.task.declaration.epoch, shard=self.shard, sink=sink)

    def decide(
        self, kind: str, canonical: deltas.Canonical, table: pa.Table, point: str, largest: int | None = None
    ) -> None:
        """Write the delta that is this shard's decision; `largest` is what `Folded` says."""
        self.confirm()
        self.state.write(kind, canonical, table, largest)
        self.lap(kind)
        self.announce(point)

    def record(self, step: RecordedStep, rows: pa.Table) -> pa.Table:
        """Return rows with the recorded output of a step that is not deterministic."""
        self.confirm()

        def note_answer() -> None:
            self.announce("answered", step.name)
            # The call may have taken minutes, and what is recorded now is there for good.
            self.confirm()

        given, before = recorded.add_recorded(
            step,
            self.store,
            self.task.layout,
            epoch=self.task.declaration.epoch,
            shard=self.shard,
            rows=rows,
            anew=self.task.declaration.decides,
            answered=note_answer,
            faults=self._faults,
        )
        self.repeated |= before
        self.lap(step.name)
        self.announce("recorded", step.name)
        return given

    def _faults(self, answer: pa.Table) -> Iterator[str]:
        yield from publishable.faults(answer, publishable.limits(self.task.pipeline))
        yield from message_bytes.faults(self.task.pipeline, answer)

    def try_rows(self, name: str, rows: pa.Table) -> dict[int, str]:
        """Ask a table which rows it would refuse, by number, and for what; nothing of them stays."""
        table: Any = self._opened(name, self.shard, lambda _: None)
        refused: dict[int, str] = table.find_refused(self.task.generation, rows)
        return refused

    def publish(self, name: str, rows: Any) -> None:
        """Publish this shard's rows of a sink; files are staged, and the driver makes those of all shards visible."""
        self.confirm()
        pipeline = self.task.pipeline
        if name in pipeline.staged_sinks:
            stager = open_stager(pipeline, self.store, self.task.layout, name)
            self.files[name] = stager.stage(self.task.declaration.epoch, rows)
            self.lap(name)
            return

        def pass_on(what: str) -> None:
            self.announce(what, name)
            if what == "transaction_open":
                # The last moment: what is committed is seen.
                self.confirm()

        sink = self._opened(name, self.shard, pass_on)
        content, published = sink.publish(self.task.declaration.epoch, self.task.generation, rows)
        self.sinks[name] = content
        self.repeated |= published is Published.BEFORE
        self.lap(name)
        self.reach("published", name)

    def merge(self, kind: str, canonical: deltas.Canonical) -> None:
        """Merge older deltas where enough of them are there; last of all, nobody waits for it but the next epoch."""
        if self.state.merge(kind, canonical):
            self.lap("merge")

    def summary(self, **counts: Any) -> dict[str, Any]:
        """Return the row that tells the driver what this shard did."""
        told = {
            "sinks": _dump(self.sinks),
            "deltas": _dump(self.state.deltas),
            "merged": _dump(self.state.merged),
            "files": _dump(self.files),
            "repeated": self.repeated,
            "ms": self.ms,
            **counts,
        }
        return {"kind": "shard", "shard": self.shard, "note": json.dumps(told)}

    def lap(self, step: str) -> None:
        """Note the milliseconds since the step before; waiting for rows counts to the first one."""
        now = time.perf_counter()
        took, self._lap_s = round((now - self._lap_s) * 1000), now
        self.ms[step] = self.ms.get(step, 0) + took

    def in_source_order(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the shard, lowest source coordinate first (R4), each asserted to belong to it."""
        found = rows["shard"].unique().to_pylist() if rows.num_rows else [self.shard]
        if found != [self.shard]:
            raise ChainError(
                f"rows of shards {found} came to shard {self.shard}",
                f"epoch {self.task.declaration.epoch}",
                "Adaptive execution must be off in this session.",
            )
        # In numpy: rows come as runs that are in order already, which its sort takes in a tenth of Arrow's time.
        topics = pa.array(sorted(rows["topic"].unique().to_pylist()), pa.string())
        within = [rows[name] for name in reversed(self.task.pipeline.digested)]
        keys = (*within, pc.index_in(rows["topic"], topics))
        return long_texts.take(rows, np.lexsort([key.to_numpy() for key in keys]))

    def _still_ours(self) -> None:
        """Look at head before a repeated attempt.

        This fences nobody (the chain does); it spares two drivers a tug-of-war over producers.
        """
        now = run(chain.there(self.task.layout), self.store)
        if now is not None and now.owner != self.task.owner:
            raise StaleDriverError(
                f"driver {self.task.owner} was replaced by {now.owner}",
                self.task.layout.head,
                "Nothing to do here.",
            )


def _dump(by_name: Mapping[str, Rows]) -> dict[str, dict[str, Any]]:
    return {name: rows.model_dump() for name, rows in by_name.items()}
