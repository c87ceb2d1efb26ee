"""Order-independent digests of rows (R4): equal digests mean equal multisets of rows.

A row has a hash of 64 bits (`hashes`), and from it a second one; a digest is both, each added up over the rows modulo
2^64, as 32 hexadecimal digits, the second sum first. Sums, not exclusive-ors: with the latter two copies of a row would
vanish. What it has to find is a step that is not deterministic, and damage: it withstands chance (one change in 2^64
goes unseen), not malice. BLAKE2 of every row took two thirds of the time of an epoch's first step.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from effectively_once.hashes import U64, mixed, of_ids, of_table

_LANE = np.uint64(0xD6E8FEB86659FD93)
_MASK = (1 << 64) - 1


def of_hashes(hashes: U64) -> str:
    """Digest rows by their hashes."""
    first, second = hashes.sum(dtype=np.uint64), mixed(hashes ^ _LANE).sum(dtype=np.uint64)
    return f"{int(second):016x}{int(first):016x}"


def of_rows(rows: Iterable[bytes]) -> str:
    """Digest rows that are bytes."""
    return of_hashes(of_ids(pa.array(rows, pa.large_binary())))


def of_rows_in(table: pa.Table) -> str:
    """Digest the rows of a table: their values, and the columns these stand in."""
    return of_hashes(of_table(table))


def added(digests: Iterable[str]) -> str:
    """Return the digest of the union (as multisets) of the rows behind `digests`."""
    first = second = 0
    for digest in digests:
        second, first = second + int(digest[:16], 16), first + int(digest[16:], 16)
    return f"{second & _MASK:016x}{first & _MASK:016x}"


EMPTY = "0" * 32
