"""Answers of a recorded step that are refused, by its name, and none of them is recorded (R4)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from effectively_once.errors import SettingsError, StepError
from effectively_once.pipeline.recorded_step import RecordedStep
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.library.unsteady_step import ADDS, KEY, Unsteady, ask, rows_of, unreachable

GIVEN: dict[str, tuple[Any, str]] = {
    "nothing": (None, "a NoneType"),
    "no table": ({"rate": [1.0, 2.0]}, "a dict"),
    "a row less": (pa.table({"rate": [1.0], "quote": ["x"]}), "1 rows for 2"),
    "a row more": (pa.table({"rate": [1.0] * 3, "quote": ["x"] * 3}), "3 rows for 2"),
    "no columns": (pa.table({}), "0 rows for 2; the columns none"),
    "a column less": (pa.table({"rate": [1.0, 2.0]}), "the columns rate"),
    "its own rows": (rows_of("a", "b"), "the columns id, offset, amount"),
    "a column twice": (pa.Table.from_arrays([pa.array([1.0, 2.0])] * 2, ["rate", "rate"]), "the columns rate, rate"),
    "a column more": (
        pa.table({"rate": [1.0] * 2, "quote": ["x"] * 2, "other": [0] * 2}),
        "the columns rate, quote, other",
    ),
    "another type": (pa.table({"rate": [1, 2], "quote": ["x", "y"]}), "rate is int64, not double"),
    "two other types": (
        pa.table({"rate": [1, 2], "quote": [b"x", b"y"]}),
        "rate is int64, not double; quote is binary, not string",
    ),
    "no text": (
        pa.table({"rate": [1.0, 2.0], "quote": pa.array([b"\xff", b"y"]).view(pa.string())}),
        "invalid values: .*UTF",
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_another_answer_than_declared_is_refused_by_the_steps_name_and_not_recorded(name: str) -> None:
    store = MemoryStore()
    given, told = GIVEN[name]
    with pytest.raises(
        StepError, match=f"recorded step 'rate' gave something else than it declares: {told}"
    ) as refused:
        ask(store, lambda _: given)
    assert refused.value.todo.endswith("with the columns rate (double), quote (string).")
    assert refused.value.where == KEY
    assert store.objects == {}


def test_a_null_is_refused_where_the_step_declares_none() -> None:
    """Before it is recorded, where it would be for good: the next attempt asks again."""
    given, store = pa.table({"rate": [1.0, None], "quote": [None, None]}, schema=ADDS), MemoryStore()
    strict = pa.schema([pa.field("rate", pa.float64(), nullable=False), ("quote", pa.string())])
    with pytest.raises(StepError, match="rate is null in 1 rows"):
        ask(store, lambda _: given, adds=strict)
    assert store.objects == {}
    assert ask(store, lambda _: given)[0]["quote"].null_count == 2


def test_columns_may_come_in_another_order_than_declared() -> None:
    added, _ = ask(MemoryStore(), lambda _: pa.table({"quote": ["x", "y"], "rate": [1.0, 2.0]}))
    assert added.column_names == ["id", "offset", "amount", "rate", "quote"]
    assert added["quote"].to_pylist() == ["x", "y"]


def test_an_exception_of_the_function_tells_where_it_arose_and_nothing_is_recorded() -> None:
    """The line told is that of the user's file, also when a library raised."""
    store, unsteady = MemoryStore(), Unsteady()
    line = unreachable.__code__.co_firstlineno + 1
    with pytest.raises(StepError) as refused:
        ask(store, unreachable)
    assert str(refused.value).startswith(
        f"recorded step 'rate' raised JSONDecodeError in unreachable (unsteady_step.py:{line}): Expecting value: "
    )
    assert refused.value.where == f"{KEY}, 2 rows"
    assert isinstance(refused.value.__cause__, json.JSONDecodeError)
    assert store.objects == {}
    assert ask(store, unsteady)[1] is False


def test_a_function_without_source_that_raises_is_named_too() -> None:
    with pytest.raises(StepError, match="recorded step 'rate' raised TypeError: "):
        ask(MemoryStore(), int)


def test_for_no_rows_nothing_is_called_recorded_or_looked_up() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    added, replayed = ask(store, unsteady, rows_of())
    assert added.schema == pa.schema([*rows_of().schema, *ADDS])
    assert (added.num_rows, replayed, unsteady.calls, store.requests) == (0, False, 0, [])


def test_a_column_that_is_there_already_is_refused() -> None:
    store, unsteady = MemoryStore(), Unsteady()
    with pytest.raises(SettingsError, match=r"adds columns that are there already: quote .recorded step 'rate'"):
        ask(store, unsteady, rows_of("a").append_column("quote", pa.array(["x"])))
    assert (unsteady.calls, store.requests) == (0, [])


@pytest.mark.parametrize("name", ["", "Rate", "1rate", "a/b", "a-b", "_a", "a" * 42, "rate\n"])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"at most 41, beginning with a letter .recorded step "):
        RecordedStep(name, Unsteady(), ADDS)


@pytest.mark.parametrize(
    ("adds", "told"),
    [
        (pa.schema([]), "at least one column"),
        (pa.schema([("a", pa.int64()), ("b", pa.int64()), ("a", pa.string())]), "each column once, not a, b, a"),
    ],
)
def test_no_columns_or_one_twice_are_refused(adds: pa.Schema, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        RecordedStep("a" * 41, Unsteady(), adds)
