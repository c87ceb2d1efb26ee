"""Ids as the catalog takes them: an id is its bytes, of whatever type its column is."""

from __future__ import annotations

import pyarrow as pa

from effectively_once import long_texts
from effectively_once.errors import SourceError

_TYPES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)
_LARGE = (pa.large_string(), pa.large_binary())


def as_bytes(ids: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array of type binary, of very many bytes large_binary, with the ids' bytes; text becomes UTF-8.

    Raises:
        SourceError: an id is missing, or the column is neither text nor bytes.

    """
    if not len(ids):
        return pa.array([], pa.binary())
    if not any(fits(ids.type) for fits in _TYPES):
        raise SourceError(
            f"ids are of type {ids.type}",
            "column id",
            "Make them text or bytes in the job's transform, in every run by the same rule.",
        )
    if ids.null_count:
        raise SourceError(
            f"{ids.null_count} of {len(ids)} rows have no id",
            "column id",
            "Give such rows a reason in the job's transform: they belong to the dead-letter sink.",
        )
    whole = long_texts.whole(ids) if isinstance(ids, pa.ChunkedArray) else ids
    return whole.cast(pa.large_binary() if whole.type in _LARGE else pa.binary())
