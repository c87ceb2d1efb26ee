"""Finds and deletes what the chain of a pipeline no longer names, while drivers run (R9).

Head is read, the bucket is listed, head is read again. Only what both heads leave unnamed goes, and only of epochs that
the first one had recorded (leftovers.py says why that is for good). So it does not matter how long it takes, how
far drivers come meanwhile, or whether it is interrupted and run again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import TypeVar

from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete
from effectively_once.operate.retention.leftovers import Refused, Sort, Staged, Unknown, View
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.reader import files_of
from effectively_once.store.listing import Listed, ListingStore, S3ListingStore

WORKERS = 8
CHUNK = 1000
"""Objects between two lines of progress; an interrupt is obeyed after as many."""
AGE_S = 3600.0
"""What is younger stays: an hour to find out that a wrong version was deployed."""
YOUNG, KEPT, UNSOUND, FOREIGN = "younger", "kept", "of an epoch without a sound manifest", "of unknown names"
Say = Callable[[str], object]
Letters = Callable[[], Collection[str]]
"""Reads the topic of dead letters: the objects that they name."""
T = TypeVar("T")


@dataclass
class Leftovers:
    """What may be deleted, by sort; `left` counts what looked like it and stays, and why."""

    epoch: int
    floor: int
    objects: dict[Sort, list[Listed]] = field(default_factory=lambda: {sort: [] for sort in Sort})
    left: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        """How many objects may be deleted."""
        return sum(map(len, self.objects.values()))

    def lines(self) -> Iterator[str]:
        """Yield what is told of it."""
        yield f"chain: epoch {self.epoch} is the last recorded, floor {self.floor}"
        for sort, found in self.objects.items():
            yield f"{sort:<12}{len(found):>10,} objects{sum(one.bytes for one in found):>18,} bytes"
        if self.left:
            yield "left: " + ", ".join(f"{number:,} {why}" for why, number in sorted(self.left.items()))


class Retention:
    """Tidies one pipeline.

    Args:
        store: its bucket.
        layout: its names.
        age_s: what is younger stays.
        keep: sorts that stay.
        say: is told how far it is.
        letters: what dead letters name; is asked where a record lies that one may name. Without it they stay.
        now_ms: milliseconds since 1970.

    """

    def __init__(
        self,
        store: ListingStore,
        layout: Layout,
        *,
        age_s: float = AGE_S,
        keep: Collection[Sort] = (),
        say: Say = lambda _: None,
        letters: Letters | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store, self._layout, self._keep, self._say = store, layout, keep, say
        self._letters = letters
        self._youngest_ms = now_ms() - round(age_s * 1000)
        self._manifests: dict[str, ManifestSink] = {}

    def find(self) -> Leftovers:
        """Find what may be deleted.

        Raises:
            ChainError: head is gone, it or a segment is damaged, or the chain was replaced by another meanwhile.
            UnreachableError: the topic of dead letters has to be read and is not to be had.

        """
        first = View.of(self._layout, self._store)
        found = Leftovers(first.head.last_recorded, first.head.floor)
        for prefix in first.prefixes:
            self._look_below(prefix, first, found)
        again = View.of(self._layout, self._store)
        if not first.before(again):
            raise ChainError(
                "the chain is not what it was when its bucket was listed: it was restored, or begun anew",
                self._layout.head,
                "Nothing was deleted. Run this again when drivers work on the new one.",
            )
        for sort, objects in found.objects.items():
            found.objects[sort] = [one for one in objects if not again.needs(one.name)]
        return found

    def delete(self, found: Leftovers) -> None:
        """Delete what was found. What an interrupt leaves is found again."""
        done = 0
        with ThreadPoolExecutor(WORKERS) as pool:
            for chunk in _chunks([one for objects in found.objects.values() for one in objects]):
                for _ in pool.map(lambda one: self._store.answer(Delete(one.name)), chunk):
                    pass
                done += len(chunk)
                self._say(f"{done:,} of {len(found):,} objects are deleted")

    def _look_below(self, prefix: str, view: View, found: Leftovers) -> None:
        files: list[tuple[Staged, Listed]] = []
        records: list[Listed] = []
        number = 0
        for number, one in enumerate(self._store.list_objects(prefix), start=1):
            match view.judge(one.name):
                case Unknown():
                    found.left[FOREIGN] += 1
                case Sort() as sort:
                    self._take([one], sort, found)
                case Staged() as staged:
                    files.append((staged, one))
                case Refused():
                    records.append(one)
            if number % (10 * CHUNK) == 0:
                self._say(f"{prefix}: {number:,} objects are listed")
        self._files(files, found)
        self._records(records, found)

    def _records(self, records: list[Listed], found: Leftovers) -> None:
        """Ask the topic which refused records its letters name: those of recorded epochs are all published."""
        if not records:
            return
        if Sort.LETTERS in self._keep or self._letters is None:
            found.left[KEPT] += len(records)
            return
        named = self._letters()
        self._take([one for one in records if one.name not in named], Sort.LETTERS, found)

    def _files(self, files: list[tuple[Staged, Listed]], found: Leftovers) -> None:
        """Ask the manifests of listed files which of them they name."""
        by_epoch = ((staged, [one for _, one in group]) for staged, group in groupby(files, key=lambda it: it[0]))
        with ThreadPoolExecutor(WORKERS) as pool:
            for chunk in _chunks(by_epoch):
                for (_, listed), named in zip(chunk, pool.map(self._read_named, [it[0] for it in chunk]), strict=True):
                    if named is None:
                        # It may be damage, and then these are the rows: `inspect --deep` names it.
                        found.left[UNSOUND] += len(listed)
                    else:
                        self._take([one for one in listed if one.name not in named], Sort.FILES, found)

    def _read_named(self, staged: Staged) -> frozenset[str] | None:
        key = self._layout.manifest(staged.sink, staged.epoch)
        try:
            manifest = self._sink(staged.sink).manifest(staged.epoch)
            return None if manifest is None else frozenset(files_of(manifest, key))
        except SinkError:
            return None

    def _sink(self, name: str) -> ManifestSink:
        """One for all epochs: it keeps the span that it read last."""
        return self._manifests.setdefault(name, ManifestSink(self._store, self._layout, name))

    def _take(self, listed: list[Listed], sort: Sort, found: Leftovers) -> None:
        if sort in self._keep:
            found.left[KEPT] += len(listed)
            return
        old = [one for one in listed if one.modified_ms <= self._youngest_ms]
        found.objects[sort] += old
        if len(listed) > len(old):
            found.left[YOUNG] += len(listed) - len(old)


def retention(
    settings: PipelineSettings, say: Say, letters: Letters, *, delete: bool, age_s: float, keep: Collection[Sort]
) -> None:
    """Tell what may be deleted of a pipeline, and delete it when asked to. Raises PipelineError."""
    store, layout = S3ListingStore(settings.bucket), Layout(settings.pipeline)
    work = Retention(store, layout, age_s=age_s, keep=keep, say=say, letters=letters)
    found = work.find()
    for line in found.lines():
        say(line)
    if not len(found):
        say("nothing to delete")
    elif not delete:
        say("nothing was deleted; --delete does it")
    else:
        work.delete(found)


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
