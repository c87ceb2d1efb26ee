"""A copy of a pipeline's chain that is consistent, taken while drivers run.

Everything that a head names is created once, so a copy of a head together with all it names is the chain at that
moment, whatever happened since. Only deletion can be in the way: when an object is gone because the floor has risen
(R9), the copying goes on with the head of now. The head is kept in the manifest, which is written last: a backup
without one is incomplete, and is not restored.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from effectively_once.epoch import refusals
from effectively_once.errors import ChainError
from effectively_once.ledger import segments
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Found, Get, ListedStore, body_of, create_once, run
from effectively_once.operate.backup import contents
from effectively_once.operate.backup.backup_manifest import MANIFEST, BackupError, BackupManifest, Copied
from effectively_once.operate.backup.contents import NamedObject
from effectively_once.operate.backup.location import BackupLocation
from effectively_once.sinks.manifest_span import allowed, bounds_of
from effectively_once.sinks.reader import read_kept

TRIES = 10
"""Heads in a row that may be overtaken by the floor. What was copied once is not copied again, so that two are rare."""
WORKERS = 8
SAY_EVERY = 1000


class _MissingError(Exception):
    """An object that head names is not there; the argument is its name."""


class Backup:
    """Copies one pipeline.

    Args:
        source: its bucket.
        layout: its names.
        place: where to; nothing else may be there.
        sinks: its object-store sinks.
        say: is told how far it is.
        steps: its recorded steps.
        pin: keeps what no copy is of; is shown each head that is copied, and when it was read, ms since 1970.

    """

    def __init__(
        self,
        source: ListedStore,
        layout: Layout,
        place: BackupLocation,
        sinks: Iterable[str],
        say: Callable[[str], object] = lambda _: None,
        *,
        steps: Iterable[str] = (),
        pin: Callable[[Head, int], object] = lambda *_: None,
    ) -> None:
        self._source, self._layout, self._place, self._sinks, self._say = source, layout, place, tuple(sinks), say
        self._steps, self._pin = tuple(steps), pin
        self._copied: dict[str, Copied] = {}

    def take(self, *, all_output: bool = True, checkpoint: bool = False) -> BackupManifest:
        """Copy, and write the manifest.

        Args:
            all_output: all that the object-store sinks have published, not only from the floor on.
            checkpoint: Spark's checkpoint of the last lineage too. Without it a driver begins a new lineage.

        Raises:
            BackupError: the place is not empty, or the floor rose faster than objects could be copied.
            ChainError: there is no head, or something that it names is missing or damaged.
            SinkError: a manifest, or a file that one names, is missing or damaged.

        """
        if run(body_of(MANIFEST), self._place) is not None:
            raise self._taken_error(MANIFEST)
        missing = ""
        for _ in range(TRIES):
            taken_ms = int(time.time() * 1000)
            body, head = self._head()
            self._pin(head, taken_ms)
            try:
                # First what is next to be collected.
                names = self._copy_recorded(head)
                names |= self._copy_all(self._deltas(head))
                listed = self._source.names(self._layout.letters)
                names |= self._copy_all([*contents.list_refused(head, listed)])
                names |= self._copy_all([*contents.segments(self._layout, head), *self._outputs(head, all_output)])
                break
            except _MissingError as error:
                # Collected, if a head that is read now does not name it any more.
                if str(error) == missing:
                    raise ChainError(
                        "an object that the chain names is missing",
                        missing,
                        "Restore it from the bucket's versions or an older backup.",
                    ) from error
                missing = str(error)
                self._say(f"{missing} is not there; going on with the head of now")
        else:
            raise BackupError(
                f"the floor rose above what was being copied, {TRIES} times in a row",
                self._layout.head,
                "Take the backup where copying is faster, or while the pipeline is stopped.",
            )
        if checkpoint:
            names |= set(self._checkpoint(head))
        manifest = BackupManifest(
            pipeline=self._layout.pipeline,
            taken_ms=taken_ms,
            head=body.decode(),
            objects={name: self._copied[name] for name in sorted(names)},
        ).add_digest()
        body = manifest.model_dump_json().encode()
        if run(create_once(MANIFEST, body), self._place) != body:
            raise self._taken_error(MANIFEST)
        return manifest

    def _head(self) -> tuple[bytes, Head]:
        found = self._source.answer(Get(self._layout.head))
        if not isinstance(found, Found):
            raise ChainError("there is no head", self._layout.head, "Check the names of pipeline and bucket.")
        return found.body, decode(found.body, self._layout.head)

    def _copy_recorded(self, head: Head) -> set[str]:
        """Copy what steps recorded for the declared epoch: sinks may show it, and nothing else gives it again (R4)."""
        if head.declared is None:
            return set()
        names = set()
        steps = [*self._steps, *([refusals.STEP] if head.declared.tried else [])]
        for step in steps:
            for shard in range(head.declared.shards):
                key = self._layout.step_record(step, head.declared.epoch, shard, head.declared.decides)
                body = run(body_of(key), self._source)
                # A shard without rows has none, and one that is not there yet was not published either.
                if body is not None:
                    name = key.removeprefix(f"{self._layout.pipeline}/")
                    self._write(name, body)
                    names.add(name)
        if steps and self._head()[1].declared != head.declared:
            raise _MissingError(f"what was recorded for epoch {head.declared.epoch}")
        return names

    def _deltas(self, head: Head) -> list[NamedObject]:
        records = run(segments.history(self._layout, head, head.floor), self._source)
        stored = (delta.named_object(self._layout) for delta in contents.live_deltas(records, head.floor))
        return [*(named for named in stored if named is not None), *contents.shown_rows(self._layout, head)]

    def _outputs(self, head: Head, all_output: bool) -> Iterator[NamedObject]:
        for sink in self._sinks:
            # The declared epoch is published again, from its pinned ranges, by whoever starts the restored chain.
            recorded = head.model_copy(update={"declared": None})
            found = read_kept(self._source, self._layout, sink, recorded, 0 if all_output else head.floor)
            if head.floor <= head.last_recorded and head.floor not in found.manifests:
                raise _MissingError(self._layout.manifest(sink, head.floor))
            for epoch, key in found.keys.items():
                # A span that came since has epochs which this head does not record: restored, they come otherwise.
                if key != self._layout.manifest(sink, epoch) and not allowed(head, bounds_of(epoch)):
                    raise _MissingError(key)
            yield from contents.outputs(found)

    def _copy_all(self, named: list[NamedObject]) -> set[str]:
        names: set[str] = set()
        with ThreadPoolExecutor(WORKERS) as pool:
            for number, name in enumerate(pool.map(self._copy, named), start=1):
                names.add(name)
                if number % SAY_EVERY == 0:
                    self._say(f"{number} of {len(named)} objects are copied")
        return names

    def _copy(self, named: NamedObject) -> str:
        """Copy an object unless it is copied; return its name below the pipeline's prefix."""
        name = named.key.removeprefix(f"{self._layout.pipeline}/")
        if name not in self._copied:
            body = run(body_of(named.key), self._source)
            if body is None:
                raise _MissingError(named.key)
            named.check(body)
            self._write(name, body)
        return name

    def _checkpoint(self, head: Head) -> Iterator[str]:
        """Copy the checkpoint of the last lineage, its logs up to where head is: so it fits (Checkpoint.fits)."""
        recorded = head.tail[-1] if head.tail else None
        last = head.declared or recorded
        if last is None:
            return
        folder = self._layout.checkpoint(last.lineage)
        committed = recorded.batch_id if recorded and recorded.lineage == last.lineage else -1
        ends = {"offsets": last.batch_id, "commits": committed}
        for key in self._source.names(f"{folder}/"):
            log, _, batch = key.removeprefix(f"{folder}/").partition("/")
            if log in ends and batch.isdigit() and int(batch) > ends[log]:
                continue
            body = run(body_of(key), self._source)
            # Spark deletes what it needs no longer.
            if body is not None:
                name = key.removeprefix(f"{self._layout.pipeline}/")
                self._write(name, body)
                yield name

    def _write(self, name: str, body: bytes) -> None:
        if run(create_once(name, body), self._place) != body:
            raise self._taken_error(name)
        self._copied[name] = Copied(bytes=len(body), sha256=hashlib.sha256(body).hexdigest())

    def _taken_error(self, name: str) -> BackupError:
        return BackupError("another backup is there", f"{self._place}, {name}", "Name an empty place.")
