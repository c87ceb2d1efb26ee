"""State of a shard in an epoch: what it knows before, and the deltas that it decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import pyarrow as pa

from effectively_once.epoch.epoch_task import EpochTask
from effectively_once.ledger.delta import Delta, Span
from effectively_once.ledger.objects import ObjectStore
from effectively_once.pipeline.windows import Windowed
from effectively_once.state import catalog, deltas, held, merge, windows


class ShardState:
    """Folded from what the chain names; each worker keeps it folded between epochs.

    Args:
        task: the epoch.
        shard: the shard.
        store: where the deltas are.

    Attributes:
        deltas: kind -> what was decided.
        merged: kind -> older deltas that were merged.

    """

    def __init__(self, task: EpochTask, shard: int, store: ObjectStore) -> None:
        self.task, self.shard, self.store = task, shard, store
        self.deltas: dict[str, Delta] = {}
        self.merged: dict[str, Span] = {}

    def catalog(self) -> catalog.Catalog:
        """Return the ids that are known before this epoch, without those that its watermark let go."""

        def fresh() -> catalog.Catalog:
            # Before it is folded: what is closed takes no memory then.
            known = catalog.Catalog(self.task.windows)
            known.expire(self.task.declaration.watermark_ms)
            return known

        known = self._fold(catalog.KIND, catalog.canonical, fresh)
        known.expire(self.task.declaration.watermark_ms)
        return known

    def window_state(self, windowed: Windowed) -> windows.WindowState:
        """Return the windows that are open before this epoch, those that it closes among them."""
        values = self.task.pipeline.accumulators(windowed)
        own = windowed.windows(self.task.windows)
        fresh = lambda: windows.WindowState(own, values)  # noqa: E731
        found = self._fold(windowed.name, windows.canonical, fresh)
        found.expire(self.task.declaration.previous_watermark_ms)
        return found

    def excess_ms(self, rows: Iterable[held.HeldRows]) -> int | None:
        """Return up to which time this shard holds `rows` too many for those who are behind; None where it does not."""
        return held.excess_ms(rows, self.task.settings.held_rows_max)

    def write(self, kind: str, canonical: deltas.Canonical, table: pa.Table, largest: int | None = None) -> None:
        """Write the delta that is this shard's decision; `largest` is what `Folded` says."""
        log, epoch = self._log(kind, canonical), self.task.declaration.epoch
        delta = log.write(epoch, table)
        if delta.rows:
            delta = delta.model_copy(update={"largest": largest})
        self.deltas[kind] = delta
        _fold_cache().wrote(log, epoch, delta.digest, table)

    def merge(self, kind: str, canonical: deltas.Canonical) -> bool:
        """Merge older deltas where enough of them are there; return whether they were."""
        span = merge.merge_oldest(self._log(kind, canonical), self.task.own_deltas(kind, self.shard))
        if span is not None:
            self.merged[kind] = span
        return span is not None

    def _log(self, kind: str, canonical: deltas.Canonical) -> deltas.ShardDeltas:
        declared = self.task.declaration
        small = deltas.INLINE_BYTES // declared.shards
        return deltas.ShardDeltas(
            self.store, self.task.layout, kind, self.shard, canonical, small, declared.decides, declared.shards
        )

    def _fold(self, kind: str, canonical: deltas.Canonical, fresh: Callable[[], deltas.S]) -> deltas.S:
        named = self.task.deltas_of(kind, self.shard)
        return _fold_cache().state(self._log(kind, canonical), fresh, named, self.task.declaration.epoch)


@lru_cache(maxsize=1)
def _fold_cache() -> deltas.FoldCache:
    """One per Python worker: state stays folded between epochs."""
    return deltas.FoldCache()
