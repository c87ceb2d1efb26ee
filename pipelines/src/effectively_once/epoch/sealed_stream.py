"""A table as an object that shows damage: an Arrow stream, and behind it the checksum of its bytes."""

from __future__ import annotations

from hashlib import blake2b

import pyarrow as pa

from effectively_once.state import deltas

CHECKSUM_BYTES = 16


def seal(table: pa.Table) -> bytes:
    """Return the stream of a table with its checksum."""
    stream = deltas.encode(table)
    return stream + _checksum(stream)


def open_sealed(body: bytes) -> pa.Table:
    """Return the table; damaged bytes raise one of `deltas.DAMAGE`, whatever they would still be read as."""
    stream = body[:-CHECKSUM_BYTES]
    if _checksum(stream) != body[-CHECKSUM_BYTES:]:
        raise ValueError("its checksum is wrong")
    return deltas.decode(stream)


def _checksum(stream: bytes) -> bytes:
    return blake2b(stream, digest_size=CHECKSUM_BYTES).digest()
