"""Batches of ids hold exactly as many new ones as is said, and every copy is one of a live id."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.bench.dedup_data import SPAN_MS, Batches

BATCHES = Batches(live=10_000, fill_rows=4_000, rows=1_000, steady=15)


def test_new_ids_of_each_batch_are_as_many_as_is_said() -> None:
    known: set[str] = set()
    for batch, fresh in enumerate(BATCHES.fresh):
        ids = BATCHES.table(batch)["id"].to_pylist()
        assert len(set(ids)) == len(ids)
        assert len(set(ids) - known) == fresh
        known |= set(ids)


def test_the_state_is_filled_before_the_first_copy() -> None:
    assert BATCHES.filling == [4_000, 4_000, 2_000]
    assert BATCHES.fresh[3:] == [950] * 15
    assert sum(BATCHES.table(batch).num_rows for batch in range(18)) == BATCHES.total


def test_a_copy_is_one_of_an_id_that_is_still_live() -> None:
    first: dict[str, int] = {}
    for batch in range(len(BATCHES.fresh)):
        table = BATCHES.table(batch)
        for identity, time_ms in zip(table["id"].to_pylist(), table["event_time_ms"].to_pylist(), strict=True):
            assert time_ms - first.setdefault(identity, time_ms) < SPAN_MS * 0.75


def test_live_ids_span_the_time_an_id_lives() -> None:
    times = [BATCHES.table(batch)["event_time_ms"] for batch in range(3)]

    assert pc.max(times[-1]).as_py() - pc.min(times[0]).as_py() == SPAN_MS - SPAN_MS // 10_000


def test_files_are_read_in_order_by_both_cores(tmp_path: Path) -> None:
    BATCHES.write(tmp_path / "ids")

    files = sorted((tmp_path / "ids").iterdir())
    ages = [file.stat().st_mtime for file in files]
    # Whole seconds apart: Spark orders files by time alone, and not by parts of a millisecond.
    assert all(after - before >= 1 for before, after in pairwise(ages))
    assert {pq.ParquetFile(file).num_row_groups for file in files} == {2}
