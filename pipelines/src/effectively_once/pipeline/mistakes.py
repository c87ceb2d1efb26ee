"""What can be wrong with a declaration, found before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from effectively_once.pipeline.columns import ATTACHED, COORDINATES, DEAD_LETTER, FILTERED, POSITION, REFUSED, TIME
from effectively_once.pipeline.definition import Definition
from effectively_once.pipeline.explode import Explode
from effectively_once.pipeline.settings import LENGTHS
from effectively_once.pipeline.sinks import AnySink, ToFiles, ToIceberg, ToKafka, ToTable
from effectively_once.pipeline.stateful import EVENT_TIME, Stateful
from effectively_once.pipeline.windows import WINDOW_START, Windowed
from effectively_once.sinks.tables import TYPES, column_type
from effectively_once.state import keys
from effectively_once.state.accumulators import is_number
from effectively_once.state.aggregates import Average, Collect, First, Last, OwnAggregate, Sum
from effectively_once.state.lateness import LONGEST_MS

_OURS = {*COORDINATES.names, *ATTACHED.names, *TIME.names, *REFUSED.names, "shard", "epoch", "source", WINDOW_START}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
"""What Spark takes without quotes, and PostgreSQL without cutting it."""
_STATES_OWN = "key"
"""The key's column in the deltas of windows."""
LEAST_BYTES, MOST_BYTES = 65_536, 100_000_000
"""Of messages: what numbers and names of columns take beside texts, and what a producer sends."""
TEXT_BYTES = 1_024
"""Of a message, for each text that results show of records: some two hundred characters, however they are escaped."""
MOST_WINDOWS = 64
"""Of one `Windowed` that a record is in: each has a result of its own, and panes are added to so many windows."""
MOST_FILTERED = 40
"""Reasons to leave records out: each is in the record of every epoch that has one, and is a series of a metric."""
_KEPT_FOR_US = {DEAD_LETTER, "ids", "deltas", "segments", "checkpoints", "recorded"}


def mistakes(pipeline: Definition) -> Iterator[str]:
    """Say what is wrong with a declaration, in the order in which it reads."""
    added = pipeline.recorded.adds if pipeline.recorded else pa.schema([])
    columns = [*pipeline.columns, *added]
    yield from _wrong_settings(pipeline)
    yield from _wrong_names([column.name for column in columns])
    yield from _wrong_filtered(pipeline.filtered, [column.name for column in columns])
    yield from _wrong_transforms(pipeline)
    yield from _wrong_explode(pipeline, pipeline.explode, [column.name for column in columns])
    yield from (
        f"column {column.name!r} is of type {column.type}; possible are {TYPES}"
        for column in columns
        if column_type(column.type) is None
    )
    if pipeline.ahead_ms is not None and not pipeline.timed:
        yield "ahead_ms is of rows that have an event time, and these have none"
    sinks = [*pipeline.rows, *(each.to for each in pipeline.windows)]
    sinks += [each.totals for each in pipeline.windows if each.totals is not None]
    if pipeline.stateful is not None:
        sinks.append(pipeline.stateful.to)
        yield from _wrong_stateful(pipeline, pipeline.stateful)
    names = [to.name for to in sinks]
    names += [pipeline.recorded.name] if pipeline.recorded else []
    for name in names:
        if not _NAME.fullmatch(name) or name in _KEPT_FOR_US:
            taken = ", ".join(sorted(_KEPT_FOR_US))
            yield f"a sink or step cannot be called {name!r}: small letters, digits and _ are possible, and not {taken}"
        if names.count(name) > 1:
            yield f"two sinks or steps are called {name!r}"
    nullable = {column.name for column in added if column.nullable}
    may_be_null = "which the recorded step may leave null: declare it with nullable=False"
    yield from wrong_lengths(pipeline.windows, pipeline.window_ms)
    for each in pipeline.windows:
        yield from _wrong_window(each, pipeline.row_schema)
        for name, value in each.values.items():
            for column in nullable.intersection(value.columns):
                yield f"value {name!r} of windows {each.name!r} is of {column!r}, {may_be_null}"
        for name in nullable.intersection(each.keys):
            yield f"windows {each.name!r} are by {name!r}, {may_be_null}"
    for to, schema in pipeline.sinks.values():
        yield from _wrong_sink(to, schema)
    for to in pipeline.rows:
        if isinstance(to, ToTable) and to.key and to.key[0] != "id":
            yield f"sink {to.name!r} replaces rows by {to.key[0]!r}, and rows of one {to.key[0]} are in several shards"


def wrong_lengths(windows: Iterable[Windowed], window_ms: int) -> Iterator[str]:
    """Say which windows are not made of whole ones of the pipeline, `window_ms` long, or cannot overlap so."""
    for each in windows:
        wrong = list(_wrong_length(each, window_ms))
        yield from wrong
        length = window_ms if each.length_ms is None else each.length_ms
        if wrong or each.slide_ms is None:
            continue
        if length % each.slide_ms:
            yield f"slide_ms of windows {each.name!r} divides their length ({length}), which {each.slide_ms} does not"
        elif length // each.slide_ms > MOST_WINDOWS:
            yield (
                f"a record would be in {length // each.slide_ms:,} of windows {each.name!r}, at most {MOST_WINDOWS} "
                f"are possible: slide_ms is at least {-(-length // MOST_WINDOWS)}"
            )


def _wrong_length(each: Windowed, window_ms: int) -> Iterator[str]:
    for name in LENGTHS:
        value = getattr(each, name)
        if value is None:
            continue
        if not 1 <= value <= LONGEST_MS:
            yield f"{name} of windows {each.name!r} is at least 1 and at most {LONGEST_MS:,}, not {value}"
        elif value % window_ms:
            yield f"{name} of windows {each.name!r} is a multiple of window_ms ({window_ms}), not {value}"


def _wrong_settings(pipeline: Definition) -> Iterator[str]:
    """What is no type to Python, and would be taken for something else."""
    if pipeline.ids not in ("attached", "coordinates"):
        yield f"ids are 'attached' or 'coordinates', not {pipeline.ids!r}"
    if pipeline.semantics not in ("exactly_once", "at_least_once"):
        yield f"semantics are 'exactly_once' or 'at_least_once', not {pipeline.semantics!r}"
    for name, least in (("window_ms", 1), ("lateness_ms", 0), ("ahead_ms", 0)):
        value = getattr(pipeline, name)
        if value is not None and not least <= value <= LONGEST_MS:
            yield f"{name} is at least {least} and at most {LONGEST_MS:,}, not {value}"


def _wrong_names(names: list[str]) -> Iterator[str]:
    """Spark takes two names that differ in case for one."""
    ours = {name.lower() for name in _OURS}
    known = [name.lower() for name in names]
    for name in names:
        if not _COLUMN.fullmatch(name):
            yield f"column {name!r} has no possible name: letters, digits and _ are possible, and at most 63 of them"
        if name.lower() in ours:
            yield f"column {name!r} is the library's own"
        if known.count(name.lower()) > 1:
            yield f"column {name!r} is there twice"


def _wrong_filtered(reasons: tuple[str, ...], columns: list[str]) -> Iterator[str]:
    """What is wrong with the reasons for which records are left out; whoever declares none may use the column."""
    for reason in reasons:
        if not _NAME.fullmatch(reason):
            yield f"filtered has {reason!r:.80}: a reason is small letters, digits and _, at most 41"
    yield from (f"filtered has {reason!r} twice" for reason in _twice(reasons))
    if len(reasons) > MOST_FILTERED:
        yield f"filtered has {len(reasons)} reasons, at most {MOST_FILTERED} are possible"
    for name in columns:
        if reasons and name.lower() in FILTERED.names:
            yield f"column {name!r} is the library's own where filtered is declared"


def _wrong_transforms(pipeline: Definition) -> Iterator[str]:
    """What is wrong with a transform for each topic."""
    if isinstance(pipeline.transform, Mapping):
        if not pipeline.transform:
            yield "transform has no topic: it is a function, or a mapping of topics to functions"
        if pipeline.stateful is not None:
            yield "a stateful query has one transform, which looks at the column topic"


def _wrong_explode(pipeline: Definition, explode: Explode | None, columns: list[str]) -> Iterator[str]:
    """What does not go together with several rows for a record."""
    if explode is None:
        return
    lower = [name.lower() for name in columns]
    if not _COLUMN.fullmatch(explode.column) or explode.column.lower() in {*map(str.lower, _OURS), *FILTERED.names}:
        yield f"explode is of {explode.column!r:.80}, which no column of the transform may be called"
    if explode.column.lower() in lower:
        yield f"column {explode.column!r} is exploded: declare the fields of its elements in its place"
    yield from (
        f"column {name!r} is the library's own with explode" for name in columns if name.lower() in POSITION.names
    )
    if pipeline.ids != "attached":
        yield "explode needs ids='attached': the id of a row is made of its record's"
    if pipeline.stateful is not None:
        yield "a pipeline has explode or a stateful query, not both: make two, one on a topic of the other"
    for each in pipeline.windows:
        for name, value in each.values.items():
            if isinstance(value, First | Last | Collect):
                yield (
                    f"value {name!r} of windows {each.name!r} is {type(value).__name__}, which is not possible with "
                    "explode: rows of one record have the same time and source, and none of them comes first"
                )


def _twice(names: Iterable[str]) -> list[str]:
    given = list(names)
    return [name for name in dict.fromkeys(given) if given.count(name) > 1]


def _wrong_window(each: Windowed, columns: pa.Schema) -> Iterator[str]:
    kinds = {column.name: column.type for column in columns}
    for name in each.keys:
        if kinds.get(name) not in keys.TYPES:
            yield (
                f"windows {each.name!r} are by {name!r}, which is no column of texts, whole numbers, dates, truth "
                "values or times"
            )
    if not each.keys:
        yield f"windows {each.name!r} are by no column"
    yield from (f"windows {each.name!r} are by {name!r} twice" for name in _twice(each.keys))
    yield from _wrong_values(each, kinds)
    if isinstance(each.to, ToTable) and each.to.key:
        yield from _wrong_key(each, each.to, each.schema(columns))
    if isinstance(each.to, ToKafka):
        yield from _small_message(each, each.to, columns)
    if each.totals is not None and not isinstance(each.totals, ToFiles | ToIceberg):
        yield f"sink {each.totals.name!r} is of totals, which go to files or lake tables alone"


def _small_message(each: Windowed, to: ToKafka, columns: pa.Schema) -> Iterator[str]:
    """Whether results may be larger than a message, whatever records hold: nobody could ever publish such a one."""
    names, values = (*(to.columns or each.values), to.key, to.value), each.accumulators(columns)
    shown = [values[name] for name in names if name in values]
    texts, others = sum(value.texts for value in shown), sum(value.json_bytes for value in shown)
    least = texts * TEXT_BYTES + (others + LEAST_BYTES // 2 if others else 0)
    if to.message_bytes_max < least:
        yield (
            f"sink {to.name!r} shows {texts:,} texts and {others:,} bytes of other values in a message: "
            f"message_bytes_max is at least {least:,}"
        )


def _wrong_values(each: Windowed, kinds: Mapping[str, pa.DataType]) -> Iterator[str]:
    if not each.values:
        yield f"windows {each.name!r} have no values"
    for name, value in each.values.items():
        if name in (*each.keys, _STATES_OWN, *_OURS) or not _NAME.fullmatch(name):
            yield f"a value of windows {each.name!r} cannot be called {name!r}"
        for column in value.columns:
            if column not in kinds:
                yield f"value {name!r} of windows {each.name!r} is of {column!r}, which is not there"
            elif isinstance(value, Sum | Average) and not is_number(kinds[column]):
                yield f"value {name!r} of windows {each.name!r} is of {column!r}, which is no column of numbers"
        if isinstance(value, OwnAggregate) and not value.columns:
            yield f"value {name!r} of windows {each.name!r} is of no column"
        if isinstance(value, OwnAggregate) and column_type(value.result) is None:
            yield f"value {name!r} of windows {each.name!r} is of type {value.result}; possible are {TYPES}"


def _wrong_key(each: Windowed, to: ToTable, results: pa.Schema) -> Iterator[str]:
    """What is wrong with the key of a table of results: rows of one key would be in several shards, or two at once."""
    by = ", ".join(map(repr, each.keys))
    if to.key[: len(each.keys)] != each.keys:
        yield f"sink {to.name!r} replaces rows by {to.key[0]!r}: the key has to begin with {by}"
    if WINDOW_START not in to.key:
        one = each.by if isinstance(each.by, str) else "key"
        yield f"sink {to.name!r} would get two rows of one {one} at once: the key needs {WINDOW_START!r} too"
    for name in to.key:
        if name in each.values and results.field(name).type in (pa.string(), pa.binary()):
            yield f"sink {to.name!r} replaces rows by {name!r}, a text that may be longer than a table's key"


def _wrong_stateful(pipeline: Definition, stateful: Stateful) -> Iterator[str]:
    if pipeline.windows:
        yield "a pipeline has windows or a stateful query, not both: make two, one on a topic of the other"
    if pipeline.recorded is not None:
        yield "a pipeline has a recorded step or a stateful query, not both: make two, one on a topic of the other"
    if EVENT_TIME in (name.lower() for name in pipeline.columns.names):
        yield f"column {EVENT_TIME!r} is what the stateful query is given as the time of a row: call it otherwise"
    taken = {"epoch", "source"}
    for column in stateful.schema:
        if not _COLUMN.fullmatch(column.name) or column.name.lower() in taken:
            yield f"a result of the stateful query cannot be called {column.name!r}"
        if column_type(column.type) is None:
            yield f"result {column.name!r} of the stateful query is of type {column.type}; possible are {TYPES}"
    for name in _twice(name.lower() for name in stateful.schema.names):
        yield f"result {name!r} of the stateful query is there twice"
    if stateful.by not in stateful.schema.names or not pa.types.is_string(stateful.schema.field(stateful.by).type):
        yield f"the stateful query's results are by {stateful.by!r}, which is none of their columns of text"
    to = stateful.to
    if isinstance(to, ToTable) and to.key and to.key[0] != stateful.by:
        yield f"sink {to.name!r} replaces rows by {to.key[0]!r}: the key has to begin with {stateful.by!r}"


def _wrong_sink(to: AnySink, schema: pa.Schema) -> Iterator[str]:
    wanted = [*to.columns]
    yield from (f"sink {to.name!r} names column {name!r} twice" for name in _twice(to.columns))
    if isinstance(to, ToKafka):
        if not LEAST_BYTES <= to.message_bytes_max <= MOST_BYTES:
            allowed = f"at least {LEAST_BYTES:,} and at most {MOST_BYTES:,}"
            yield f"sink {to.name!r}: message_bytes_max is {allowed}, not {to.message_bytes_max}"
        wanted += [name for name in (to.key, to.value) if name]
        if to.value and to.columns:
            yield f"sink {to.name!r} has both columns and a value: a message is either"
        for name in (to.key, to.value):
            if name in schema.names and schema.field(name).type not in (pa.string(), pa.binary()):
                yield f"sink {to.name!r}: key and value are text or binary, {name!r} is {schema.field(name).type}"
    elif isinstance(to, ToTable):
        wanted += to.key
        yield from (f"sink {to.name!r} names {name!r} twice in its key" for name in _twice(to.key))
        without = [name for name in to.key if to.columns and name in schema.names and name not in to.columns]
        yield from (f"sink {to.name!r} replaces rows by {name!r}, which is none of its columns" for name in without)
    missing = [name for name in wanted if name not in schema.names]
    yield from (f"sink {to.name!r} asks for {name!r}, which is not there" for name in missing)
