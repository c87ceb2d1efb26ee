"""How a column is passed on through a plan, on plans made by hand; `tests/spark/test_attached.py` has Spark's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from effectively_once.epoch.attached import pass_on


class Sequence(tuple[Any, ...]):
    """A sequence as Scala has it."""

    def size(self) -> int:
        return len(self)

    def apply(self, number: int) -> Any:
        return self[number]

    def updated(self, number: int, by: Any) -> Sequence:
        return Sequence((*self[:number], by, *self[number + 1 :]))

    def appended(self, one: Any) -> Sequence:
        return Sequence((*self, one))


@dataclass(frozen=True)
class Attribute:
    """A column of a plan: the same one wherever its number is."""

    number: str
    null: bool = False

    def exprId(self) -> Any:  # noqa: N802 - Spark's name
        return Same(self.number)

    def nullable(self) -> bool:
        return self.null


class Same(str):
    """What Java compares."""

    def equals(self, other: Any) -> bool:
        return str(self) == str(other)


@dataclass(frozen=True)
class Plan:
    """An operator: its name, what it shows of its own, and what is below; None shows what that shows."""

    kind: str
    own: tuple[Attribute, ...] | None = None
    below: tuple[Plan, ...] = ()
    nulls: bool = False

    def equals(self, other: Plan) -> bool:
        return self == other

    def nodeName(self) -> str:  # noqa: N802 - Spark's name
        return self.kind

    def children(self) -> Sequence:
        return Sequence(self.below)

    def withNewChildren(self, children: Sequence) -> Plan:  # noqa: N802 - Spark's name
        return replace(self, below=tuple(children))

    def projectList(self) -> Sequence:  # noqa: N802 - Spark's name
        return Sequence(self.own or ())

    def copy(self, own: Sequence, below: Plan) -> Plan:
        return replace(self, own=tuple(own), below=(below,))

    def output(self) -> Sequence:
        shown = self.own if self.own is not None else tuple(one for plan in self.below for one in plan.output())
        return Sequence(replace(one, null=True) if self.nulls else one for one in shown)


VALUE, ID, RECORD = Attribute("value", null=True), Attribute("id", null=True), Attribute("record")
LEAF, MARKED = Plan("Kafka", (VALUE,)), Plan("Project", (VALUE, RECORD), (Plan("Kafka", (VALUE,)),))
ANOTHER = Plan("Table", (ID,))


def project(below: Plan) -> Plan:
    return Plan("Project", (ID,), (below,))


PASSED = {
    "nothing": LEAF,
    "projections": project(project(LEAF)),
    "what shows all that is below it": project(Plan("SubqueryAlias", None, (project(LEAF),))),
    "a join with another": project(Plan("Join", None, (ANOTHER, project(LEAF)))),
}


@pytest.mark.parametrize("what", PASSED)
def test_what_shows_or_chooses_columns_passes_the_records_on(what: str) -> None:
    whole = pass_on(PASSED[what], LEAF, MARKED, RECORD)
    assert [one for one in whole.output() if one.exprId() == "record"] == [RECORD]
    assert [one for one in whole.output() if one.exprId() != "record"] == [*PASSED[what].output()]


LOST = {
    "a function on batches": Plan("MapInArrow", (ID,), (LEAF,)),
    "a projection above one": project(Plan("MapInArrow", (ID,), (LEAF,))),
    "an outer join that gives rows of no record": Plan("Join", None, (LEAF, ANOTHER), nulls=True),
    "a projection above such a join": project(Plan("Join", None, (LEAF, ANOTHER), nulls=True)),
    "a frame that is none of the records": project(ANOTHER),
}


@pytest.mark.parametrize("what", LOST)
def test_what_does_not_is_no_way_to_a_record(what: str) -> None:
    """Not a wrong one either: a row of no record would get coordinates of null."""
    assert pass_on(LOST[what], LEAF, MARKED, RECORD) is None
