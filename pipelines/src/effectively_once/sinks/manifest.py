"""The object-store sink: files under names that nobody reads, made visible by a create-once manifest an epoch (R8)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from effectively_once.errors import SinkError
from effectively_once.ledger import checksum, digest
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, body_of, create_once, run
from effectively_once.ledger.rows import Rows
from effectively_once.side_by_side import AT_ONCE, Turn, beside
from effectively_once.sinks import manifest_span
from effectively_once.sinks.manifest_span import Bounds, Manifest, bounds_of, manifest_of
from effectively_once.sinks.publish import Mark, Published
from effectively_once.sinks.staged import StagedFile

PAGE_VALUES, PAGE_BYTES = 1024, 64 << 20
"""A page of a file ends after so many values, or fewer where so many bytes are fewer: its size has 32 bits."""


def _random() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Shown:
    """What an epoch shows: its manifest, None where there is none, and the object that holds it."""

    epoch: int
    key: str
    manifest: Manifest | None


class ManifestSink:
    """Publishes tables of one sink, a table an epoch. An epoch without rows has a manifest that names no file.

    `unique` names what an attempt writes; no two calls may give the same name.
    """

    def __init__(self, store: ObjectStore, layout: Layout, sink: str, unique: Callable[[], str] = _random) -> None:
        self._store, self._layout, self._sink, self._unique = store, layout, sink, unique
        # The span that was read last: who asks for one epoch of it asks for the next one.
        self._span: tuple[Bounds, dict[int, Manifest]] | None = None

    def publish(self, epoch: int, generation: int, table: pa.Table) -> tuple[Rows, Published]:
        """Stage the table's file, then create the manifest; when there is one, compare instead (a repeat is a no-op).

        Raises:
            SinkError: the epoch's manifest names other rows (R4), it is damaged, or the one before is gone (R10).

        """
        return self.publish_staged(epoch, generation, [self.stage(epoch, table)])

    def publish_table(
        self, epoch: int, generation: int, table: pa.Table, *, turn: Turn = AT_ONCE
    ) -> tuple[Rows, Published]:
        """Do as `publish`, and ask for the manifest before while the file is put."""
        with beside("gap", partial(self._refuse_after_a_gap, epoch)):
            staged = self.stage(epoch, table)
        return self._show(epoch, generation, [staged], turn)

    def stage(self, epoch: int, table: pa.Table) -> StagedFile:
        """Write a file that nobody reads before a manifest names it; of no rows there is none."""
        rows, table_digest = table.num_rows, digest.of_rows_in(table)
        if not rows:
            return StagedFile(name=None)
        name = self._layout.staged_file(self._sink, epoch, self._unique())
        buffer = pa.BufferOutputStream()
        values = max(1, PAGE_BYTES * rows // max(1, table.nbytes))
        # With checksums a backup, which does not compare digests, finds what a disk changed.
        pq.write_table(table, buffer, write_batch_size=min(PAGE_VALUES, values), write_page_checksum=True)
        body = buffer.getvalue().to_pybytes()
        run(create_once(name, body), self._store)
        return StagedFile(name=name, rows=rows, digest=table_digest, bytes=len(body))

    def publish_staged(
        self,
        epoch: int,
        generation: int,
        staged: Sequence[StagedFile],
        *,
        begins: bool = False,
        turn: Turn = AT_ONCE,
    ) -> tuple[Rows, Published]:
        """Make an epoch's staged files visible, all of them at once. Raises what `publish` raises.

        `begins` is for a sink that is new to its chain: there, the manifest of the epoch before need not be there.
        `turn` is called right before the manifest is created.
        """
        if not begins:
            self._refuse_after_a_gap(epoch)
        return self._show(epoch, generation, staged, turn)

    def _show(self, epoch: int, generation: int, staged: Sequence[StagedFile], turn: Turn) -> tuple[Rows, Published]:
        content = Rows(
            rows=sum(file.rows for file in staged),
            digest=digest.add(file.digest for file in staged),
            bytes=sum(file.bytes for file in staged),
        )
        files = [{"name": file.name, "rows": file.rows} for file in staged if file.name is not None]
        # Without the name two manifests of no files would be equal, and a repeat would take the first for its own.
        manifest = {
            "epoch": epoch,
            "generation": generation,
            "publication": self._unique(),
            "files": files,
            **content.model_dump(),
        }
        key = self._layout.manifest(self._sink, epoch)
        body = checksum.seal(manifest)
        turn()
        held = run(create_once(key, body), self._store)
        # Of an epoch long recorded the manifest may be gone, into a span: then nothing was in the way of ours (R9).
        span = self._span_of(epoch)
        if span is None and held == body:
            return content, Published.NOW
        theirs = manifest_of(held, key) if span is None else span[epoch]
        ours = self._digest_like(theirs["digest"], staged) if digest.is_former(theirs["digest"]) else content.digest
        if (theirs["rows"], theirs["digest"]) != (content.rows, ours):
            raise SinkError(
                f"epoch {epoch} is published with digest {theirs['digest']}, its repeat has {ours}",
                key,
                "A step of the pipeline is not deterministic: record its outside inputs before it is published. "
                "What is visible stays: `effectively-once repair` tells how to go on.",
            )
        return content, Published.BEFORE

    def _refuse_after_a_gap(self, epoch: int) -> None:
        """Refuse an epoch where readers, who follow manifests without a gap, would never come to it (R10)."""
        key = self._layout.manifest(self._sink, epoch - 1)
        if epoch and run(body_of(key), self._store) is None and self._span_of(epoch - 1) is None:
            raise SinkError(
                f"the manifest of epoch {epoch - 1} is gone: the sink or the chain was recreated or restored from a "
                "backup",
                key,
                "Restore both from one backup, or give the pipeline another name to publish everything anew.",
            )

    def _digest_like(self, like: str, staged: Sequence[StagedFile]) -> str:
        """Digest staged rows in the form of an older version, whose manifest is there: files are all that is left."""
        names = filter(None, (file.name for file in staged))
        bodies = [run(body_of(name), self._store) for name in names]
        tables = [pq.read_table(pa.BufferReader(body)) for body in bodies if body is not None]
        return digest.add(digest.of_rows_in(table, like) for table in tables)

    def has(self, epoch: int) -> bool:
        """Whether the epoch's manifest is there: this sink's progress mark (R10)."""
        return self.manifest(epoch) is not None

    def mark_at(self, epoch: int) -> Mark | None:
        """See StagedSink."""
        found = self.manifest(epoch)
        return None if found is None else Mark(epoch, found["generation"], found["rows"], found["digest"])

    def manifest(self, epoch: int) -> Manifest | None:
        """Return the manifest of an epoch, or None; that of its span where there is one."""
        return self._read_shown([epoch])[0].manifest

    def newest_first(self, last: int, first: int) -> Iterator[Shown]:
        """Yield what epochs `last` down to `first` show, and stop after one without a manifest.

        Raises:
            SinkError: a manifest is damaged.

        """
        while last >= first:
            below = max(first, bounds_of(last)[0])
            for shown in self._read_shown(range(last, below - 1, -1)):
                yield shown
                if shown.manifest is None:
                    return
            last = below - 1

    def _read_shown(self, epochs: Sequence[int]) -> list[Shown]:
        """What epochs of one span show, up to the first that shows nothing; why in this order: `manifest_span`."""
        # Of several epochs the span is asked for before as well: it may spare a thousand requests.
        span = self._known_span(epochs[0]) if len(epochs) == 1 else self._span_of(epochs[0])
        bodies: list[tuple[int, str, bytes | None]] = []
        if span is None:
            for epoch in epochs:
                key = self._layout.manifest(self._sink, epoch)
                bodies.append((epoch, key, run(body_of(key), self._store)))
                if bodies[-1][2] is None:
                    break
            span = self._span_of(epochs[0])
        if span is None:
            return [Shown(epoch, key, None if it is None else manifest_of(it, key)) for epoch, key, it in bodies]
        key = self._layout.manifests(self._sink, *bounds_of(epochs[0]))
        return [Shown(epoch, key, span[epoch]) for epoch in epochs]

    def _known_span(self, epoch: int) -> dict[int, Manifest] | None:
        kept = self._span
        return kept[1] if kept is not None and kept[0] == bounds_of(epoch) else None

    def _span_of(self, epoch: int) -> dict[int, Manifest] | None:
        """The span of an epoch, if it is there; it stays as it is, so it is read once."""
        span = self._known_span(epoch)
        if span is None:
            bounds = bounds_of(epoch)
            span = run(manifest_span.read(self._layout, self._sink, bounds), self._store)
            if span is not None:
                self._span = bounds, span
        return span

    def rows(self, last_epoch: int, first_epoch: int = 0) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """(epoch, object, row) of everything published up to an epoch: manifests only, never a listing.

        Raises:
            SinkError: a manifest is missing or damaged, or a file that one names is missing.

        """
        for epoch in range(first_epoch, last_epoch + 1):
            manifest = self.manifest(epoch)
            if manifest is None:
                raise SinkError(
                    "a manifest is missing", self._layout.manifest(self._sink, epoch), "Restore it from a backup."
                )
            for file in manifest["files"]:
                body = run(body_of(file["name"]), self._store)
                if body is None:
                    raise SinkError(
                        "a file that a manifest names is missing", file["name"], "Restore it from a backup."
                    )
                for row in pq.read_table(pa.BufferReader(body)).to_pylist():
                    yield epoch, file["name"], row
