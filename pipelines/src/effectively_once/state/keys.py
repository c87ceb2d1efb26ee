"""Keys of windows as text, which is what state and shuffle know: one text for each key, and one key for each text.

A text is itself. A whole number is its digits, a truth value `true` or `false`, a date its days and a time its
microseconds since 1970. Of several columns each is written so, `~` as `~0` and `|` as `~1`, with `|` between.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once import long_texts

_NUMBERS = {pa.int64(): pa.int64(), pa.int32(): pa.int32(), pa.date32(): pa.int32()}
_NUMBERS[pa.timestamp("us", "UTC")] = pa.int64()
TYPES = (pa.string(), pa.bool_(), *_NUMBERS)
"""What a key may be of."""
_BETWEEN = "|"
_ESCAPES = (("~", "~0"), (_BETWEEN, "~1"))


def encode(rows: pa.Table, by: Sequence[str]) -> pa.ChunkedArray:
    """Return the key of each row; no column of it is null."""
    texts = [_text(rows[name]) for name in by]
    if len(texts) == 1:
        return texts[0]
    if 2 * sum(text.nbytes for text in texts) > long_texts.ARRAY_BYTES:
        texts = [text.cast(pa.large_string()) for text in texts]
    for escape in _ESCAPES:
        texts = [pc.replace_substring(text, *escape) for text in texts]
    joined = pc.binary_join_element_wise(*texts, pa.scalar(_BETWEEN, texts[0].type))
    return long_texts.divide(joined, pa.string())


def decode(keys: pa.ChunkedArray, kinds: Sequence[pa.DataType]) -> list[pa.ChunkedArray]:
    """Return the columns that keys are of, of these types."""
    texts = [keys]
    if len(kinds) > 1:
        parts = pc.split_pattern(keys, _BETWEEN)
        texts = [pc.list_element(parts, place) for place in range(len(kinds))]
        for plain, escaped in reversed(_ESCAPES):
            texts = [pc.replace_substring(text, escaped, plain) for text in texts]
    return [_value(text, kind) for text, kind in zip(texts, kinds, strict=True)]


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    number = _NUMBERS.get(column.type)
    return column if column.type == pa.string() else column.cast(number or pa.bool_()).cast(pa.string())


def _value(text: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    number = _NUMBERS.get(kind)
    return text if kind == pa.string() else text.cast(number or pa.bool_()).cast(kind)
