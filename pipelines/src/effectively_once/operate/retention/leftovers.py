"""Which objects of a pipeline may be deleted: those that the chain does not name, and never will (R9).

The chain says it, not a listing: a listing only tells where to look. An object may go when what one head said about it
can never change again:

- A delta of a recorded epoch. Its record is fixed, so a delta that is no longer named there was below the floor, which
  never sinks, or was merged into a span. A driver that was replaced may create it again; nobody reads it.
- A span below the floor, or one that a recorded epoch named and a longer one replaced. Others may belong to the epoch
  that is declared: they wait for the floor.
- A file of a recorded epoch that its manifest does not name. Whoever stages another finds the manifest there.
- What a step recorded for an epoch that is recorded itself: only a repeat reads it, and a recorded epoch has none.
- What a repair pinned of an epoch as it was shown, once a later one is recorded, the floor has passed it, and head does
  not name it, neither as declared nor in its tail. A `repair` that is under way pins the declared epoch alone.
- A refused record that no dead letter holds, of a recorded epoch whose letters are all published: once the topic has no
  letter that names it. Its retention took that, or the epoch was abandoned or repaired between the two.
- The checkpoint of a lineage that began in an earlier generation, unless it is the declared or the last recorded
  epoch's. No driver goes on with it, and whoever still writes it was replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from effectively_once.ledger import chain, segments
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import ObjectStore, run
from effectively_once.operate.backup import contents

_DELTA = re.compile(r"deltas/[^/]+/\d{4,}/(\d{9,})(?:-(\d{9,})|-r\d{6,})?\.arrow")
_RECORDED = re.compile(r"recorded/[^/]+/\d{4,}/(\d{9,})(?:-r\d{6,})?\.arrow")
_SHOWN = re.compile(r"shown/\d{4,}/(\d{9,})-\d{6,}\.arrow")
_FILE = re.compile(r"([^/]+)/data/(\d{9,})-[^/]+\.parquet")
_LETTER = re.compile(r"dead_letter/records/(\d{9,})-[0-9a-f]{64}")
_CHECKPOINT = re.compile(r"checkpoints/((\d{6,})-[^/]+)/.+")


class Sort(StrEnum):
    """What a leftover was.

    deltas: below the floor, or merged. files: named by no manifest. recorded: outputs that only a repeat of their epoch
    would read. shown: rows that a repair pinned, of an epoch that is repaired. letters: refused records that no dead
    letter names. checkpoints: of former lineages.
    """

    DELTAS = "deltas"
    FILES = "files"
    RECORDED = "recorded"
    SHOWN = "shown"
    LETTERS = "letters"
    CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Staged:
    """A file of a recorded epoch: its manifest tells whether it may go."""

    sink: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that a recorded epoch refused: the topic of dead letters tells whether it may go."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name that this version gives to nothing."""


_OF_EPOCHS: tuple[tuple[re.Pattern[str], Sort | Refused], ...] = ((_RECORDED, Sort.RECORDED), (_LETTER, Refused()))


@dataclass(frozen=True)
class View:
    """What one head says of the pipeline's objects.

    Attributes:
        named: deltas and spans that state is folded from, and what head names of epochs that were shown too little of.
        replaced: every span that a record names or named.
        lineages: of the declared and of the last recorded epoch.
        sinks: names of all sinks; those that are not on the object store have no files there.

    """

    layout: Layout
    head: Head
    named: frozenset[str]
    replaced: frozenset[str]
    lineages: frozenset[str]
    sinks: frozenset[str]

    @classmethod
    def of(cls, layout: Layout, store: ObjectStore) -> View:
        """Read head and the records that it names.

        Raises:
            ChainError: head is gone, or it or a segment is damaged.

        """
        head = run(chain.read(layout), store)
        records = run(segments.history(layout, head, head.floor), store)
        live = (delta.named_object(layout) for delta in contents.live_deltas(records, head.floor))
        spans = (
            layout.span(kind, span.first, span.last, int(shard))
            for record in records
            for kind, by_shard in record.merged.items()
            for shard, span in by_shard.items()
        )
        pinned = (shown.key for of in (head.declared, *head.tail) if of is not None for shown in of.shown.values())
        return cls(
            layout,
            head,
            named=frozenset((*(stored.key for stored in live if stored is not None), *filter(None, pinned))),
            replaced=frozenset(spans),
            lineages=frozenset(last.lineage for last in (head.declared, *head.tail[-1:]) if last is not None),
            sinks=frozenset(sink for record in head.tail for sink in record.sinks),
        )

    @property
    def prefixes(self) -> list[str]:
        """Where leftovers can be. Segments and manifests are read by whoever reads the history, and stay."""
        folders = ("deltas", "recorded", "shown", "checkpoints", *(f"{sink}/data" for sink in sorted(self.sinks)))
        return [*(f"{self.layout.pipeline}/{folder}/" for folder in folders), self.layout.letters]

    def judge(self, name: str) -> Sort | Staged | Refused | Unknown | None:
        """Tell whether an object may go, as far as this head can tell: None when it may not."""
        below, recorded = name.removeprefix(f"{self.layout.pipeline}/"), self.head.last_recorded
        if found := _DELTA.fullmatch(below):
            last = found[2]
            over = int(found[1]) <= recorded if last is None else self._over(name, int(last))
            return Sort.DELTAS if over and name not in self.named else None
        if found := _FILE.fullmatch(below):
            return Staged(found[1], int(found[2])) if int(found[2]) <= recorded else None
        for pattern, what in _OF_EPOCHS:
            if found := pattern.fullmatch(below):
                return what if int(found[1]) <= recorded else None
        if found := _SHOWN.fullmatch(below):
            over = int(found[1]) < min(recorded, self.head.floor)
            return Sort.SHOWN if over and name not in self.named else None
        if found := _CHECKPOINT.fullmatch(below):
            former = int(found[2]) < self.head.generation and found[1] not in self.lineages
            return Sort.CHECKPOINTS if former else None
        return Unknown()

    def _over(self, span: str, last: int) -> bool:
        return last < self.head.floor or span in self.replaced

    def needs(self, name: str) -> bool:
        """Whether this head names an object of state, checkpoint or repair."""
        return name in self.named or any(name.startswith(f"{self.layout.checkpoint(it)}/") for it in self.lineages)

    def before(self, later: View) -> bool:
        """Whether `later` is the same chain, or what became of it."""
        return follows(self.head, later.head)


def follows(then: Head, now: Head) -> bool:
    """Whether a head is of the same chain as an earlier one, and not an older one of it."""
    same = not then.tail or then.last_recorded < now.last_recorded - len(now.tail) + 1 or then.tail[-1] in now.tail
    return same and now.sequence >= then.sequence and now.floor >= then.floor
