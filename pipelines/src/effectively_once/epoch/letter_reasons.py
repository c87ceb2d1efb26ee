"""How many dead letters have which reason, in few words: a metric has a series for each, and any text may be one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from effectively_once.sinks.kafka_shard import Row

MOST, OTHER = 40, "other"
"""So many words are told apart; what further ones count is `other`."""
_WORD = re.compile(r"\w{1,64}", re.ASCII)


def count_records(reasons: pa.ChunkedArray) -> dict[str, int]:
    """Count reasons of records by their first word, which is all of most of them."""
    counted = pc.value_counts(reasons)
    return _add(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def count_messages(letters: Iterable[Row]) -> dict[str, int]:
    """Count reasons of dead letters as they are written; few of them, as those of results."""
    return _add((orjson.loads(body)["reason"], 1) for _, body in letters)


def limit(counted: Mapping[str, int], known: Iterable[str] = (), most: int = MOST) -> dict[str, int]:
    """Return the same number of letters with `most` words and `other`: those that are known, then the frequent ones."""
    before = {*known} - {OTHER}
    ranked = sorted(counted, key=lambda word: (word not in before, -counted[word], word))
    new = [word for word in ranked if word not in before and word != OTHER][: max(0, most - len(before))]
    found: Counter[str] = Counter()
    for word in ranked:
        found[word if word in before or word in new else OTHER] += counted[word]
    return dict(found)


def _add(counted: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for reason, number in counted:
        word = _WORD.search(reason)
        found[word[0] if word else OTHER] += number
    return limit(found)
