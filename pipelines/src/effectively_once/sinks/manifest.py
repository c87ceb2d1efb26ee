"""The object-store sink: files under names that nobody reads, made visible by a create-once manifest an epoch (R8)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from effectively_once import digest
from effectively_once.errors import SinkError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, body_of, create_once, run
from effectively_once.ledger.records import Rows
from effectively_once.sinks.publish import Published


def _random() -> str:
    return uuid.uuid4().hex


class StagedFile(Rows):
    """A file that was written and is not visible yet; `name` is None where there was nothing to write."""

    name: str | None


class ManifestSink:
    """Publishes tables of one sink, a table an epoch. An epoch without rows has a manifest that names no file.

    `unique` names what an attempt writes; no two calls may give the same name.
    """

    def __init__(self, store: ObjectStore, layout: Layout, sink: str, unique: Callable[[], str] = _random) -> None:
        self._store, self._layout, self._sink, self._unique = store, layout, sink, unique

    def publish(self, epoch: int, generation: int, table: pa.Table) -> tuple[Rows, Published]:
        """Stage the table's file, then create the manifest; when there is one, compare instead (a repeat is a no-op).

        Raises:
            SinkError: the epoch's manifest names other rows (R4), or is damaged.

        """
        return self.publish_staged(epoch, generation, [self.stage(epoch, table)])

    def stage(self, epoch: int, table: pa.Table) -> StagedFile:
        """Write a file that nobody reads before a manifest names it; of no rows there is none."""
        rows, table_digest = table.num_rows, digest.of_rows_in(table)
        if not rows:
            return StagedFile(name=None)
        name = self._layout.staged(self._sink, epoch, self._unique())
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer)
        body = buffer.getvalue().to_pybytes()
        run(create_once(name, body), self._store)
        return StagedFile(name=name, rows=rows, digest=table_digest, bytes=len(body))

    def publish_staged(self, epoch: int, generation: int, staged: Sequence[StagedFile]) -> tuple[Rows, Published]:
        """Make an epoch's staged files visible, all of them at once. Raises what `publish` raises."""
        content = Rows(
            rows=sum(file.rows for file in staged), digest=digest.added(file.digest for file in staged),
            bytes=sum(file.bytes for file in staged),
        )  # fmt: skip
        files = [{"name": file.name, "rows": file.rows} for file in staged if file.name is not None]
        # Without the name two manifests of no files would be equal, and a repeat would take the first for its own.
        manifest = {
            "epoch": epoch, "generation": generation, "publication": self._unique(), "files": files,
            **content.model_dump(),
        }  # fmt: skip
        key = self._layout.manifest(self._sink, epoch)
        body = json.dumps(manifest).encode()
        held = run(create_once(key, body), self._store)
        if held == body:
            return content, Published.NOW
        theirs = _parsed(held, key)
        if (theirs["rows"], theirs["digest"]) != (content.rows, content.digest):
            raise SinkError(
                f"epoch {epoch} is published with digest {theirs['digest']}, its repeat has {content.digest}",
                key,
                "A step of the pipeline is not deterministic: record its outside inputs before it is published.",
            )
        return content, Published.BEFORE

    def has(self, epoch: int) -> bool:
        """Whether the epoch's manifest is there: this sink's progress mark (R10)."""
        return self.manifest(epoch) is not None

    def manifest(self, epoch: int) -> dict[str, Any] | None:
        """Return the manifest of an epoch, or None."""
        key = self._layout.manifest(self._sink, epoch)
        found = run(body_of(key), self._store)
        return None if found is None else _parsed(found, key)

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


def _parsed(body: bytes, key: str) -> dict[str, Any]:
    try:
        manifest = json.loads(body)
        if {"files", "rows", "digest"} <= manifest.keys():
            return dict(manifest)
    except (ValueError, AttributeError):
        pass
    raise SinkError("a manifest is damaged", key, "Restore it from the bucket's versions or a backup.")
