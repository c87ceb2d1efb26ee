"""What an epoch shows that was finished with just that is written down beside the chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from effectively_once.epoch import as_shown
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.columns import COORDINATES
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.collector import USER_COUNTS, Collector
from tests.harness.evidence import EvidenceError, Pin
from tests.harness.run_directory import RunDirectory
from tests.unit.ledger.memory_store import MemoryStore

KEY = Layout("p").shown_rows(3, 0, 2)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def evidence(store: MemoryStore, **other: Any) -> dict[str, Any]:
    rows = pa.table({"topic": ["t", "t"], "partition": [0, 1], "offset": [5, 7]}).cast(COORDINATES)
    shown = {"0": as_shown.write(store, KEY, rows, None).model_dump() | other}
    return {"head": {}, "epochs": [{"epoch": 3, "shown": shown}, {"epoch": 4, "shown": shown, "repairs": 3}]}


def collector(tmp_path: Path, store: MemoryStore, told: dict[str, Any]) -> Collector:
    reader = _Reader(store, told)
    return Collector(RunDirectory(tmp_path), None, reader, USER_COUNTS, pipeline="p", source="s")  # type: ignore[arg-type]


class _Reader(ChainReader):
    def __init__(self, store: MemoryStore, told: dict[str, Any]) -> None:
        self._objects, self._told = self, told  # type: ignore[assignment]
        self.body = store.objects.get

    def evidence(self) -> dict[str, Any]:
        return self._told


def test_places_of_rows_that_are_shown_are_written_down_once(tmp_path: Path, store: MemoryStore) -> None:
    collector(tmp_path, store, evidence(store))._write_chain()
    assert RunDirectory(tmp_path).shown() == [Pin(3, "0", ("t", 0, 5)), Pin(3, "0", ("t", 1, 7))]


def test_a_chain_without_repairs_has_no_such_file(tmp_path: Path, store: MemoryStore) -> None:
    collector(tmp_path, store, {"head": {}, "epochs": [{"epoch": 0}]})._write_chain()
    assert not RunDirectory(tmp_path).observed_path("shown").exists()


def test_an_object_that_is_gone_or_short_is_no_evidence(tmp_path: Path, store: MemoryStore) -> None:
    with pytest.raises(EvidenceError, match="3 rows are pinned, 2 are there"):
        collector(tmp_path, store, evidence(store, rows=3))._write_chain()
    with pytest.raises(EvidenceError, match="2 rows are pinned, 0 are there"):
        collector(tmp_path, store, evidence(store, key="gone"))._write_chain()
