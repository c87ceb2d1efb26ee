"""Order-independent digests of rows (R4): equal digests mean equal multisets of rows.

A row's hash is XXH3 of its bytes, 128 bits; a digest is the sums of both halves over the rows, each modulo 2^64, as 32
hexadecimal digits behind `xxh3:`. Sums, not exclusive-ors: with the latter two copies of a row would vanish. What a
digest has to find is a step that is not deterministic, and damage: it withstands chance (one change in 2^128 goes
unseen), not malice.

Digests of other forms are those of older versions. They stay in chains, marks and manifests, and are compared with what
the same rows come to in their own form.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from xxhash import xxh3_128_digest

from effectively_once.ledger import former_digest, row_bytes

EMPTY = "0" * 32
"""Digest of no rows, in both forms."""
_FORM = "xxh3:"
_MASK = (1 << 64) - 1


def of_rows(rows: Iterable[bytes], like: str = EMPTY) -> str:
    """Digest rows that are bytes, in the form of the digest `like`; that of no rows stands for today's."""
    return former_digest.of_rows(rows) if is_former(like) else _sum_up([[*rows]])


def of_rows_in(table: pa.Table, like: str = EMPTY) -> str:
    """Digest the rows of a table, as `of_rows` does: their values, and the columns these stand in."""
    return former_digest.of_rows_in(table) if is_former(like) else _sum_up(row_bytes.of_table(table))


def add(digests: Iterable[str]) -> str:
    """Return the digest of the union (as multisets) of the rows behind `digests`.

    Raises:
        ValueError: they are of two forms, or one is none.

    """
    known = [digest for digest in digests if digest != EMPTY]
    if not known:
        return EMPTY
    if len({is_former(digest) for digest in known}) > 1:
        raise ValueError("digests of two forms have no sum")
    first = second = 0
    for digest in known:
        lanes = digest.removeprefix(_FORM)
        first, second = first + int(lanes[:16], 16), second + int(lanes[16:], 16)
    return _format("" if is_former(known[0]) else _FORM, first, second)


def is_former(digest: str) -> bool:
    """Whether a digest has the form that older versions wrote; that of no rows has not."""
    return digest != EMPTY and not digest.startswith(_FORM)


def _sum_up(parts: Iterable[list[bytes]]) -> str:
    rows = first = second = 0
    for part in parts:
        lanes = np.frombuffer(b"".join(map(xxh3_128_digest, part)), ">u8").reshape(-1, 2)
        sums = lanes.sum(axis=0, dtype=np.uint64)
        rows, first, second = rows + len(part), first + int(sums[0]), second + int(sums[1])
    return _format(_FORM, first, second) if rows else EMPTY


def _format(form: str, first: int, second: int) -> str:
    return f"{form}{first & _MASK:016x}{second & _MASK:016x}"
