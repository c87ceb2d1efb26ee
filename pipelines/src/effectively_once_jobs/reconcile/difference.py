"""The difference between a stream and a batch run, window by window: pure, from cells that Spark counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of one key and window.

    Attributes:
        key, window_start_ms, value: which; `value` is its name in the declaration.
        timely: what the batch run makes of ids that the stream did not refuse as late.
        late: of ids of which the stream refused every copy as late.
        copies: of further copies of an id; the batch run leaves them out.
        streams: topic -> what it says, all its rows of that key and window added up; 0 where it has none.

    A line of `cells.jsonl` has these fields.
    """

    key: str
    window_start_ms: int
    value: str
    timely: int
    late: int
    copies: int
    streams: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Line:
    """One window of one stream beside the batch run, added up over all keys.

    Attributes:
        window_start_ms, value: which.
        stream: what it says.
        batch: what all records of the topic come to, each id once.
        late: what of it the stream refused as late, and said so: why it is incomplete.
        over, under: what the stream has beyond that and what it lacks, key by key, so that they do not cancel out:
            why it is inaccurate.
        copies: further copies of ids in the topic; a stream that does not know them counts them.
        wrong: keys with `over` or `under`.

    """

    window_start_ms: int
    value: str
    stream: int
    batch: int
    late: int
    over: int
    under: int
    copies: int
    wrong: int

    @property
    def difference(self) -> int:
        """Stream less batch."""
        return self.stream - self.batch


def lines(cells: Iterable[Cell], topic: str, *, refuses_late: bool) -> list[Line]:
    """Add up one stream's cells, a line a window and value, in order.

    Args:
        cells: of all keys and windows.
        topic: of the stream.
        refuses_late: whether it refuses late records; one that does not has to have counted them.

    """
    sums: dict[tuple[int, str], list[int]] = {}
    for cell in cells:
        batch = cell.timely + cell.late
        late = cell.late if refuses_late else 0
        rest = cell.streams[topic] - (batch - late)
        mine = (cell.streams[topic], batch, late, max(rest, 0), max(-rest, 0), cell.copies, int(rest != 0))
        so_far = sums.setdefault((cell.window_start_ms, cell.value), [0] * len(mine))
        so_far[:] = [one + more for one, more in zip(so_far, mine, strict=True)]
    return [Line(start, value, *numbers) for (start, value), numbers in sorted(sums.items())]


def total(found: Sequence[Line]) -> Line:
    """All windows together; start and value are the first one's."""
    names = ("stream", "batch", "late", "over", "under", "copies", "wrong")
    first = found[0] if found else Line(0, "", 0, 0, 0, 0, 0, 0, 0)
    return Line(first.window_start_ms, first.value, *(sum(getattr(one, name) for one in found) for name in names))
