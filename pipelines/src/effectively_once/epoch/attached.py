"""What the library attaches to the rows that a transform gives: where each comes from, and its record's value.

A transform may keep of Kafka's columns what it likes. They are taken from under it: every projection between the frame
that it gave and the frame that it was given passes one more column on, the record's. What a row is made of, and nothing
that a transform says, decides where it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from effectively_once.epoch.plan import each, plan_of
from effectively_once.pipeline.columns import COORDINATES

_RECORD = "__effectively_once_record"
"""The column that is passed on."""


def attach(given: DataFrame, source: DataFrame, others: Sequence[str]) -> DataFrame:
    """Give the rows of a transform their coordinates, whatever it made of those, and other columns that it gives not.

    Args:
        given: what the transform made of `source`.
        source: Kafka's rows, as it was given them.
        others: names of columns of the record that are needed too; a transform may give them otherwise than they came.

    Returns:
        `given` as it is where it has them all. So too where something stands between that passes no column on: a
        function in Python on batches of rows (`mapInArrow`), or an outer join that may give rows of no record. There
        the transform has to keep them itself.

    """
    names = [name.lower() for name in given.columns]
    beside = [name for name in others if name not in names]
    plan, leaf = plan_of(given), plan_of(source)
    if not beside and _keeps(plan, leaf, given.columns):
        return given
    record = f.struct(*COORDINATES.names, *beside).alias(_RECORD)
    marked = plan_of(source.select("*", record))
    output = marked.output()
    whole = pass_on(plan, leaf, marked, output.apply(output.size() - 1))
    if whole is None:
        return given
    spark = given.sparkSession
    jvm: Any = spark._jvm
    # PySpark has no public way from a plan to a frame.
    rows = DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, whole), spark)
    kept = [f"`{name}`" for name in given.columns if name.lower() not in COORDINATES.names]
    return rows.select(*kept, *(f.col(_RECORD)[name].alias(name) for name in (*COORDINATES.names, *beside)))


def _keeps(plan: Any, leaf: Any, columns: list[str]) -> bool:
    """Whether the coordinates among the columns are the source's own: what is computed is another attribute."""
    output, theirs = plan.outputSet(), {one.name(): one for one in each(leaf.output())}
    lower = [name.lower() for name in columns]
    return all(
        name in columns and lower.count(name) == 1 and output.contains(theirs[name]) for name in COORDINATES.names
    )


def pass_on(plan: Any, leaf: Any, marked: Any, record: Any) -> Any:
    """Replace a plan's leaf by one that has the record's column, and have all above pass it on.

    Returns:
        The plan; None where the leaf is not in it, or something above it does not pass the column on as it is: behind
        an outer join it may be null.

    """
    if plan.equals(leaf):
        return marked
    children = plan.children()
    for number, child in enumerate(each(children)):
        below = pass_on(child, leaf, marked, record)
        if below is None:
            continue
        above = plan.withNewChildren(children.updated(number, below))
        if plan.nodeName() == "Project":
            above = above.copy(above.projectList().appended(record), below)
        return above if _passes(above, record) else None
    return None


def _passes(plan: Any, record: Any) -> bool:
    found = [one for one in each(plan.output()) if one.exprId().equals(record.exprId())]
    return len(found) == 1 and not found[0].nullable()
