"""What an analysed plan tells of a function of the author's that would answer otherwise in a repeat (R4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import structlog
from pyspark.sql import DataFrame

from effectively_once.epoch.plan import each, plan_of
from effectively_once.errors import SettingsError

log = structlog.get_logger()
_CLOCKS = frozenset(
    {
        "CurrentBatchTimestamp",
        "CurrentDate",
        "CurrentTime",
        "CurrentTimestamp",
        "LocalTimestamp",
        "Now",
    }
)
"""Spark calls them deterministic: within one query its optimiser replaces them by one time. A repeat is another."""
_SUBQUERY = ("Subquery", "Exists")
"""These are as their plans are, which are looked at by themselves."""
_FUNCTIONS = ("PythonUDF", "PythonUDAF", "PythonUDTF")


def refuse(frame: DataFrame, whose: str, where: str, *, clocks: bool = True) -> None:
    """Refuse a frame whose plan has chance, or a clock, anywhere: in what it joins and in its subqueries too.

    What code in Python does is not in a plan: only a function that is marked `asNondeterministic()` is found. Of others
    `warn` says that nobody has vouched for them.

    Args:
        frame: what the author's function gave.
        whose: what that function is.
        where: its name.
        clocks: refuse those as well; Spark pins the time of a batch that it repeats by itself.

    Raises:
        SettingsError: naming each such expression.

    """
    if found := sorted({name for part in _expressions(plan_of(frame)) for name in _of_expression(part, clocks)}):
        raise SettingsError(
            f"{whose} answers otherwise in a repeat: {', '.join(found)}",
            where,
            "Let a recorded step give what is by chance or by a clock (recorded=RecordedStep(...)): its answer is "
            "kept, and a repeat uses it.",
        )


def warn(frame: DataFrame, declared: Collection[str], where: str) -> None:
    """Warn of functions in Python that Spark takes for deterministic, as it does unless they are marked otherwise.

    Args:
        frame: what the author's function gave.
        declared: names of those that the author vouches for.
        where: name of the author's function.

    """
    udfs = {name for part in _expressions(plan_of(frame)) for name in _udfs_of_expression(part)}
    if found := sorted(udfs.difference(declared)):
        log.warning(
            "start warning",
            warning="python_udf",
            what=f"only a repeat shows whether these answer the same again: {', '.join(found)}",
            where=where,
            todo="If they do: Pipeline(deterministic_udfs=(...)) with their names. One that asks a clock, chance or "
            "another service belongs into a recorded step (recorded=RecordedStep(...)).",
        )


def _expressions(plan: Any) -> Iterator[Any]:
    """Give the expressions of a plan, then those of the plans that it reads from and asks."""
    yield from each(plan.expressions())
    for below in (*each(plan.children()), *each(plan.subqueries())):
        yield from _expressions(below)


def _udfs_of_expression(expression: Any) -> Iterator[str]:
    if expression.nodeName() in _FUNCTIONS:
        yield expression.name()
    for part in each(expression.children()):
        yield from _udfs_of_expression(part)


def _of_expression(expression: Any, clocks: bool) -> Iterator[str]:
    """Name what is a cause itself: an expression that is made of others is as little deterministic as they are."""
    kind, parts = expression.nodeName(), list(each(expression.children()))
    if kind == "AggregateExpression":
        # Some depend on the order of rows, which what is above them may undo (`sort_array(collect_list(...))`).
        parts = [part for function in parts for part in each(function.children())]
    elif kind in _CLOCKS:
        if clocks:
            yield expression.prettyName()
    elif not kind.endswith(_SUBQUERY) and not expression.deterministic() and all(p.deterministic() for p in parts):
        yield expression.name() if kind in _FUNCTIONS else expression.prettyName()
    for part in parts:
        yield from _of_expression(part, clocks)
