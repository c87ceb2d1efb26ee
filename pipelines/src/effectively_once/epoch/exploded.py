"""Records of several rows: each is an element of an array that the transform gives, and is known by its place there.

The transform gives one row for each record, as ever. The rows are made here, of the record alone, so every repeat makes
the same. Each record has exactly one row of place 0, also one that is refused or left out as a whole: whoever counts
these counts records.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

from effectively_once.pipeline.columns import FILTERED, POSITION
from effectively_once.pipeline.pipeline import Pipeline

(POS,) = POSITION.names
(_MARK,) = FILTERED.names
TOO_MANY = "too_many_rows"
SEPARATOR = "#"
"""Between the id of a record and the place of a row: behind the last one are digits alone, so no two rows share one."""
_ELEMENT = "__effectively_once_element"


def find_mistakes(pipeline: Pipeline, given: StructType) -> Iterator[str]:
    """Say why rows cannot be made of what a transform gives."""
    if pipeline.explode is None:
        return
    array = pipeline.explode.column
    kinds = {field.name: field.dataType for field in given}
    if array not in kinds:
        yield f"{array}, which explode names, is missing"
        return
    kind = kinds[array]
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        yield f"{array} is {kind.simpleString()} and must be an array of structs, to be exploded"
        return
    if "id" not in kinds:
        yield "id is missing: it is the record's, and the library makes those of its rows"
    shared = _shared(pipeline)
    for name in shared:
        if name in kinds and not isinstance(kinds[name], StringType):
            yield f"{name} is {kinds[name].simpleString()} and must be string"
        elif name not in kinds and name not in kind.elementType.names:
            yield f"{name} is missing"
    names = {name.lower() for name in kinds} - {array.lower()}
    for field in kind.elementType:
        if field.name in shared:
            if not isinstance(field.dataType, StringType):
                yield f"{field.name} of {array} is {field.dataType.simpleString()} and must be string"
        elif field.name.lower() in names:
            yield f"{field.name} is a column of the record and a field of {array}"
        names.add(field.name.lower())
    if POS in names:
        yield f"{POS} is the library's own with explode"


def explode(pipeline: Pipeline, given: DataFrame, refused: Column) -> DataFrame:
    """Make a row of each element; one row of a record that is refused or left out as a whole.

    Args:
        pipeline: the declaration.
        given: what the transform gave, a row a record.
        refused: why a record cannot be accepted for what its own columns lack; null where that is not so.

    Returns:
        Columns of the record and fields of the elements in the place of the array, `pos`, and `id` of the row.

    """
    if pipeline.explode is None:
        return given
    array = pipeline.explode.column
    fields = given.schema[array].dataType.elementType.names
    size = f.coalesce(f.array_size(array), f.lit(0))
    none, many = f.when(size == 0, _missing(array)), f.when(size > pipeline.explode.rows_max, TOO_MANY)
    shared = _shared(pipeline)
    # A mark comes before all that the library finds; what its author refuses is refused, whatever its mark.
    fine = f.lit(True)
    own = {name: f.col(name) if name in given.columns else f.lit(None).cast("string") for name in shared}
    for column in own.values():
        fine = fine & column.isNull()
    reason = f.coalesce(own["reason"], f.when(fine, f.coalesce(refused, none, many)))
    names = [name for name in given.columns if name not in (array, "id", *shared)]
    rows = given.select(
        *(f.col(f"`{name}`") for name in names),
        "id",
        *(column.alias(name) for name, column in {**own, "reason": reason}.items()),
        f.posexplode_outer(f.when(fine & reason.isNull(), f.col(array))).alias(POS, _ELEMENT),
    )
    element, pos = f.col(_ELEMENT), f.coalesce(POS, f.lit(0))
    whole = f.lit(True)
    for name in shared:
        whole = whole & f.col(name).isNull()
    told = {name: f.coalesce(name, element[name]) if name in fields else f.col(name) for name in shared}
    told["reason"] = f.coalesce("reason", f.when(whole & element.isNull(), _missing(array)), told["reason"])
    return rows.select(
        *(f.col(f"`{name}`") for name in names),
        *(element[name].alias(name) for name in fields if name not in shared),
        *(column.alias(name) for name, column in told.items()),
        pos.alias(POS),
        _id(rows, pos).alias("id"),
    )


def _shared(pipeline: Pipeline) -> tuple[str, ...]:
    """Name what both a record and its elements may say."""
    return ("reason", _MARK) if pipeline.filtered else ("reason",)


def _missing(array: str) -> str:
    return f"missing_{array}"


def _id(rows: DataFrame, pos: Column) -> Column:
    """Return the id of a row; null where that of its record is null or empty."""
    text = f.lower(f.hex("id")) if isinstance(rows.schema["id"].dataType, BinaryType) else f.col("id")
    return f.when(f.length("id") > 0, f.concat(text, f.lit(SEPARATOR), pos.cast("string")))
