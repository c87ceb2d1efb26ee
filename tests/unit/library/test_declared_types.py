"""A declaration that is given something of another type is refused by name where it is written, and never by Python."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest

import effectively_once
from effectively_once import (
    Average,
    BucketAddress,
    Collect,
    Count,
    CountDistinct,
    Explode,
    First,
    KafkaRecord,
    Last,
    Max,
    Min,
    OwnAggregate,
    Pipeline,
    RecordedStep,
    Stateful,
    Sum,
    ToFiles,
    ToIceberg,
    ToKafka,
    ToTable,
    Windowed,
)
from effectively_once.epoch.rows import TIME_MAX_MS
from effectively_once.errors import SettingsError
from effectively_once.pipeline.settings import load
from effectively_once.state.lateness import LONGEST_MS
from tests.settings import REQUIRED


def function(frame: Any) -> Any:
    return frame


COLUMNS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
GOOD: dict[str, Any] = {
    "BucketAddress": BucketAddress("http://h:1", "bucket"),
    "KafkaRecord": KafkaRecord(b"{}", key="k", timestamp_ms=5),
    "Sum": Sum("amount"),
    "Average": Average("amount"),
    "First": First("amount"),
    "Last": Last("amount"),
    "CountDistinct": CountDistinct("amount", 5),
    "Collect": Collect("amount", 5),
    "OwnAggregate": OwnAggregate(("amount",), int, max, max, function, pa.int64()),
    "Min": Min("amount"),
    "Max": Max("amount"),
    "ToKafka": ToKafka("a", key="user", columns=("user",)),
    "ToTable": ToTable("a", key=("id",), columns=("id", "user")),
    "ToIceberg": ToIceberg("a", columns=("user",)),
    "ToFiles": ToFiles("a", columns=("user",)),
    "Windowed": Windowed("user", {"n": Count()}, ToKafka("per_user"), totals=ToFiles("totals")),
    "Stateful": Stateful(function, COLUMNS, by="user", to=ToKafka("per_user")),
    "RecordedStep": RecordedStep("rated", function, pa.schema([("price", pa.int64())])),
    "Explode": Explode("items", rows_max=5),
    "Pipeline": Pipeline(function, COLUMNS, rows=(ToKafka("a"),), windows=(), ahead_ms=5),
}
NO_DECLARATIONS = {
    "Count": "it is given nothing",
    "Outputs": "an alias",
    "PipelineError": "the error itself",
    "Trial": "below",
    "ambiguous_json": "a column",
    "whole_number": "a column",
    "published": "a reader",
    "read_lake_table": "a reader",
    "trial_session": "it is given nothing",
    "json_records": "a frame",
}
WRONG: list[Any] = [5, -1.5, True, b"bytes", "text", object(), [5], (None,), {"a": 5}, {5: Count()}, pa.int64(), Sum]


def test_every_public_declaration_is_tried() -> None:
    assert {*GOOD, *NO_DECLARATIONS} == {*effectively_once.__all__}


@pytest.mark.parametrize("field", [f"{name}.{one.name}" for name, it in GOOD.items() for one in fields(it)])
def test_a_field_of_another_type_is_refused_by_its_name_or_is_no_mistake(field: str) -> None:
    """Whatever it is given: it stands, or a named error tells the field, the value and what to write."""
    made, field = GOOD[field.partition(".")[0]], field.partition(".")[2]
    refused = 0
    for value in [*WRONG, None]:
        try:
            replace(made, **{field: value})
        except SettingsError as error:
            refused += 1
            assert type(made).__name__ in error.where or error.where == "declaration of the pipeline"
            assert field in error.what or repr(value) in error.what
            assert error.todo
    assert refused >= 6, "most of these mean nothing here"


TYPED: dict[str, Any] = {name: getattr(effectively_once, name) for name in effectively_once.__all__}
"""The public names, of which a type checker knows nothing here."""
MISTAKEN: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("ToTable", ("t",), {"key": "id"}, r"key is a tuple, each of it text, not 'id' \(ToTable 't'\)\. .*\(\"name\",\)"),
    ("ToKafka", ("k",), {"columns": "user"}, r"columns is a tuple, each of it text, not 'user' \(ToKafka 'k'\)"),
    ("ToKafka", (None,), {}, r"name is text, not None \(ToKafka\)"),
    ("Sum", (5,), {}, r"column is text, not 5 \(Sum\)"),
    ("Windowed", ("user", {"n": Count}, ToKafka("k")), {}, "values is a mapping of names to Count or Sum or Average"),
    ("Windowed", ("user", [Count()], ToKafka("k")), {}, r"values is a mapping .* \(Windowed 'k'\)"),
    (
        "Windowed",
        ("user", {"n": Count()}, "k"),
        {},
        r"to is ToKafka or ToTable or ToFiles or ToIceberg, not 'k' \(Windowed\)",
    ),
    ("RecordedStep", (7, function, COLUMNS), {}, r"name is text, not 7 \(RecordedStep\)"),
    ("RecordedStep", ("s", function, ["price"]), {}, r"adds is a pyarrow\.Schema, .* \(RecordedStep 's'\)"),
    (
        "Pipeline",
        ("module.function", COLUMNS),
        {},
        r"transform is a function, or .*, not 'module\.function' \(Pipeline\)",
    ),
    (
        "Pipeline",
        ({"orders": 3}, COLUMNS),
        {},
        r"transform is .* mapping of names to a function, not \{'orders': 3\} \(Pipeline\)",
    ),
    ("Pipeline", (function, ["user"]), {}, r"columns is a pyarrow\.Schema, .*, not \['user'\]"),
    ("Pipeline", (function, COLUMNS), {"rows": ToKafka("k")}, "rows is a tuple, each of it ToKafka or"),
    ("Pipeline", (function, COLUMNS), {"window_ms": "60000"}, "window_ms is a whole number, not '60000'"),
    ("Pipeline", (function, COLUMNS), {"ahead_ms": 1.5}, r"ahead_ms is a whole number, or None, not 1\.5"),
    ("BucketAddress", ("h:1", "b"), {}, r"endpoint 'h:1' .* \(BucketAddress\)\. .*http://"),
    ("Trial", ("no pipeline", None), {}, r"pipeline is Pipeline, not 'no pipeline' \(Trial\)"),
    ("Trial", (GOOD["Pipeline"], "no session"), {}, r"spark is SparkSession, not 'no session' \(Trial\)"),
]


@pytest.mark.parametrize(("name", "words", "named", "says"), MISTAKEN)
def test_what_is_often_mistaken_is_told_with_what_to_write(
    name: str, words: tuple[Any, ...], named: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingsError, match=f"^{says}"):
        TYPED[name](*words, **named)


def test_lists_are_as_good_as_tuples() -> None:
    table = TYPED["ToTable"]("t", key=["id"], columns=["id"])
    made = TYPED["Pipeline"](function, COLUMNS, rows=[table], windows=[])
    assert made == Pipeline(function, COLUMNS, rows=(ToTable("t", key=("id",), columns=("id",)),))
    assert hash(made.tables["t"])


SPANS = ("window_ms", "lateness_ms", "ahead_ms")


@pytest.mark.parametrize("name", SPANS)
def test_a_time_beyond_those_that_events_have_is_refused(name: str) -> None:
    """Spark's decimals and Arrow's 64 bits end not far behind: the second epoch would fail."""
    assert LONGEST_MS == TIME_MAX_MS
    assert getattr(replace(GOOD["Pipeline"], **{name: LONGEST_MS}), name) == LONGEST_MS
    for value in (LONGEST_MS + 1, 2**63, 10**30):
        with pytest.raises(SettingsError, match=f"^{name} is .*999,999,999,999,999.* {value}"):
            replace(GOOD["Pipeline"], **{name: value})


@pytest.mark.parametrize("name", ["window_ms", "lateness_ms"])
def test_a_setting_beyond_is_refused_as_well(name: str, tmp_path: Any) -> None:
    path = tmp_path / "settings.json"
    text = "{" + ", ".join(f'"{key}": "{value}"' for key, value in REQUIRED.items()) + f', "{name}": '
    path.write_text(f"{text}{LONGEST_MS}}}")
    assert getattr(load(path), name) == LONGEST_MS
    path.write_text(f"{text}{LONGEST_MS + 1}}}")
    with pytest.raises(SettingsError, match=f"^{name}: Input should be less than or equal to {LONGEST_MS}"):
        load(path)
