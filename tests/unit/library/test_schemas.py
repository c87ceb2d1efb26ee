"""Columns are the same however they are written, and what none of them is, is refused with what to write."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from effectively_once import Pipeline, RecordedStep, Stateful, ToKafka
from effectively_once.errors import SettingsError
from effectively_once.pipeline.schemas import schema_of

DECIMALS = st.integers(1, 38).flatmap(lambda digits: st.builds(DecimalType, st.just(digits), st.integers(0, digits)))
PLAIN = (StringType, LongType, IntegerType, DoubleType, BooleanType, BinaryType, DateType, TimestampType)
KINDS: st.SearchStrategy[DataType] = st.sampled_from([kind() for kind in PLAIN]) | DECIMALS
FIELDS = st.builds(StructField, st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True), KINDS, st.booleans())


@given(st.lists(FIELDS, unique_by=lambda field: field.name))
def test_a_struct_and_its_ddl_are_the_schema_that_spark_makes_of_them(fields: list[StructField]) -> None:
    struct = StructType(fields)
    due = to_arrow_schema(struct, timezone="UTC")
    text = ", ".join(
        f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}" for field in fields
    )
    for given_ in (struct, text, text.replace("NOT NULL", "not  null"), due):
        assert schema_of(given_, "columns").equals(due)


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ("user", "'user' is no name with a type"),
        ("user string,", "'' is no name with a type"),
        ("user strin", "column 'user' is of type 'strin'"),
        ("a decimal(39, 2)", "column 'a' is of type 'decimal"),
        ("a decimal(2, 3)", "column 'a' is of type 'decimal"),
        ("a array<string>", "column 'a' is of type 'array<string>'"),
        (StructType([StructField("a", FloatType())]), "column 'a' is of type 'float'"),
        (StructType([StructField("a", TimestampNTZType())]), "column 'a' is of type 'timestamp_ntz'"),
    ],
)
def test_what_no_column_is_of_is_refused_by_its_name(given_: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=f"^{says}".replace("(", r"\(")):
        schema_of(given_, "columns of the pipeline")


def test_every_declaration_takes_the_text() -> None:
    def function(frame: Any) -> Any:
        return frame

    due = pa.schema([("user", pa.string()), ("amount", pa.decimal128(10, 2))])
    text = "`user` string, amount: decimal(10, 2)"
    assert Pipeline(function, text, rows=(ToKafka("a"),)).columns == due
    assert RecordedStep("step", function, text).adds == due
    assert Stateful(function, text, by="user", to=ToKafka("a")).schema == due
