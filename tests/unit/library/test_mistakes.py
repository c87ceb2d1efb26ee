"""A declaration that cannot work is refused by a sentence that names what is wrong; one without mistakes is taken."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
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
    PipelineError,
    RecordedStep,
    Sum,
    ToFiles,
    ToKafka,
    ToTable,
    Windowed,
)
from effectively_once.errors import SettingsError
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.job import Job
from effectively_once.sinks.tables import COLUMN_TYPES
from tests.settings import pipeline_settings


def transform(frame: Any) -> Any:
    return frame


def rated(rows: pa.Table) -> pa.Table:
    return rows


TEXT, WHOLE, START = pa.string(), pa.int64(), "window_start_ms"
COLUMNS = pa.schema(
    [("user", TEXT), ("amount", WHOLE), ("small", pa.int32()), ("rate", pa.float64()), ("raw", pa.binary())]
)
RATED = RecordedStep("rated", rated, pa.schema([("price", WHOLE)]))
OWN = OwnAggregate(("amount",), int, lambda kept, amount: kept + amount, lambda a, b: a + b, abs, WHOLE)
GOOD = Pipeline(
    transform,
    COLUMNS,
    recorded=RATED,
    rows=(ToKafka("accepted", key="user"), ToTable("orders")),
    windows=(Windowed("user", {"n": Count(), "sum": Sum("amount")}, ToKafka("per_user"), totals=ToFiles("totals")),),
)


def columns(*more: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*COLUMNS, *more])


def step(name: str, *adds: tuple[str, pa.DataType]) -> RecordedStep:
    return RecordedStep(name, rated, pa.schema(list(adds)))


def windows(by: Any = "user", to: Any = None, totals: Any = None, **values: Any) -> dict[str, Any]:
    return {"windows": (Windowed(by, values, to or ToKafka("per_user"), totals),)}


NOT_NAMES = ["", "Upper", "1st", "a-b", "a.b", "a/b", "a b", "ä", "x" * 42, "a\n"]
RESERVED = [DEAD_LETTER, "ids", "deltas", "segments", "checkpoints", "recorded"]
TAKEN = ["topic", "partition", "offset", "id", "event_time_ms", "reason", "value", "shard", "epoch", "source", START]

REFUSED: list[Any] = [
    *(({"columns": columns((name, TEXT))}, f"column '{name}' is the library's own") for name in TAKEN),
    *(({"recorded": step("s", (name, TEXT))}, f"column '{name}' is the library's own") for name in TAKEN),
    ({"recorded": step("s", ("user", TEXT))}, "column 'user' is there twice"),
    ({"columns": columns(("d", pa.decimal128(9, -2)))}, r"column 'd' is of type decimal128\(9, -2\); possible are"),
    ({"columns": columns(("d", pa.decimal256(9, 2)))}, r"column 'd' is of type decimal256\(9, 2\); possible are"),
    ({"columns": columns(("l", pa.list_(WHOLE)))}, "column 'l' is of type list<.*>; possible are"),
    ({"columns": columns(("t", pa.timestamp("us")))}, r"column 't' is of type timestamp\[us\]; possible are .*tz=UTC"),
    ({"columns": columns(("t", pa.timestamp("ms", "UTC")))}, r"column 't' is of type timestamp\[ms, tz=UTC\]"),
    ({"columns": columns(("l", pa.large_string()))}, "column 'l' is of type large_string"),
    ({"recorded": step("s", ("f", pa.float32()))}, "column 'f' is of type float"),
    *(({"rows": (ToKafka(name),)}, "a sink or step cannot be called") for name in NOT_NAMES + RESERVED),
    *(({"rows": (ToTable(name),)}, "a sink or step cannot be called") for name in NOT_NAMES + RESERVED),
    *((windows(to=ToKafka(name), n=Count()), "a sink or step cannot be called") for name in NOT_NAMES + RESERVED),
    *((windows(totals=ToFiles(name), n=Count()), "a sink or step cannot be called") for name in NOT_NAMES + RESERVED),
    *(({"recorded": step(name, ("p", TEXT))}, "a sink or step cannot be called") for name in RESERVED),
    ({"rows": (ToKafka("a", message_bytes_max=65_535),)}, "sink 'a': message_bytes_max is at least 65,536"),
    ({"rows": (ToKafka("a", message_bytes_max=100_000_001),)}, "sink 'a': message_bytes_max is .* 100,000,000, not"),
    ({"rows": (ToKafka("a"), ToTable("a"))}, "two sinks or steps are called 'a'"),
    ({"rows": (ToKafka("per_user"),)}, "two sinks or steps are called 'per_user'"),
    ({"rows": (ToKafka("totals"),)}, "two sinks or steps are called 'totals'"),
    ({"rows": (ToKafka("rated"),)}, "two sinks or steps are called 'rated'"),
    (windows(totals=ToFiles("per_user"), n=Count()), "two sinks or steps are called 'per_user'"),
    ({"windows": GOOD.windows * 2}, "two sinks or steps are called 'per_user'"),
    *(
        (windows(by=by, n=Count()), f"windows 'per_user' are by '{name}', which is no column of texts, whole numbers")
        for name in ("rate", "raw", "nobody")
        for by in (name, ("user", name))
    ),
    (windows(by=(), n=Count()), "windows 'per_user' are by no column"),
    (windows(by=("user", "user"), n=Count()), "windows 'per_user' are by 'user' twice"),
    (windows(), "windows 'per_user' have no values"),
    *(
        (windows(**{name: Count()}), f"a value of windows 'per_user' cannot be called {name!r}")
        for name in ("user", "window_start_ms", "epoch", "N", "a b", "")
    ),
    *(
        (windows(v=kind(name)), f"value 'v' of windows 'per_user' is of '{name}', which is no column of numbers")
        for kind in (Sum, Average)
        for name in ("user", "raw")
    ),
    *(
        (windows(v=kind("nobody")), "value 'v' of windows 'per_user' is of 'nobody', which is not there")
        for kind in (Sum, Average, Min, Max, First, Last, CountDistinct, Collect)
    ),
    (windows(v=replace(OWN, columns=("nobody",))), "value 'v' of windows 'per_user' is of 'nobody', which is not"),
    (windows(v=replace(OWN, result=pa.float32())), "value 'v' of windows 'per_user' is of type float; possible are"),
    (
        windows(to=ToTable("t", key=("user", START, "last")), last=Last("user")),
        "sink 't' replaces rows by 'last', a text that may be longer",
    ),
    (
        windows(by=("user", "small"), to=ToTable("t", key=("user", START)), n=Count()),
        "sink 't' replaces rows by 'user': the key has to begin with 'user', 'small'",
    ),
    (
        windows(to=ToKafka("k", message_bytes_max=100_000), v=Collect("user")),
        "sink 'k' shows 100 texts and 6,400 bytes of other values in a message: message_bytes_max is at least 141,568",
    ),
    (
        windows(to=ToKafka("k", message_bytes_max=672_767), v=Collect("small", most=10_000)),
        "sink 'k' shows 0 texts and 640,000 bytes of other values in a message: message_bytes_max is at least 672,768",
    ),
    (
        windows(
            to=ToKafka("k", key="v", columns=("user", START), message_bytes_max=66_000), v=Collect("user", most=50)
        ),
        "sink 'k' shows 50 texts and 3,200 bytes of other values in a message: message_bytes_max is at least 87,168",
    ),
    (windows(v=replace(OWN, columns=())), "value 'v' of windows 'per_user' is of no column"),
    (
        windows(to=ToTable("t", key=("window_start_ms", "user")), n=Count()),
        "sink 't' replaces rows by 'window_start_ms': the key has to begin with 'user'",
    ),
    (windows(to=ToTable("t", key=("n",)), n=Count()), "sink 't' replaces rows by 'n'"),
    ({"rows": (ToTable("t", key=("user",)),)}, "sink 't' replaces rows by 'user', and rows of one user are in several"),
    ({"rows": (ToTable("t", key=("user", "id")),)}, "sink 't' replaces rows by 'user'"),
    ({"rows": (ToKafka("k", key="nobody"),)}, "sink 'k' asks for 'nobody', which is not there"),
    ({"rows": (ToKafka("k", value="nobody"),)}, "sink 'k' asks for 'nobody', which is not there"),
    ({"rows": (ToKafka("k", columns=("user", "nobody")),)}, "sink 'k' asks for 'nobody', which is not there"),
    ({"rows": (ToTable("t", columns=("nobody",)),)}, "sink 't' asks for 'nobody', which is not there"),
    ({"rows": (ToTable("t", key=("id", "nobody")),)}, "sink 't' asks for 'nobody', which is not there"),
    ({"rows": (ToTable("t", key=("id",)),), "ids": "coordinates"}, "sink 't' asks for 'id', which is not there"),
    (windows(to=ToKafka("k", key="amount"), n=Count()), "sink 'k' asks for 'amount', which is not there"),
    (windows(to=ToTable("t", columns=("n", "amount")), n=Count()), "sink 't' asks for 'amount', which is not there"),
    (windows(totals=ToFiles("t", columns=("user",)), n=Count()), "sink 't' asks for 'user', which is not there"),
    *(
        ({"rows": (to,)}, "sink 'k': key and value are text or binary, 'amount' is int64")
        for to in (ToKafka("k", key="amount"), ToKafka("k", value="amount"))
    ),
    (windows(to=ToKafka("k", key="n"), n=Count()), "sink 'k': key and value are text or binary, 'n' is int64"),
    ({"ids": "atached"}, "ids .*'atached'"),
    ({"semantics": "exactly"}, "semantics .*'exactly'"),
    ({"window_ms": 0}, "window_ms .*0"),
    ({"lateness_ms": -1}, "lateness_ms .*-1"),
    (windows(totals=ToKafka("t"), n=Count()), "sink 't'"),
    ({"columns": columns(("user", TEXT))}, "column 'user' is there twice"),
    ({"columns": columns(("User", TEXT))}, "column '[Uu]ser'"),
    ({"columns": columns(("Shard", TEXT))}, "column 'Shard'"),
    ({"columns": columns(("Reason", TEXT))}, "column 'Reason'"),
    ({"recorded": step("s", ("USER", TEXT))}, "column '(USER|user)'"),
    *(({"columns": columns((name, TEXT))}, "column") for name in ("a.b", "a`b", "", "x" * 64)),
    (windows(key=Count()), "a value .* cannot be called 'key'"),
    (windows(**{"offset": Max("amount")}), "a value .* cannot be called 'offset'"),
    (windows(to=ToTable("t", key=("user",)), n=Count()), "sink 't'"),
    ({"rows": (ToTable("t", key=("id",), columns=("user",)),)}, "sink 't'"),
    (windows(to=ToTable("t", key=("user", START), columns=("user", "n")), n=Count()), "sink 't'"),
    ({"rows": (ToTable("t", columns=("user", "user")),)}, "sink 't'"),
    ({"rows": (ToTable("t", key=("id", "id")),)}, "sink 't'"),
    ({"rows": (ToKafka("k", columns=("user", "user")),)}, "sink 'k'"),
    ({"rows": (ToKafka("k", columns=("user",), value="raw"),)}, "sink 'k'"),
    (windows(v=Sum("price")), "value 'v' .* 'price'"),
]


@pytest.mark.parametrize(("change", "says"), REFUSED)
def test_a_mistake_is_refused_by_a_sentence_that_names_it(change: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=f"^{says}") as refused:
        replace(GOOD, **change)
    assert refused.value.where == "declaration of the pipeline"
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, PipelineError)


def test_the_declaration_that_every_case_changes_is_without_mistakes() -> None:
    assert replace(GOOD).sinks.keys() == {"accepted", "orders", "per_user", "totals"}


NAME = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
TYPES = st.sampled_from([*COLUMN_TYPES])
# Names that mean something in Spark's, PostgreSQL's or our own rows, and are free all the same.
FREE = ["key", "kind", "note", "of", "v0", "size", "select", "order", "user", "staged", "progress", "total", "read"]


@st.composite
def declarations(draw: st.DrawFn) -> Pipeline:
    """Any declaration without mistakes."""
    taken = {*TAKEN, *RESERVED}
    names = draw(
        st.lists(NAME | st.sampled_from(FREE), min_size=2, max_size=8, unique=True).map(
            lambda some: [name for name in some if name not in taken]
        )
    )
    given = [(name, draw(TYPES)) for name in names]
    cut = draw(st.integers(0, len(given)))
    ids: Any = draw(st.sampled_from(["attached", "coordinates"]))
    sinks = iter(draw(st.lists(NAME.filter(lambda name: name not in taken), min_size=14, max_size=14, unique=True)))
    added = [pa.field(*column, nullable=False) for column in given[cut:]]
    recorded = RecordedStep(next(sinks), rated, pa.schema(added)) if added else None
    row = [*given, *([("id", TEXT)] if ids == "attached" else [])]
    texts = [name for name, kind in row if kind == TEXT]
    raws = [name for name, kind in row if kind in (TEXT, pa.binary())]
    whole = [name for name, kind in given if kind in (WHOLE, pa.int32())]
    some = st.lists(st.sampled_from([name for name, _ in row]), unique=True).map(tuple) if row else st.just(())
    rows: list[Any] = []
    for kind in draw(st.lists(st.sampled_from(["json", "raw", "append", "replace"]), max_size=3)):
        key = draw(st.sampled_from([None, *raws]))
        if kind == "raw" and raws:
            rows.append(ToKafka(next(sinks), key=key, value=draw(st.sampled_from(raws))))
        elif kind == "replace" and ids == "attached":
            rows.append(ToTable(next(sinks), key=("id",)))
        else:
            rows.append(draw(st.sampled_from([ToTable, ToKafka, ToFiles]))(next(sinks), columns=draw(some)))
    windowed = []
    for by in draw(st.lists(st.sampled_from(texts), max_size=2)) if texts else ():
        values: dict[str, Any] = {f"{by[:30]}_n": Count()}
        values |= {f"{by[:30]}_{kind.how}": kind(draw(st.sampled_from(whole))) for kind in (Sum, Min, Max) if whole}
        name = next(sinks)
        to: Any = draw(st.sampled_from([ToKafka(name, key=by), ToFiles(name), ToTable(name, key=(by, START))]))
        windowed.append(Windowed(by, values, to, draw(st.sampled_from([None, ToFiles(next(sinks))]))))
    return Pipeline(
        transform, pa.schema(given[:cut]), ids=ids, recorded=recorded, rows=tuple(rows), windows=tuple(windowed)
    )


SETTINGS = pipeline_settings(database="postgresql://h:1/d")


@given(declarations())
def test_a_declaration_without_mistakes_is_taken_and_all_that_is_asked_of_it_is_there(made: Pipeline) -> None:
    """By a driver, which hands it to executors, and by the commands."""
    sinks = {DEAD_LETTER, *made.sinks}
    assert {*made.kafka_sinks, *made.file_sinks, *made.tables} == sinks
    assert len(sinks) == len(made.kafka_sinks) + len(made.file_sinks) + len(made.tables)
    for name, (to, whole) in made.sinks.items():
        schema = made.schema_of(name)
        assert schema.names == [*(to.columns or whole.names)]
        assert len(set(schema.names)) == len(schema.names)
    for name, shape in made.tables.items():
        assert shape.schema == made.schema_of(name)
    assert set(made.required) <= set(made.input.names) <= set(made.row_schema.names)
    assert set(made.aggregated) <= set(made.row_schema.names)
    assert json.loads(json.dumps(made.bound)) == made.bound
    again = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
    assert again == made
    assert hash(tuple(again.tables.values())) == hash(tuple(made.tables.values())), "open sinks are found by it"
    assert Job(made, SETTINGS).digest == Job(again, SETTINGS).digest


CHANGED: list[Any] = [
    ({"ids": "coordinates"}, "ids"),
    ({"windows": ()}, "windows"),
    (windows(n=Count(), sum=Max("amount"), totals=ToFiles("totals")), "windows"),
    (windows(n=Count(), totals=ToFiles("totals")), "windows"),
    (windows(to=ToKafka("renamed"), n=Count(), sum=Sum("amount")), "windows"),
    (windows(by="id", n=Count(), sum=Sum("amount")), "windows"),
    (windows(n=Count(), sum=Sum("small")), "windows"),
    (windows(n=Count(), sum=Sum("rate")), "windows"),
    (windows(n=Count(), sum=Average("amount")), "windows"),
    (windows(by=("user",), n=Count(), sum=Average("amount")), "windows"),
    (windows(by="small", n=Count(), sum=Sum("amount")), "windows"),
    (windows(sum=Sum("amount"), n=Count()), "windows"),
]


@pytest.mark.parametrize(("change", "name"), CHANGED)
def test_what_state_depends_on_is_bound(change: dict[str, Any], name: str) -> None:
    """A version that changes it is refused at its start, by name."""
    before, after = GOOD.bound, replace(GOOD, **change).bound
    assert before[name] != after[name]


@pytest.mark.parametrize(
    "change", [{"rows": ()}, {"recorded": None}, {"columns": columns(("more", TEXT))}, {"window_ms": 5}]
)
def test_what_state_does_not_depend_on_may_change(change: dict[str, Any]) -> None:
    """The windows' lengths are settings, which have names of their own."""
    assert replace(GOOD, **change).bound == GOOD.bound
