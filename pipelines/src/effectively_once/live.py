"""The deltas that state is folded from: which of them live, from which epoch on, and which can go (R5, R9)."""

from __future__ import annotations

from collections.abc import Iterable

from effectively_once import catalog, deltas, state
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Delete, ObjectStore
from effectively_once.ledger.records import Declaration, EpochRecord
from effectively_once.windows import Windows


class LiveDeltas:
    """Epoch records from the floor on, as the chain names them; nothing is found by listing."""

    def __init__(self, layout: Layout, windows: Windows, records: Iterable[EpochRecord], floor: int) -> None:
        self._layout, self._windows = layout, windows
        self._records = [record for record in records if record.epoch >= floor]

    def add(self, record: EpochRecord) -> None:
        """Take in an epoch that was published."""
        self._records.append(record)

    def named(self) -> dict[str, dict[int, list[deltas.Named]]]:
        """Name the live deltas by kind and shard, as executors are told of them."""
        named: dict[str, dict[int, list[deltas.Named]]] = {}
        for record in self._records:
            for kind, by_shard in record.deltas.items():
                for shard, rows in by_shard.items():
                    if rows.rows:
                        named.setdefault(kind, {}).setdefault(int(shard), []).append(deltas.Named(record.epoch, rows))
        return named

    def floor(self, declaration: Declaration) -> int:
        """Find the oldest epoch whose deltas matter: older ones hold only windows that are final and recorded."""
        for record in self._records:
            latest = record.max_event_time_ms
            if latest is None:
                continue
            if not self._windows.closed(self._windows.start(latest), declaration.previous_watermark_ms):
                return record.epoch
        return declaration.epoch

    def collect(self, store: ObjectStore, floor: int) -> None:
        """Delete the deltas below the floor, which head holds already (R9). What a crash leaves behind nobody reads."""
        for record in [record for record in self._records if record.epoch < floor]:
            for kind in (catalog.KIND, state.KIND):
                for shard, rows in record.deltas.get(kind, {}).items():
                    if rows.rows and rows.inline is None:
                        store.answer(Delete(self._layout.delta(kind, record.epoch, int(shard))))
            self._records.remove(record)
