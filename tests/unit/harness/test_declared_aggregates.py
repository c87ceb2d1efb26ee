"""The judge's own arithmetic against the product's: neither knows the other, and both come to the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once import (
    Average,
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    OwnAggregate,
    Pipeline,
    Sum,
    ToFiles,
    ToKafka,
    ToTable,
    Windowed,
)
from effectively_once.epoch.messages import messages
from effectively_once.state import windows as state
from effectively_once.state.lateness import Windows
from tests.depth import examples
from tests.harness.checkers import aggregated
from tests.harness.checkers.aggregated import Value
from tests.harness.checkers.declared import Declaration, Given, Replayed, identity, replay
from tests.harness.checkers.declared_run import DueRows
from tests.harness.definition.declared import describe
from tests.harness.definition.schemas import schemas_of, values_of
from tests.harness.evidence import EpochRecord
from tests.harness.wire import spell
from tests.unit.harness.epochs import record_of
from tests.unit.library.column_values import KINDS

COLUMNS = pa.schema([(f"c{number}", kind) for number, kind in enumerate(KINDS)])
KEYS = ("c0", "c7", "c8", "c9", "c10")
"""Whole numbers, truth values, dates, times and texts."""
NUMBERS = tuple(f"c{number}" for number in range(7))
ROWS = st.lists(
    st.tuples(st.integers(-150, 150), st.tuples(*(st.sampled_from([0, 1]) for _ in KINDS))), min_size=1, max_size=12
)


def function(frame: Any) -> Any:
    return frame


def pipeline(by: str | tuple[str, ...]) -> Pipeline:
    values: dict[str, Any] = {"rows": Count()}
    for name in COLUMNS.names:
        several: dict[str, Any] = {"min": Min(name), "max": Max(name), "first": First(name), "last": Last(name)}
        several |= {"few": CountDistinct(name, 1), "some": Collect(name, 2)}
        several |= {"sum": Sum(name), "mean": Average(name)} if name in NUMBERS else {}
        values |= {f"{how}_{name}": value for how, value in several.items()}
    to = ToKafka("results", message_bytes_max=1_000_000)
    return Pipeline(function, COLUMNS, windows=(Windowed(by, values, to, totals=ToFiles("totals")),))


def pinned(number: int, watermark_ms: int | None, rows: int) -> EpochRecord:
    return record_of(number, watermark_ms, ranges={"t": {0: (0, rows) if number == 0 else (rows, rows)}})


def declared(made: Pipeline) -> Declaration:
    said = orjson.loads(orjson.dumps(describe(made)["declaration"]))
    return Declaration.of({**said, "pipeline": "p", "window_ms": 100, "lateness_ms": 0})


def judged(made: Pipeline, table: pa.Table) -> tuple[Declaration, Replayed]:
    """What the judge says is due, of the rows as evidence has them."""
    declaration = declared(made)
    lines = [orjson.loads(orjson.dumps(row, default=spell)) for row in table.to_pylist()]
    given_ = [Given(("t", 0, number), None, {"id": str(number), **line}, "") for number, line in enumerate(lines)]
    return declaration, replay(declaration, given_, [pinned(0, None, len(lines)), pinned(1, 10_000, len(lines))])


@pytest.mark.parametrize("by", [*KEYS, KEYS], ids=str)
@settings(max_examples=examples(15), deadline=None)
@given(st.data())
@pytest.mark.thinned(3)
def test_what_the_product_shows_is_what_the_judge_says_is_due(by: Any, data: st.DataObject) -> None:
    """Values beyond what a result holds too: these are in no sink, and null in a total."""
    edges = [(data.draw(values), data.draw(values)) for values in KINDS.values()]
    drawn = data.draw(ROWS)
    columns = {
        "event_time_ms": pa.array([time for time, _ in drawn], pa.int64()),
        "topic": pa.array(["t"] * len(drawn)),
        "partition": pa.array([0] * len(drawn), pa.int32()),
        "offset": pa.array(range(len(drawn)), pa.int64()),
    }
    for number, kind in enumerate(KINDS):
        columns[f"c{number}"] = pa.array([edges[number][which[number]] for _, which in drawn], kind)
    table, made = pa.table(columns), pipeline(by)
    (each,) = made.windows
    values = made.accumulators(each)
    kept = state.partial(table, each.keys, values, Windows(100, 0))
    final, impossible = state.final_of(kept, values)
    rows = each.rows(final, made.row_schema)
    to, _ = made.sinks["results"]
    assert isinstance(to, ToKafka)
    shown = [orjson.loads(value) for _, value in messages(to, rows, 1)]

    declaration, found = judged(made, table)
    sink = next(one for one in declaration.sinks if one.name == "results")
    due = DueRows(declaration, sink, found.due["results"])
    by_key = {due.key_of({**row, "message": {}}): row for row in shown}
    assert by_key.keys() == due.due.keys()
    assert [due.fault_in(key, {**row, "message": {}}) for key, row in by_key.items()] == [None] * len(shown)
    letters = {key for key in found.due["dead_letter"] if key[0] == "result"}
    assert len(letters) == len(impossible)
    schema = schemas_of(made)["results"]
    for text, row in zip(kept.filter(_fits(kept, final))["key"].to_pylist(), shown, strict=True):
        if schema.keyed:
            names, types = zip(*schema.keyed, strict=True)
            assert aggregated.key_text([row[name] for name in names], types) == text
        else:
            assert row[by if isinstance(by, str) else by[0]] == text


def _fits(kept: pa.Table, final: pa.Table) -> pa.Array:
    known = set(zip(final["key"].to_pylist(), final["window_start_ms"].to_pylist(), strict=True))
    groups = zip(kept["key"].to_pylist(), kept["window_start_ms"].to_pylist(), strict=True)
    return pa.array([group in known for group in groups], pa.bool_())


VALUES: Sequence[tuple[Value, list[Any], Any]] = [
    (Value("sum", "v", "double"), [0.1] * 10, 1.0),
    (Value("sum", "v", "double"), [1e16, 1.0, -1e16], 1.0),
    (Value("sum", "v", "double"), [1.7976931348623157e308] * 2, None),
    (Value("sum", "v", "decimal128(5, 2)"), ["999.99", "0.01"], "1000.00"),
    (Value("sum", "v", "decimal128(38, 0)"), ["9" * 38, "1"], None),
    (Value("sum", "v"), [2**63 - 1, 1], None),
    (Value("average", "v"), [1, 2], 1.5),
    (Value("average", "v", "decimal128(38, 0)"), ["1", "2"], "2"),
    (Value("average", "v", "decimal128(38, 0)"), ["-1", "-2"], "-2"),
    (Value("min", "v", "double"), [0.0, -0.0], -0.0),
    (Value("max", "v", "decimal128(5, 2)"), ["-1.00", "-12.00"], "-1.00"),
    (Value("max", "v", "string"), ["é", "z"], "é"),
    (Value("distinct", "v", "string", 1), ["a", "b"], None),
    (Value("collect", "v", "int64", 2), [3, 1, 2], [3, 1]),
]


@pytest.mark.parametrize(("value", "values", "due"), VALUES)
def test_results_by_hand(value: Value, values: list[Any], due: Any) -> None:
    assert repr(aggregated.result(value, [{"v": one} for one in values])) == repr(due)


def test_an_aggregate_of_the_authors_own_is_left_out_and_its_dead_letters_are_taken_at_their_word() -> None:
    own = OwnAggregate(("c0",), int, max, max, int, pa.int64())
    made = Pipeline(function, COLUMNS, windows=(Windowed("c10", {"v": own}, ToTable("results")),))
    declaration = declared(made)
    assert declaration.left_out == {"results": "it has an aggregate of its author's own"}
    sink = next(one for one in declaration.sinks if one.of == "dead_letter")
    due = DueRows(declaration, sink, {})
    letter = {"reason": "bad_result", "source": ["p.results", 0, 0], "epoch": 5, "value": "{}", "message": {}}
    key = due.key_of(letter)
    assert (key in due.due, due.fault_in(key, letter)) == (True, None)
    assert due.key_of({**letter, "reason": "other", "source": ["p.results", 0]}) is None


def test_a_result_of_another_key_or_reason_is_found_out() -> None:
    made = pipeline(("c10", "c0"))
    assert {value.how for value in values_of(made, made.windows[0]).values()} == {
        *aggregated.HOWS,
        "sum",
    }
    declaration = declared(made)
    results = next(one for one in declaration.sinks if one.name == "results")
    assert identity(declaration, results, {"c10": "a", "c0": 5, "window_start_ms": 0}) == (("a", 5), 0)
    assert identity(declaration, results, {"c10": "a", "c0": None, "window_start_ms": 0}) is None
    letters = next(one for one in declaration.sinks if one.of == "dead_letter")
    value = orjson.dumps({"c10": "a", "c0": 5, "window_start_ms": 0}).decode()
    letter = {"reason": "sum_too_large", "source": ["p.results", 0, 0], "value": value}
    assert identity(declaration, letters, letter) == ("result", "results", ("a", 5), 0)
