"""A chain put back from a backup, into a pipeline that has none. Head comes last: before it, nothing has begun."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from effectively_once.errors import ChainError
from effectively_once.ledger.head import Head, decode
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ListedStore, body_of, create_once, run
from effectively_once.operate.backup.backup import WORKERS
from effectively_once.operate.backup.backup_manifest import BackupError, BackupManifest, manifest_of, object_of
from effectively_once.operate.backup.location import BackupLocation

GENERATIONS = 1_000_000
"""More drivers than start between a backup and its restore: a sink that compares the generations of its marks would
else take the drivers to come for stale ones."""


def restore(
    place: BackupLocation,
    target: ListedStore,
    layout: Layout,
    accept: Callable[[Head], None] = lambda _: None,
    say: Callable[[str], object] = lambda _: None,
    *,
    kept: Collection[str] = (),
) -> Head:
    """Verify a backup, put its objects back, then its head; return that head.

    A restore that was interrupted is finished by another one of the same backup; one that is finished is not repeated.

    Args:
        place: where the backup is.
        target: bucket of the pipeline.
        layout: its names.
        accept: is shown the head and raises to refuse it.
        say: is told how far it is.
        kept: folders of the pipeline that may have what is not of the backup: nobody lists them for a decision.

    Raises:
        BackupError: the backup is incomplete, damaged, or of another pipeline.
        ChainError: the pipeline has a chain, or anything that is not of this backup.

    """
    manifest = manifest_of(place)
    if manifest.pipeline != layout.pipeline:
        raise BackupError(
            f"the backup is of pipeline {manifest.pipeline}, the settings are of {layout.pipeline}",
            str(place),
            "Correct the settings: topics, marks and manifests carry the pipeline's name.",
        )
    head = restored_head(manifest)
    accept(head)
    there = run(body_of(layout.head), target)
    if there == head.encode():
        say("this backup is restored already; nothing was changed")
        return head
    if there is not None:
        raise _in_use(layout)
    _refuse_others(manifest, target, layout, kept)
    with ThreadPoolExecutor(WORKERS) as pool:
        say(f"verifying {len(manifest.objects)} objects")
        for _ in pool.map(lambda name: object_of(place, manifest, name), manifest.objects):
            pass

        def put(name: str) -> None:
            body, key = object_of(place, manifest, name), f"{layout.pipeline}/{name}"
            if run(create_once(key, body), target) != body:
                raise _not_empty(layout, [name])

        say("putting them back")
        for _ in pool.map(put, manifest.objects):
            pass
    if run(create_once(layout.head, head.encode()), target) != head.encode():
        raise _in_use(layout)
    return head


def restored_head(manifest: BackupManifest) -> Head:
    """Return the head that a restore writes: of another owner than any before, so of an ETag that no driver holds.

    A driver that slept since the backup would otherwise go on with it, and without a start check. The sinks' topics may
    have been put back under other ids: those that the next start finds are taken.
    """
    head = decode(manifest.head.encode(), "head of the backup")
    changed = {
        "owner": f"restored-{manifest.digest[:16]}",
        "generation": head.generation + GENERATIONS,
        "sequence": head.sequence + 1,
        "sink_topics": {},
    }
    return head.model_copy(update=changed)


def _refuse_others(manifest: BackupManifest, target: ListedStore, layout: Layout, kept: Collection[str]) -> None:
    """Refuse what is not of the backup: a delta or manifest of a later epoch would be taken for a decision (R5)."""
    prefix = f"{layout.pipeline}/"
    names = (key.removeprefix(prefix) for key in target.names(prefix))
    others = [name for name in names if name not in manifest.objects and name.partition("/")[0] not in kept]
    if others:
        raise _not_empty(layout, others)


def _in_use(layout: Layout) -> ChainError:
    return ChainError(
        "the pipeline has a chain",
        layout.head,
        "Nothing was changed. Stop its driver, move all its objects away, and restore then; or into another bucket.",
    )


def _not_empty(layout: Layout, names: list[str]) -> ChainError:
    return ChainError(
        f"{len(names)} objects of the pipeline are not those of the backup, the first is {names[0]}",
        f"{layout.pipeline}/",
        "Move all its objects away, and restore then; or into another bucket.",
    )
