"""The two components behind the source with the acknowledger: the analyzer looks events up, the counter counts them.

Each takes tuples and gives tuples for the next one, and reports for the acknowledger, which the next one passes on.
Both are rows of one form: `root` and `tuple` are numbers of the acknowledger's; a row with a `report` (true: it
failed) is a report, and its `tuple` is then the XOR; a row without one is a tuple.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from effectively_once_jobs.system_usage.store import LookUpError, ResultStore
from effectively_once_jobs.system_usage.usage import portions, with_answers

TUPLES = pa.schema(
    [
        ("root", pa.int64()),
        ("tuple", pa.int64()),
        ("report", pa.bool_()),
        ("id", pa.string()),
        ("user", pa.string()),
        ("system", pa.string()),
        ("event_time_ms", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("fraud", pa.int64()),
    ]
)
SPARK_TUPLES = (
    "root long, tuple long, report boolean, id string, user string, system string, event_time_ms long, "
    "partition int, offset long, fraud long"
)
Numbers = Callable[[int], list[int]]


def numbers(count: int) -> list[int]:
    """Draw numbers of tuples: random, none of them 0."""
    return [secrets.randbelow(2**63 - 1) + 1 for _ in range(count)]


def reports(roots: list[int], xors: list[int], *, failed: bool = False) -> pa.Table:
    """Return reports as rows."""
    rows = {"root": roots, "tuple": xors, "report": [failed] * len(roots)}
    nothing = [None] * len(roots)
    return pa.table({name: rows.get(name, nothing) for name in TUPLES.names}, schema=TUPLES)


def analyze(rows: pa.Table, store: ResultStore, fresh: Numbers = numbers) -> Iterator[pa.Table]:
    """Look up what came as transactions; every tuple that came in is reported, and those emitted are given beside.

    Args:
        rows: tuples, with the `reason` that the transform found. One that is no transaction goes no further: it is
            acknowledged here (early-out).
        store: the result store. Where it gives no answer, the tuples of that portion have failed.
        fresh: draws numbers for the tuples that are emitted.

    """
    out = rows.filter(pc.is_valid(rows["reason"]))
    if out.num_rows:
        yield reports(out["root"].to_pylist(), out["tuple"].to_pylist())
    for portion in portions(rows.filter(pc.is_null(rows["reason"]))):
        roots, came = portion["root"].to_pylist(), portion["tuple"].to_pylist()
        try:
            answered = with_answers(portion, store.frauds(portion["id"].to_pylist()))
        except LookUpError:
            yield reports(roots, came, failed=True)
            continue
        emitted = fresh(len(roots))
        yield reports(roots, [one ^ other for one, other in zip(came, emitted, strict=True)])
        nothing = pa.nulls(len(roots), pa.bool_())
        table = answered.drop_columns(["tuple"]).append_column("tuple", pa.array(emitted, pa.int64()))
        yield table.append_column("report", nothing).select(TUPLES.names).cast(TUPLES)


def count_rows(
    rows: pa.Table, store: ResultStore, window_ms: int, told: Callable[[int], None] = lambda _: None
) -> Iterator[pa.Table]:
    """Count what was looked up; passes reports on, and reports every tuple."""
    passed = rows.filter(pc.is_valid(rows["report"]))
    if passed.num_rows:
        yield passed
    for portion in portions(rows.filter(pc.is_null(rows["report"]))):
        roots, came = portion["root"].to_pylist(), portion["tuple"].to_pylist()
        try:
            store.count(portion, window_ms)
        except LookUpError:
            yield reports(roots, came, failed=True)
        else:
            told(len(roots))
            yield reports(roots, came)


def as_batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Cut tables into what Spark takes."""
    for table in tables:
        yield from table.combine_chunks().to_batches()
