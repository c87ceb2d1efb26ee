"""Declarations, settings and records of a trial that are anything at all: they hold, or an error names why not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once import (
    Average,
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    OwnAggregate,
    Pipeline,
    RecordedStep,
    Sum,
    ToFiles,
    ToKafka,
    ToTable,
    Windowed,
)
from effectively_once.errors import SettingsError, StepError
from effectively_once.pipeline.settings import PipelineSettings, digest, load
from effectively_once.testing import KafkaRecord
from tests.depth import examples
from tests.fuzz.declarations import DECLARATIONS
from tests.fuzz.records import many
from tests.fuzz.rows import COLUMNS
from tests.fuzz.test_in_memory import SAME
from tests.fuzz.without_spark import plain_trial
from tests.settings import REQUIRED

NAMES = (
    "id",
    "user",
    "n",
    "price",
    "offset",
    "topic",
    "nobody",
    "",
    "User",
    "a b",
    "é",
    "x" * 64,
    "key",
    "epoch",
    "\0",
)
WORDS = st.sampled_from([*NAMES, "told", "kept", "dead_letter", "ids"])
NUMBERS = st.sampled_from([0, 1, -1, 65_535, 65_536, 10**15 - 1, 10**15, 2**70, 0.5, math.nan, True])
JUNK = st.one_of(
    st.none(), WORDS, NUMBERS, st.binary(max_size=2), st.lists(WORDS, max_size=2), st.dictionaries(WORDS, NUMBERS)
)


def some(kind: Any, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw instances, a field of which may be junk; where there is none, a sink that holds."""

    def made(junk: dict[str, Any], **given_: Any) -> Any:
        try:
            return kind(**{**given_, **junk})
        except SettingsError as error:
            assert "\n" not in str(error)
            return ToFiles("instead")

    junk = st.dictionaries(st.sampled_from([*fields]), JUNK, max_size=1)
    return st.builds(made, junk, **fields)


SEVERAL = st.lists(WORDS, max_size=3).map(tuple)
SINKS = st.one_of(
    some(
        ToKafka, name=WORDS, key=st.none() | WORDS, columns=SEVERAL, value=st.none() | WORDS, message_bytes_max=NUMBERS
    ),
    some(ToTable, name=WORDS, key=SEVERAL, columns=SEVERAL),
    some(ToFiles, name=WORDS, columns=SEVERAL),
)
OF_ONE = (Sum, Average, Min, Max, First, Last)
AGGREGATES = st.one_of(
    st.just(Count()),
    *(some(kind, column=WORDS) for kind in OF_ONE),
    *(some(kind, column=WORDS, most=NUMBERS) for kind in (CountDistinct, Collect)),
    some(
        OwnAggregate,
        columns=SEVERAL,
        zero=st.just(int),
        add=st.just(max),
        merge=st.just(max),
        finish=st.just(abs),
        result=st.sampled_from([pa.int64(), pa.string(), pa.null()]),
    ),
)
WINDOWS = some(
    Windowed,
    by=WORDS | SEVERAL,
    values=st.dictionaries(WORDS, AGGREGATES, max_size=2),
    to=SINKS,
    totals=st.none() | SINKS,
)
STRANGE = st.sampled_from([*COLUMNS.types[1:], pa.decimal256(40), pa.list_(pa.int8()), pa.timestamp("ns"), pa.null()])
STRANGERS = st.lists(st.tuples(st.sampled_from(["nobody", "", "User", "epoch", "x" * 63]), STRANGE), max_size=2)
SCHEMAS = STRANGERS.map(lambda some: pa.schema([*COLUMNS, *some]))
ADDED = st.sampled_from([pa.schema([]), pa.schema([("price", pa.int64())]), COLUMNS]) | SCHEMAS
ANSWERS: list[Callable[[pa.Table], Any]] = [
    len,
    lambda rows: rows,
    lambda rows: rows.select([]),
    lambda _: 1 / 0,
    lambda _: None,
    lambda rows: pa.table({"price": pa.array([2**63 - 1] * rows.num_rows, pa.int64())}),
    lambda rows: pa.table({"price": ["text"] * rows.num_rows}),
    lambda _: pa.table({"price": [1]}),
    lambda rows: {"price": [None] * rows.num_rows},
]
"""Of a recorded step: three are possible."""
CHANGED = {
    "columns": SCHEMAS,
    "ids": st.sampled_from(["attached", "coordinates", "none"]),
    "recorded": some(RecordedStep, name=st.just("priced") | WORDS, function=st.sampled_from(ANSWERS), adds=ADDED),
    "rows": st.lists(SINKS, max_size=2).map(tuple),
    "windows": st.lists(WINDOWS, max_size=2).map(tuple),
    "window_ms": NUMBERS,
    "lateness_ms": NUMBERS,
    "ahead_ms": st.none() | NUMBERS,
    "semantics": st.sampled_from(["exactly_once", "at_least_once", "never"]),
}
CHANGES_OF_ONE = st.sampled_from([*CHANGED]).flatmap(lambda name: st.fixed_dictionaries({name: CHANGED[name] | JUNK}))


@settings(SAME, max_examples=examples(80))
@given(DECLARATIONS, CHANGES_OF_ONE | st.just({}))
def test_a_declaration_is_refused_by_name_or_takes_records(pipeline: Pipeline, changed: dict[str, Any]) -> None:
    try:
        pipeline = replace(pipeline, **changed)
    except SettingsError as error:
        assert "\n" not in str(error)
        return
    with plain_trial(pipeline, 2) as trial:
        try:
            trial.epoch([one.value for one in RECORDS])
        except StepError as error:
            assert "recorded" in changed, error
            return
        counts = trial.last.counts
        assert counts.read == counts.accepted + counts.duplicate + counts.late + counts.malformed == len(RECORDS)


RECORDS = many(7, 12, far=False)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    NUMBERS,
    WORDS,
    st.sampled_from(["h:1", "http://h", "postgresql://h:1/d", "clicks.x", "1e999", ["a", "a"], ["a", 1], {}]),
)
CHANGES = st.dictionaries(st.sampled_from([*PipelineSettings.model_fields, "speed"]), VALUES, max_size=3)


@settings(SAME, max_examples=examples(300))
@given(CHANGES)
def test_settings_hold_or_are_refused_by_name(tmp_path_factory: Any, changes: dict[str, Any]) -> None:
    file: Path = tmp_path_factory.getbasetemp() / "fuzzed-settings.json"
    file.write_bytes(json.dumps({**REQUIRED, **changes}).encode())
    try:
        held = load(file)
    except SettingsError as error:
        assert "\n" not in str(error)
        return
    assert digest(held.bound)
    assert PipelineSettings.model_validate_json(held.model_dump_json()) == held
    assert 1 <= held.start_patience_s <= 600


@settings(SAME, max_examples=examples(300))
@given(st.binary(max_size=60))
def test_a_settings_file_of_any_bytes_is_refused_by_name(tmp_path_factory: Any, body: bytes) -> None:
    file: Path = tmp_path_factory.getbasetemp() / "fuzzed-settings.json"
    file.write_bytes(body)
    try:
        load(file)
        raise AssertionError("nothing that is required is there")
    except SettingsError as error:
        assert "\n" not in str(error)


SENT = st.one_of(
    JUNK, st.text(max_size=3), st.sampled_from([b"", "\ud800", {"n": 2**70}, {1: 2}, {"o": len}, {"t": "\ud800"}])
)
TIMES = st.integers() | st.sampled_from([-62_135_596_800_000, 253_402_300_799_999, None, "0"])


@settings(SAME, max_examples=examples(80))
@given(SENT, SENT, TIMES)
def test_a_record_of_a_trial_is_taken_or_refused_by_name(value: Any, key: Any, timestamp_ms: Any) -> None:
    with plain_trial(Pipeline(len, COLUMNS, rows=(ToKafka("told"),)), 1) as trial:
        try:
            trial.epoch([KafkaRecord(value, key, timestamp_ms)])
        except SettingsError as error:
            assert "\n" not in str(error)
