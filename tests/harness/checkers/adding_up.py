"""Whether what became of the records adds up: in = on time + late + duplicate + malformed, for every job the same.

Where a record has several rows these are what adds up. `records` counts those whose first row an epoch took: together
they are what the topic holds.

Where a transform leaves records out, they are a fifth part: `filtered`, which counts them by reason.

Nothing is recomputed: it needs what the epochs count, how many records the topic holds, and where there is one the
dead-letter sink. So it can be asked of jobs that have no reference, and of runs whose reference may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.harness.evidence import EpochRecord

ON_TIME, DUPLICATE, LATE, MALFORMED = "accepted", "duplicate", "late", "malformed"
PARTS = (ON_TIME, LATE, DUPLICATE, MALFORMED)
FILTERED = "filtered"
"""No part of an epoch that has none: it is not told then."""
RECORDS = "records"
"""As `in`, of an epoch whose records have several rows; others do not tell it."""
Row = Mapping[str, Any]


def published_epochs(events: Iterable[Row]) -> list[Row]:
    """Every publication of an epoch that a history tells of, repeats among them."""
    return [event for event in events if event["event"] == "epoch" and event.get("state") == "published"]


def recorded_epochs(epochs: Iterable[EpochRecord]) -> list[Row]:
    """What a chain records of its epochs, under the same names."""
    return [
        {"epoch": record.epoch, **record.counts.model_dump(by_alias=True), FILTERED: record.filtered}
        | ({} if record.records is None else {RECORDS: record.records})
        for record in epochs
    ]


def sums(epochs: Iterable[Row]) -> Counter[str]:
    """What became of all records, each epoch once: as it was published last."""
    found: Counter[str] = Counter()
    for row in {row["epoch"]: row for row in epochs}.values():
        found.update({name: row.get(name, 0) for name in ("in", *PARTS)})
        if left_out := _left_out(row):
            found[FILTERED] += left_out
        if RECORDS in row:
            found[RECORDS] += row[RECORDS]
    return found


def _left_out(row: Row) -> int:
    return sum(row.get(FILTERED, {}).values())


def complaints(epochs: Sequence[Row], held: int, dead: Iterable[Row] | None = None) -> list[str]:
    """Describe every sum that is off.

    Args:
        epochs: `epoch`, `in` and the four parts of each, and `filtered` (reason -> number) of those that have it.
        held: records that the topic holds.
        dead: rows of the dead-letter sink, with `reason` and `source`; None where another oracle compares each of them.

    """
    found: list[str] = []
    for row in epochs:
        lacking = [name for name in ("in", *PARTS) if type(row.get(name)) is not int]
        if lacking:
            return [f"epoch {row.get('epoch')} does not tell its {', '.join(lacking)}"]
        told = {name: row[name] for name in PARTS}
        if left_out := _left_out(row):
            told[FILTERED] = left_out
        parts = sum(told.values())
        if row["in"] != parts:
            named = " + ".join(f"{number} {name}" for name, number in told.items())
            found.append(f"epoch {row['epoch']}: in is {row['in']}, and not {named} = {parts}")
        if RECORDS in row and row[RECORDS] > row["in"]:
            found.append(f"epoch {row['epoch']}: {row['in']} rows are of {row[RECORDS]} records, each of which has one")
    whole = sums(epochs)
    read = whole[RECORDS] if RECORDS in whole else whole["in"]
    if read != held:
        found.append(f"the epochs read {read} records, the topic holds {held}")
    return found if dead is None else found + _dead(whole, dead)


def _dead(whole: Mapping[str, int], dead: Iterable[Row]) -> list[str]:
    """Every record that was refused is a dead letter, once, with its reason."""
    reasons: Counter[str] = Counter()
    places: Counter[tuple[Any, ...]] = Counter()
    for row in dead:
        reasons[str(row.get("reason"))] += 1
        places[*(row.get("source") or ()), *([row["pos"]] if "pos" in row else [])] += 1
    letters = {LATE: reasons[LATE], MALFORMED: reasons.total() - reasons[LATE]}
    found = [
        f"{whole[name]} records are counted as {name}, {number} dead letters say so"
        for name, number in letters.items()
        if whole[name] != number
    ]
    twice = [place for place, times in places.items() if times > 1]
    return [*found, *(f"the record at {place} is a dead letter more than once" for place in twice[:1])]
