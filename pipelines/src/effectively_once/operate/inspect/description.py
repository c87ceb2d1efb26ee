"""What settings and the declaration they name come to, every name as it is on its server; none is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pyarrow as pa

from effectively_once.pipeline.columns import COORDINATES, DEAD_LETTER, POSITION
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.sinks import AnySink, ToFiles, ToIceberg, ToKafka, ToTable
from effectively_once.sinks.kafka_shard import ShardAddress
from effectively_once.state import catalog
from effectively_once.state.aggregates import Aggregate

Of = Literal["rows", "dead letters", "windows", "totals", "results"]
Columns = Mapping[str, str]
"""Name -> type, in order."""
_SOURCE = f"({', '.join(COORDINATES.names)})"
_DEAD_LETTER = {
    "reason": "string",
    "id": "string",
    "value": "string",
    "encoding": "string",
    "epoch": "int64",
    "source": _SOURCE,
}


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """A sink.

    Attributes:
        name: in the declaration.
        of: what its rows are: accepted rows, dead letters, a row a key and window, a row a window, or results of the
            stateful query.
        kind: of the place.
        where: its name there.
        columns: of its rows; of a topic, the fields of a message's JSON object. Empty for messages that are no JSON.
        key: columns that rows replace each other by; of a topic, the column that is the messages' key.
        value: the column that is the message.

    """

    name: str
    of: Of
    kind: Literal["topic", "table", "files", "lake table"]
    where: str
    columns: Columns
    key: tuple[str, ...] = ()
    value: str | None = None


@dataclass(frozen=True, slots=True)
class StateFacts:
    """A kind of state: its deltas are called so, where it has some; `of` is what is kept."""

    kind: str
    of: str


@dataclass(frozen=True, slots=True)
class Description:
    """A declared pipeline as one deployment runs it.

    Attributes:
        columns: of an accepted row, as sinks see it.
        required: those of which none may be null: a record without one is a dead letter.
        filtered: reasons for which the transform leaves records out.
        explode: the array whose elements are rows, and how many a record may have; None where a record is one row.
        recorded: what the recorded step adds, by its name.
        digest: of what state depends on (`bound`); every declaration pins it as `settings_digest`.

    """

    pipeline: str
    job: str
    topic: str
    kafka: str
    bucket: str
    database: str | None
    columns: Columns
    required: tuple[str, ...]
    ids: str
    window_ms: int
    lateness_ms: int
    ahead_ms: int | None
    filtered: tuple[str, ...]
    explode: Mapping[str, Any] | None
    recorded: Mapping[str, Columns]
    sinks: tuple[SinkFacts, ...]
    state: tuple[StateFacts, ...]
    shards: int
    semantics: str
    bound: Mapping[str, Any]
    digest: str

    @classmethod
    def of(cls, job: Job) -> Description:
        """Describe a job."""
        settings, declared = job.settings, job.pipeline
        step = declared.recorded
        return cls(
            pipeline=settings.pipeline,
            job=settings.job,
            topic=settings.topic,
            kafka=settings.kafka_bootstrap,
            bucket=f"{settings.s3_endpoint}/{settings.s3_bucket}/{settings.pipeline}",
            database=settings.database,
            columns=_types(declared.row_schema),
            required=declared.required,
            ids=declared.ids,
            window_ms=settings.window_ms,
            lateness_ms=settings.lateness_ms,
            ahead_ms=declared.ahead_ms,
            filtered=declared.filtered,
            explode=None if declared.explode is None else asdict(declared.explode),
            recorded={step.name: _types(step.adds)} if step else {},
            sinks=tuple(_sinks(job)),
            state=tuple(_state(job)),
            shards=settings.shards,
            semantics=settings.semantics,
            bound=job.bound,
            digest=job.digest,
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def _sinks(job: Job) -> Iterator[SinkFacts]:
    declared = job.pipeline
    for to in declared.rows:
        yield _sink(job, to, "rows")
    where = ShardAddress(job.settings.kafka_bootstrap, job.settings.pipeline, DEAD_LETTER, 0).topic
    yield SinkFacts(
        DEAD_LETTER, "dead letters", "topic", where, _DEAD_LETTER | (_types(POSITION) if declared.explode else {})
    )
    for each in declared.windows:
        yield _sink(job, each.to, "windows")
        if each.totals is not None:
            yield _sink(job, each.totals, "totals")
    if declared.stateful is not None:
        yield _sink(job, declared.stateful.to, "results")


def _sink(job: Job, to: AnySink, of: Of) -> SinkFacts:
    settings, schema = job.settings, job.pipeline.schema_of(to.name)
    if isinstance(to, ToFiles):
        place = f"s3://{settings.s3_bucket}/{settings.pipeline}/{to.name}/"
        return SinkFacts(to.name, of, "files", place, _types(schema))
    if isinstance(to, ToIceberg):
        return SinkFacts(to.name, of, "lake table", f"{settings.pipeline}.{to.name}", _types(schema))
    if isinstance(to, ToTable):
        place = f"{settings.pipeline}.{to.name}"
        return SinkFacts(to.name, of, "table", place, job.pipeline.tables[to.name].types, to.key)
    place = ShardAddress(settings.kafka_bootstrap, settings.pipeline, to.name, 0).topic
    key = (to.key,) if to.key else ()
    return SinkFacts(to.name, of, "topic", place, _message(to, schema, of == "rows"), key, to.value)


def _message(to: ToKafka, schema: pa.Schema, from_input: bool) -> Columns:
    """Fields of a message's JSON object, as `messages` makes it."""
    if to.value:
        return {}
    given = _types(schema)
    if from_input and not to.columns:
        given = {name: kind for name, kind in given.items() if name not in COORDINATES.names}
    return {**given, "epoch": "int64", **({"source": _SOURCE} if from_input else {})}


def _state(job: Job) -> Iterator[StateFacts]:
    if job.pipeline.ids == "attached":
        yield StateFacts(catalog.KIND, "of accepted records, until the window of their time is closed")
    for each in job.pipeline.windows:
        values = ", ".join(f"{name} = {_aggregate(value)}" for name, value in each.values.items())
        of = "" if each.length_ms is None else f" of {each.length_ms:,} ms"
        of += "" if each.slide_ms is None else f", one each {each.slide_ms:,} ms"
        yield StateFacts(each.name, f"{values} by {', '.join(each.keys)} and window{of}")
    if job.pipeline.stateful is not None:
        yield StateFacts(job.pipeline.stateful.name, "of Spark's operators, in Spark's checkpoint")


def _aggregate(value: Aggregate) -> str:
    return f"{type(value).__name__.lower()}({', '.join(value.columns)})"


def _types(schema: pa.Schema) -> dict[str, str]:
    return {column.name: str(column.type) for column in schema}
