"""What a job author declares: a pure transform, and what is to become of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from effectively_once.declared import FUNCTION, TEXT, WHOLE, by_name, either, none_or, one_of, require, several
from effectively_once.errors import SettingsError
from effectively_once.pipeline.columns import ATTACHED, DEAD_LETTER, TIME
from effectively_once.pipeline.definition import Definition
from effectively_once.pipeline.explode import Explode
from effectively_once.pipeline.mistakes import mistakes
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.pipeline.schemas import COLUMNS, become_schema
from effectively_once.pipeline.settings import LENGTHS
from effectively_once.pipeline.sinks import SINK, ToFiles, ToIceberg, ToKafka, ToTable
from effectively_once.pipeline.stateful import Stateful
from effectively_once.pipeline.windows import Windowed
from effectively_once.sinks.lake_files import LakeShape
from effectively_once.sinks.tables import TableShape
from effectively_once.state.accumulator import Accumulator
from effectively_once.state.aggregates import Collect, Count, CountDistinct, Max, Min, OwnAggregate, Sum
from effectively_once.state.lateness import Windows


@dataclass(frozen=True)
class Pipeline(Definition):
    """One pipeline: Kafka topic -> transform -> dedup -> sinks, and windows -> sinks.

    Attributes:
        transform: pure function of a data frame of Kafka's columns (key, value, topic, partition, offset, timestamp).
            It gives: `id` (text or binary; equal in every copy of a record; with attached ids only), `event_time_ms`
            (long, ms since 1970, fixed with the id) or in its place `event_time` (timestamp), `reason` (null, or why
            the record goes to the dead letters) and `columns`. One row out for each row in. The library knows by
            itself which record each row was made of, except behind a function in Python on batches of rows
            (`mapInArrow`, `mapInPandas`): there keep topic, partition, offset and value. Of a pipeline that reads
            several topics it is one function, which sees the column `topic`, or one for each: a mapping of topics.
        columns: what it adds beside that, names and types: text as Spark's DDL ("user string, amount decimal(10, 2)"),
            a StructType or a pyarrow.Schema, which it is from then on. A row of which a key, an aggregated column, one
            that is NOT NULL, its id or its time is null goes to the dead letters by itself.
        ids: `attached`: records carry an id, and the dedup catalog drops copies, however they came to be.
            `coordinates`: a record is its topic, partition and offset; nothing is stored, what was sent twice is two
            records.
        recorded: what is not deterministic (a clock, chance, a look-up outside): it gets the accepted rows of a shard
            and adds columns, which are recorded before anything is published. A repeat uses the record.
        rows: sinks of accepted rows.
        windows: aggregates of accepted rows by key and window.
        stateful: instead of windows, a query of Spark's own stateful operators over accepted rows.
        window_ms: length of windows that declare none, and the grain in which records are late and ids forgotten.
        lateness_ms: how long after its end a window still takes records; a copy of a record is known for as long.
        ahead_ms: how far a record's time may be after its Kafka timestamp; beyond is a dead letter (`ahead`), so that
            one wrong clock does not close the windows of all. None: as far as it likes.
        deterministic_udfs: names of functions in Python that the transform uses and that answer the same in every
            repeat. A start warns of others: Spark cannot tell.
        filtered: why the transform leaves records out: small words, at most 40. It then gives a column `filtered` too:
            null, or one of these, and such a record is counted by its reason and published nowhere. Its id stays
            unknown and its time moves nothing. A record with a `reason` is refused all the same, and one with another
            word goes to the dead letters (`undeclared_filter`).
        explode: an array that the transform gives, of which each element becomes a row, with an id of its own
            (`Explode`). None: a record is one row.
        semantics: `at_least_once` leaves transactions and marks of the Kafka sinks out.

    Window, lateness and semantics are defaults: the settings of a deployment may say otherwise.

    Raises:
        SettingsError: a type is another, names are wrong or taken, or a sink or window asks for what the transform does
            not give.

    """

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        become_schema(self, "columns")
        require(
            self,
            transform=either(FUNCTION, by_name(FUNCTION)),
            columns=COLUMNS,
            recorded=none_or(one_of("RecordedStep(...)", RecordedStep)),
            rows=several(SINK),
            windows=several(one_of("Windowed(...)", Windowed)),
            stateful=none_or(one_of("Stateful(...)", Stateful)),
            window_ms=WHOLE,
            lateness_ms=WHOLE,
            ahead_ms=none_or(WHOLE),
            deterministic_udfs=several(TEXT),
            filtered=several(TEXT),
            explode=none_or(one_of('Explode("items", rows_max=100)', Explode)),
        )
        for wrong in mistakes(self):
            raise SettingsError(wrong, "declaration of the pipeline", "Correct it.")

    @property
    def defaults(self) -> dict[str, Any]:
        """Settings that a deployment need not give."""
        return {name: getattr(self, name) for name in ("window_ms", "lateness_ms", "semantics")}

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The author's code: other code is another version."""
        steps = (self.recorded, self.stateful)
        own = [value for each in self.windows for value in each.values.values() if isinstance(value, OwnAggregate)]
        functions = [function for value in own for function in (value.zero, value.add, value.merge, value.finish)]
        return [*self.transforms.values(), *(step.function for step in steps if step is not None), *functions]

    @property
    def aggregated(self) -> tuple[str, ...]:
        """Columns that windows need; none of them may be null."""
        # Keys before all else: the first that is missing is the reason.
        keys = [name for each in self.windows for name in each.keys]
        return tuple(dict.fromkeys([*keys, *(name for each in self.windows for name in each.aggregated)]))

    def all_windows(self, common: Windows) -> tuple[Windows, ...]:
        """Return `common`, by which records are late and ids forgotten, and those of each `Windowed`."""
        return (common, *(each.windows(common) for each in self.windows))

    def accumulators(self, each: Windowed) -> dict[str, Accumulator]:
        """Return what is kept of each value of its windows."""
        return each.accumulators(self.row_schema)

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that may not be null: a row without one of them is a dead letter."""
        keys = {name for to in self.rows if isinstance(to, ToTable) for name in to.key}
        declared = {column.name for column in self.columns if not column.nullable}
        ours = {*ATTACHED.names, *TIME.names, *self.aggregated, *keys, *declared}
        return tuple(name for name in self.input.names if name in ours)

    @property
    def bound(self) -> dict[str, Any]:
        """What state depends on: kept in head, and refused when it changes."""
        kept: dict[str, Any] = {
            # In order, as it is the order of the columns in deltas.
            each.name: {"by": self._bound_key(each), "values": [*self._bound_values(each)], **_bound_length(each)}
            for each in self.windows
        }
        if self.stateful is not None:
            columns = [[column.name, str(column.type)] for column in self.stateful.schema]
            kept[self.stateful.name] = {"by": self.stateful.by, "stateful": columns}
        # Ids are others then. As written before where a record is one row: the digest stays.
        rows = {"explode": True} if self.explode is not None else {}
        return {"ids": self.ids, "windows": kept, **rows}

    def _bound_key(self, each: Windowed) -> Any:
        kinds = [[name, str(self.row_schema.field(name).type)] for name in each.keys]
        return each.keys[0] if [kind for _, kind in kinds] == ["string"] else kinds

    def _bound_values(self, each: Windowed) -> Iterator[list[Any]]:
        """What is kept of each value: of whole numbers as before other types were possible, without a type."""
        for name, value in each.values.items():
            kinds = [str(self.row_schema.field(column).type).replace("int32", "int64") for column in value.columns]
            if isinstance(value, Count | Sum | Min | Max) and kinds in ([], ["int64"]):
                yield [name, value.how, value.column]
            elif isinstance(value, OwnAggregate):
                yield [name, value.how, [*value.columns], *kinds, str(value.result)]
            else:
                most = [value.most] if isinstance(value, CountDistinct | Collect) else []
                yield [name, value.how, value.column, *kinds, *most]

    def schema_of(self, name: str) -> pa.Schema:
        """Columns that a sink publishes."""
        to, whole = self.sinks[name]
        return pa.schema([whole.field(column) for column in to.columns or whole.names])

    @property
    def kafka_sinks(self) -> tuple[str, ...]:
        """Names of the Kafka sinks in the order in which they publish, that of the dead letters among them."""
        windows = [each.to for each in self.windows] + ([self.stateful.to] if self.stateful else [])
        rows, results = ([to.name for to in some if isinstance(to, ToKafka)] for some in (self.rows, windows))
        return (*rows, DEAD_LETTER, *results)

    @property
    def file_sinks(self) -> tuple[str, ...]:
        """Names of the sinks on the object store that manifests tell of."""
        return tuple(name for name, (to, _) in self.sinks.items() if isinstance(to, ToFiles))

    @property
    def lake_tables(self) -> dict[str, LakeShape]:
        """Iceberg sinks, with the shape of their tables."""
        found = self.sinks.items()
        return {name: LakeShape(self.schema_of(name)) for name, (to, _) in found if isinstance(to, ToIceberg)}

    @property
    def staged_sinks(self) -> tuple[str, ...]:
        """Names of the sinks whose files the driver shows, for all shards at once."""
        return tuple(name for name, (to, _) in self.sinks.items() if isinstance(to, ToFiles | ToIceberg))

    @property
    def tables(self) -> dict[str, TableShape]:
        """PostgreSQL sinks, with the shape of their tables."""
        return {
            name: TableShape(self.schema_of(name), to.key)
            for name, (to, _) in self.sinks.items()
            if isinstance(to, ToTable)
        }


def _bound_length(each: Windowed) -> dict[str, int]:
    """What it declares of its windows; nothing where they are the pipeline's, as before others were possible."""
    return {name: value for name in LENGTHS if (value := getattr(each, name)) is not None}
