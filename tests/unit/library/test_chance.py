"""What a start says of chance in a plan, on plans made by hand; `tests/spark/test_chance.py` has Spark's own."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from effectively_once.epoch import chance
from effectively_once.errors import SettingsError


class Sequence(tuple[Any, ...]):
    """A sequence as Scala has it."""

    def size(self) -> int:
        return len(self)

    def apply(self, number: int) -> Any:
        return self[number]


@dataclass(frozen=True)
class Expression:
    """One of a plan, as Spark has it."""

    kind: str
    called: str = ""
    steady: bool = True
    parts: tuple[Expression, ...] = ()

    def nodeName(self) -> str:  # noqa: N802 - Spark's name
        return self.kind

    def prettyName(self) -> str:  # noqa: N802 - Spark's name
        return self.called

    name = prettyName

    def deterministic(self) -> bool:
        return self.steady and all(part.deterministic() for part in self.parts)

    def children(self) -> Sequence:
        return Sequence(self.parts)


@dataclass(frozen=True)
class Plan:
    """An analysed plan, as Spark has it."""

    own: tuple[Expression, ...]
    below: tuple[Plan, ...] = ()
    within: tuple[Plan, ...] = ()

    def expressions(self) -> Sequence:
        return Sequence(self.own)

    def children(self) -> Sequence:
        return Sequence(self.below)

    def subqueries(self) -> Sequence:
        return Sequence(self.within)


RAND = Expression("Rand", "rand", steady=False)
DRAWN = Expression("PythonUDF", "drawn", steady=False)
PLUS, TRIM = Expression("PythonUDF", "plus"), Expression("PythonUDF", "trim")


def frame(*own: Expression, below: tuple[Plan, ...] = (), within: tuple[Plan, ...] = ()) -> Any:
    execution = SimpleNamespace(analyzed=lambda: Plan(own, below, within))
    return SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (frame(RAND), "rand"),
        (frame(Expression("Add", "+", parts=(Expression("Literal"), RAND))), "rand"),
        (frame(DRAWN), "drawn"),
        (frame(below=(Plan((RAND,)),)), "rand"),
        (frame(within=(Plan((DRAWN,)),)), "drawn"),
        (frame(Expression("CurrentTimestamp", "current_timestamp")), "current_timestamp"),
    ],
)
def test_chance_is_refused_by_its_name_with_the_recorded_step_as_the_way_out(given: Any, name: str) -> None:
    with pytest.raises(SettingsError, match=f"^the transform answers otherwise in a repeat: {name} ") as refused:
        chance.refuse(given, "the transform", "jobs.mine.transform")
    assert "RecordedStep" in refused.value.todo


def test_a_function_in_python_that_nobody_vouches_for_is_named_in_a_warning() -> None:
    """Spark takes each for deterministic unless it is marked. A refusal would be unjust to most."""
    given = frame(Expression("Concat", parts=(PLUS,)), below=(Plan((TRIM, PLUS)),))
    chance.refuse(given, "the transform", "jobs.mine.transform")
    with capture_logs() as told:
        chance.warn(given, ("trim",), "jobs.mine.transform")
    (line,) = told
    assert (line["log_level"], line["warning"], line["where"]) == ("warning", "python_udf", "jobs.mine.transform")
    assert line["what"].endswith(": plus")
    assert "deterministic_udfs" in line["todo"]
    assert "RecordedStep" in line["todo"]


@pytest.mark.parametrize("given", [frame(PLUS), frame(Expression("Upper")), frame(within=(Plan((PLUS,)),))])
def test_one_that_is_declared_is_no_warning(given: Any) -> None:
    with capture_logs() as told:
        chance.warn(given, ("plus", "trim"), "jobs.mine.transform")
    assert told == []


@pytest.mark.parametrize("given", [frame(below=(Plan((PLUS,)),)), frame(within=(Plan((PLUS,)),))])
def test_one_below_or_in_a_subquery_is_named_as_well(given: Any) -> None:
    with capture_logs() as told:
        chance.warn(given, ("trim",), "jobs.mine.transform")
    assert [line["what"].rpartition(": ")[2] for line in told] == ["plus"]
