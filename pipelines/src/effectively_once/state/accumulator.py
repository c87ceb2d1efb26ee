"""What is kept of an aggregate over columns of known types, and what it comes to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from effectively_once.state.cells import How

SUM_TOO_LARGE, TOO_MANY_DISTINCT, BAD_RESULT = "sum_too_large", "too_many_distinct", "bad_result"
"""Reasons of dead letters that are no records, but results of windows."""
IMPOSSIBLE = frozenset({SUM_TOO_LARGE, TOO_MANY_DISTINCT, BAD_RESULT})


@dataclass(frozen=True, slots=True)
class Part:
    """A column of state.

    Attributes:
        name: within its value; empty where it is the only one.
        type: int64 or binary.
        how: two of its values become one.
        apart: whether they do so at the end alone, all at once, as merging some before might come to another result.

    """

    name: str
    type: pa.DataType
    how: How
    apart: bool = False


class Accumulator(ABC):
    """An aggregate over columns of known types.

    Attributes:
        parts: what is kept.
        result: type of what it comes to.
        reason: of a dead letter where it comes to nothing that a sink takes; None where that cannot be.
        texts: how many texts or bytes of its column a result may show.
        json_bytes: how many bytes a result has as JSON beside these and what any of its type has.

    """

    parts: tuple[Part, ...]
    result: pa.DataType
    reason: str | None = None
    texts: int = 0
    json_bytes: int = 0

    @abstractmethod
    def of(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """Return what is kept of each of some rows alone, a column for each part."""

    @abstractmethod
    def finish(self, kept: Sequence[Any]) -> Any:
        """Return the result of a group, by what is kept of it; None where no sink takes it.

        A part that is summed may be beyond 64 bits.
        """

    def results(self, kept: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """Return the results of groups, null as `finish` has None."""
        found = [self.finish(one) for one in zip(*(column.to_pylist() for column in kept), strict=True)]
        return pa.chunked_array([pa.array(found, self.result)])

    def exact(self, kept: Sequence[Any]) -> Any:
        """Return what `finish` has None for, as a dead letter tells it."""
        return self.finish(kept)

    def size(self, kept: Sequence[pa.ChunkedArray]) -> int:  # noqa: ARG002
        """Return how large the largest result of a delta is: where those of all deltas come to 2^63-1, one may be None.

        It bounds what merging adds up to, whichever the groups are. 0 where no result can be None.
        """
        return 0


Accumulators = Mapping[str, Accumulator]
"""By the names of the values."""
