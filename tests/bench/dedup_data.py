"""Ids to be deduplicated, as Parquet files: those that fill a state, then steady batches with copies in known number.

A file is a batch: both arms read one at a time, so a state can be filled by large batches and measured by small ones.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SPAN_MS = 2_400_000
"""An id lives for so much event time: four of the catalog's buckets."""
WINDOW_MS = 60_000
START_MS = 1_750_000_020_000
COLUMNS = "id string, event_time timestamp, event_time_ms long"
COPIES = 0.05
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd: n times this is another number for every n

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Batches:
    """What is read batch by batch.

    Attributes:
        live: ids that are live when the steady batches begin, and from then on.
        fill_rows: rows of a batch that fills, all of them new.
        rows: rows of a steady batch, of which one in twenty is a copy of a live id.
        steady: how many steady batches there are.

    """

    live: int
    fill_rows: int
    rows: int
    steady: int

    @property
    def filling(self) -> list[int]:
        """Rows of each batch that fills."""
        whole, rest = divmod(self.live, self.fill_rows)
        return [self.fill_rows] * whole + [rest] * (rest > 0)

    @property
    def total(self) -> int:
        """Rows of all batches."""
        return self.live + self.steady * self.rows

    @property
    def fresh(self) -> list[int]:
        """New ids of each batch."""
        return [*self.filling, *[self.rows - int(self.rows * COPIES)] * self.steady]

    def numbers(self, batch: int) -> Numbers:
        """Numbers of the ids of a batch, counted from 0 in order of their first appearance."""
        before = sum(self.fresh[:batch])
        new = np.arange(before, before + self.fresh[batch])
        if batch < len(self.filling):
            return new
        rng = np.random.default_rng((9, batch))
        # Out of the younger half: none of them is about to go.
        pool = np.arange(before - self.live // 2, before)
        copies = rng.choice(pool, self.rows - len(new), replace=False)
        return rng.permutation(np.concatenate([new, copies]))

    def table(self, batch: int) -> pa.Table:
        """Rows of a batch; event times ascend from row to row."""
        numbers = self.numbers(batch)
        sizes = [*self.filling, *[self.rows] * self.steady]
        rows = sum(sizes[:batch]) + np.arange(sizes[batch])
        times = START_MS + rows * SPAN_MS // self.live
        stamps = pa.array(times, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        return pa.table({"id": _texts(numbers), "event_time": stamps, "event_time_ms": times})

    def write(self, folder: Path) -> None:
        """Write a file for each batch, in two row groups: both cores read."""
        folder.mkdir(parents=True)
        began = int(time.time()) - 3600
        for batch in range(len(self.fresh)):
            table = self.table(batch)
            path = folder / f"{batch:06d}.parquet"
            pq.write_table(table, path, row_group_size=-(-table.num_rows // 2), use_dictionary=False)
            # Files are read in the order of their times.
            os.utime(path, (began + batch, began + batch))


def _texts(numbers: Numbers) -> pa.Array:
    """Ids of 24 hexadecimal digits: 16 that look like chance, 8 that are the number itself."""
    spread = (numbers.astype(np.uint64) * _SPREAD).astype(">u8").view(np.uint8).reshape(-1, 8)
    plain = numbers.astype(">u4").view(np.uint8).reshape(-1, 4)
    octets = np.concatenate([spread, plain], axis=1)
    digits = np.stack([_DIGITS[octets >> 4], _DIGITS[octets & 15]], axis=2)
    bounds = (np.arange(len(numbers) + 1) * 24).astype(np.int32)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(bounds), pa.py_buffer(digits.tobytes()))
