"""The page of aggregates is executed: what it declares comes to what it shows, and names every aggregate and type."""

from __future__ import annotations

import json
import re
from datetime import date
from decimal import Decimal
from itertools import permutations
from typing import Any, get_args

import pyarrow as pa
import pytest

from effectively_once import Pipeline, ToKafka
from effectively_once.epoch.messages import messages
from effectively_once.pipeline.schemas import TYPES
from effectively_once.sinks.tables import column_type
from effectively_once.state import windows as state
from effectively_once.state.aggregates import Aggregate
from effectively_once.state.lateness import Windows
from tests.unit.library.aggregates_page import ORDERS, OWN, PAGE, RESULT, declared


def rows_of(made: Pipeline, orders: list[dict[str, Any]]) -> pa.Table:
    """What the transform makes of records, as coordinates have them in this order."""
    typed: dict[pa.DataType, Any] = {pa.date32(): date.fromisoformat, pa.decimal128(12, 2): Decimal}
    columns = {
        column.name: pa.array([typed.get(column.type, lambda it: it)(one[column.name]) for one in orders], column.type)
        for column in made.columns
    }
    number = len(orders)
    columns |= {
        "event_time_ms": pa.array([one["event_time_ms"] for one in orders], pa.int64()),
        "topic": pa.array(["orders"] * number),
        "partition": pa.array([0] * number, pa.int32()),
        "offset": pa.array(range(number), pa.int64()),
    }
    return pa.table(columns)


@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_the_example_comes_to_what_it_shows_in_whatever_order_its_records_come(order: tuple[int, ...]) -> None:
    made = declared()
    (each,) = made.windows
    values = made.accumulators(each)
    rows = rows_of(made, [ORDERS[at] for at in order])
    parts = [state.partial(rows.slice(at, 1), each.keys, values, Windows(60_000, 0)) for at in range(4)]
    found, impossible = state.final_of(state.group_rows(pa.concat_tables(parts), state.merges(values)), values)
    to, _ = made.sinks["per_day"]
    assert isinstance(to, ToKafka)
    ((_, value),) = messages(to, each.rows(found, made.row_schema), RESULT["epoch"])
    assert (json.loads(value), impossible) == (RESULT, [])
    assert [*json.loads(value)] == [*RESULT]


def test_python_adds_the_same_doubles_up_to_what_the_page_says() -> None:
    found = {sum(order) for order in permutations(one["grams"] for one in ORDERS)}
    assert found == {0.0, 0.1, 0.2, RESULT["grams"]}


def test_every_aggregate_has_its_row() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`([A-Z]\w+)", row)}
    assert {one.__name__ for one in get_args(Aggregate)} <= told


def test_every_type_has_its_row() -> None:
    section = PAGE.partition("## Types of columns")[2].partition("## ")[0]
    for name, kind in TYPES.items():
        if name != "integer":
            assert re.search(rf"^\| .*`{name}`.* \| .* \| {column_type(kind)} \|$", section, re.MULTILINE), name


def test_the_own_aggregate_of_the_page_is_one() -> None:
    made = eval(OWN, {"OwnAggregate": get_args(Aggregate)[-1], "pa": pa})  # noqa: S307 - our own page
    assert made.finish(made.add(made.add(made.zero(), 2), 3)) == 13
