"""An author's own aggregate: what a trial refuses, what an error of it becomes, and that a repeat is the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Count, OwnAggregate, Pipeline, ToFiles, ToTable, Windowed
from effectively_once.errors import SettingsError
from effectively_once.state import windows
from effectively_once.state.accumulators import accumulators
from effectively_once.state.lateness import Windows
from effectively_once.state.own import TEXT_BYTES
from tests.fuzz.rows import COLUMNS
from tests.fuzz.without_spark import plain_trial

START = 1_750_000_020_000


def more(kept: int, number: int) -> int:
    return kept + number


def both(one: int, other: int) -> int:
    return one + other


def same(kept: Any) -> Any:
    return kept


TOTAL = OwnAggregate(("n",), int, more, both, same, pa.int64())


def pipeline(own: OwnAggregate) -> Pipeline:
    per_user = Windowed("user", {"rows": Count(), "own": own}, ToTable("results"), totals=ToFiles("totals"))
    return Pipeline(lambda frame: frame, COLUMNS, windows=(per_user,), lateness_ms=0)


def record(id_: str, n: int, user: str = "ann", after_ms: int = 0) -> bytes:
    row = {"id": id_, "event_time_ms": START + after_ms, "user": user, "n": n, "text": "t", "m": 1, "level": 0.5}
    return json.dumps({**row, "flag": True, "days": 1, "at_us": 1}).encode()


def closed(own: OwnAggregate, *numbers: int) -> dict[str, Any]:
    """Outputs of the epoch that closes a window of these numbers, two of them in an epoch of their own."""
    with plain_trial(pipeline(own), 2) as trial:
        records = [record(str(at), n) for at, n in enumerate(numbers)]
        trial.epoch(records[:2])
        trial.epoch([*records[2:], record("closer", 0, user="z", after_ms=10**9)])
        outputs = trial.epoch([])
        assert trial.repeat() == outputs
        return outputs


def test_results_and_totals_are_those_of_all_rows() -> None:
    outputs = closed(TOTAL, 1, 2, 3, 4)
    assert [(row["user"], row["rows"], row["own"]) for row in outputs["results"]] == [("ann", 4, 10)]
    assert [(row["rows"], row["own"]) for row in outputs["totals"]] == [(4, 10)]


def first(kept: int, number: int) -> int:
    return kept or number


def less(one: int, other: int) -> int:
    return one - other


def lose(one: int, other: int) -> int:
    return max(one, other)


def fail(*_: Any) -> Any:
    raise ValueError("no luck")


WRONG: dict[str, dict[str, Any]] = {
    "the first in order": {"add": first, "merge": first},
    "a difference": {"merge": less},
    "a merge that loses a part": {"merge": lose},
    "a zero that counts": {"zero": lambda: 1},
    "a merge that fails": {"merge": fail},
}


@pytest.mark.parametrize("changed", WRONG.values(), ids=[*WRONG])
def test_a_trial_refuses_what_depends_on_how_rows_are_divided(changed: dict[str, Any]) -> None:
    with plain_trial(pipeline(replace(TOTAL, **changed)), 1) as trial:
        with pytest.raises(SettingsError, match=r"^an aggregate of n is -?\d+, and .* where ") as refused:
            trial.epoch([record("1", 3), record("2", 5), record("3", 9)])
        assert "OwnAggregate" in refused.value.where


FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "add": ({"add": fail}, "ValueError: no luck"),
    "finish": ({"finish": fail}, "ValueError: no luck"),
    "zero": ({"zero": fail}, "ValueError: no luck"),
    "no result": ({"finish": lambda _: None}, "None"),
    "too large": ({"finish": lambda kept: kept + 2**63}, "OverflowError: "),
    "another type": ({"finish": lambda _: "text"}, "ArrowInvalid: "),
    "no number": ({"finish": lambda _: float("inf"), "result": pa.float64()}, "inf"),
    "no JSON": ({"add": lambda *_: object()}, "TypeError: Type is not JSON serializable"),
    "a long text": ({"finish": lambda _: "x" * (TEXT_BYTES + 1), "result": pa.string()}, "a text of more than"),
    "a zero byte": ({"finish": lambda _: "\0", "result": pa.string()}, "a text of more than"),
    "half a character": ({"finish": lambda _: "\ud800", "result": pa.string()}, "UnicodeEncodeError: "),
}


@pytest.mark.parametrize(("changed", "says"), FAILING.values(), ids=[*FAILING])
@pytest.mark.thinned(3)
def test_an_error_of_its_functions_stops_nothing_and_is_told_in_a_dead_letter(
    changed: dict[str, Any], says: str
) -> None:
    outputs = closed(replace(TOTAL, **changed), 1, 2, 3)
    assert outputs["results"] == []
    (letter,) = [one for one in outputs["dead_letter"] if one["reason"] == "bad_result"]
    value = json.loads(letter["value"])
    assert (value["user"], value["rows"]) == ("ann", "3")
    assert value["own"].startswith(says)
    assert [(row["rows"], row["own"]) for row in outputs["totals"]] == [(3, None)]


def test_an_error_is_told_alike_in_each_attempt_wherever_objects_lie_in_memory() -> None:
    def add(kept: int, number: int) -> int:
        raise ValueError(f"no room for {object()} beside {kept + number}")

    outputs = closed(replace(TOTAL, add=add), 1, 1)
    (letter,) = [one for one in outputs["dead_letter"] if one["reason"] == "bad_result"]
    assert json.loads(letter["value"])["own"] == "ValueError: no room for <object object> beside 1"


@pytest.mark.parametrize("name", ["add", "merge", "finish"])
def test_a_worker_without_memory_is_no_error_of_the_aggregate(name: str) -> None:
    """A repeat has more of it, and would come to something else."""

    def full(*_: Any) -> Any:
        raise MemoryError

    changed: dict[str, Any] = {name: full}
    values = accumulators({"own": replace(TOTAL, **changed)}, pa.schema([("n", pa.int64())]))
    rows = pa.table({"key": ["a"] * 3, "window_start_ms": [0] * 3, "own": [b"=1", b"+[2]", b"+[3]"]})
    with pytest.raises(MemoryError):
        windows.final_of(windows.group_rows(rows.cast(windows.schema(values)), windows.merges(values)), values)


@pytest.mark.parametrize("spans", [1, 5, 3 * windows.PARTS])
def test_a_result_is_that_of_the_deltas_in_whatever_parts_a_worker_reads_them(spans: int) -> None:
    """Also by a merge that is not quite right: a repeat by a worker that knows nothing comes to the same."""
    rough = replace(TOTAL, merge=lambda one, other: (3 * one + other) % 1_000_003)
    values = accumulators({"own": rough}, pa.schema([("n", pa.int64())]))
    deltas = [
        pa.table({"key": ["a"], "window_start_ms": [0], "own": [b"=%d" % n]}).cast(windows.schema(values))
        for n in range(3 * windows.PARTS)
    ]
    whole = windows.WindowState(Windows(1_000, 0), values)
    whole.fold(pa.concat_tables(deltas))
    state = windows.WindowState(Windows(1_000, 0), values)
    for first in range(0, len(deltas), spans):
        state.fold(pa.concat_tables(deltas[first : first + spans]))
    assert state.final(None, 1_000).to_pylist() == whole.final(None, 1_000).to_pylist() != []


def test_what_is_kept_may_be_changed_in_place() -> None:
    """Also where `zero` returns the same object for every group."""
    nothing: list[int] = []

    def add(kept: list[int], number: int) -> list[int]:
        kept.append(number)
        return kept

    def merge(one: list[int], other: list[int]) -> list[int]:
        one += other
        return one

    function: Callable[[list[int]], int] = sum
    outputs = closed(OwnAggregate(("n",), lambda: nothing, add, merge, function, pa.int64()), 1, 2, 3)
    assert [row["own"] for row in outputs["results"]] == [6]


def test_parts_are_merged_to_the_same_bytes_in_whatever_order_they_come() -> None:
    """Also by a merge that is not quite right: else a repeat would be refused for ever."""
    rough = replace(TOTAL, merge=less)
    values = accumulators({"own": rough}, pa.schema([("n", pa.int64())]))
    rows = pa.table({"key": ["a"] * 4, "window_start_ms": [0] * 4, "own": [b"=1", b"=20", b"+[3]", b"=7"]})
    rows = rows.cast(windows.schema(values))
    due = windows.group_rows(rows, windows.merges(values)).to_pylist()
    for order in permutations(range(4)):
        assert windows.group_rows(rows.take([*order]), windows.merges(values)).to_pylist() == due
