"""What a declared pipeline says, and what its transform makes of records: asked in a process of its own.

    python -m tests.harness.definition.declared declaration JOB
    python -m tests.harness.definition.declared transform JOB SOURCE GIVEN

The first prints the declaration as JSON (tests.harness.checkers.declared.Declaration, and more). The second runs the
transform over the records of SOURCE, once and in one session without executors, and writes what it gave to GIVEN. What
a job imports stays in here.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from effectively_once import Pipeline, ToFiles, ToIceberg, ToKafka, ToTable, Windowed
from effectively_once.driver.version import package_digests
from effectively_once.pipeline.columns import COORDINATES, DEAD_LETTER
from effectively_once.pipeline.job import import_pipeline
from effectively_once.pipeline.settings import LENGTHS
from effectively_once.pipeline.sinks import AnySink
from effectively_once.pipeline.windows import WINDOW_START
from tests.harness.checkers.aggregated import HOWS, WHOLE, Value
from tests.harness.definition.schemas import keys_of, letters_of, schemas_of, values_of
from tests.harness.run_directory import LinesWriter, read_lines
from tests.harness.wire import TEXT, as_text, spell

_NO_JSON = "its messages are the content of a column, and no JSON that tells what they are of"
_KINDS = {ToKafka: "kafka", ToFiles: "files", ToTable: "table", ToIceberg: "lake"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NotJudgedError(Exception):
    """A declaration of which nothing can be judged; the message says why."""


def describe(pipeline: Pipeline) -> dict[str, Any]:
    """The declaration as JSON: what the reference needs, settings that it gives, and names of all sinks.

    Raises:
        NotJudgedError: the state of its results is Spark's own.
    """
    if pipeline.stateful is not None:
        raise NotJudgedError("its results come from Spark's own stateful operators, which no reference here recomputes")
    recorded = set(pipeline.recorded.adds.names) if pipeline.recorded else set()
    aggregates: dict[str, Any] = {}
    sinks: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for each in pipeline.windows:
        used = {*keys_of(each), *(name for value in each.values.values() for name in value.columns)}
        values = values_of(pipeline, each)
        why = "it aggregates what a recorded step adds" if used & recorded else None
        why = why or ("it has an aggregate of its author's own" if {v.how for v in values.values()} - HOWS else None)
        if why is not None:
            left_out |= {to.name: why for to in (each.to, each.totals) if to}
            continue
        aggregates[each.name] = {
            "by": each.by,
            "values": {name: _parts(value) for name, value in values.items()},
            **{of: value for of in LENGTHS if (value := getattr(each, of)) is not None},
        }
        if (why := _why_unjudged_windows(each)) is not None:
            left_out[each.to.name] = why
        else:
            sinks.append(_sink(pipeline, each.to, each.name, recorded))
        sinks += [_sink(pipeline, each.totals, each.name, recorded, totals=True)] if each.totals else []
    for to in pipeline.rows:
        if (why := _why_unjudged(to)) is not None:
            left_out[to.name] = why
        elif pipeline.explode is not None and to.columns and "pos" not in to.columns:
            left_out[to.name] = "its columns leave pos out, and a record has several rows"
        else:
            sinks.append(_sink(pipeline, to, "rows", recorded))
    columns = ("reason", "id", "value")
    judged = {one["name"] for one in sinks}
    schemas = {name: one.model_dump(mode="json") for name, one in schemas_of(pipeline).items() if name in judged}
    sinks.append({"name": DEAD_LETTER, "kind": "kafka", "of": DEAD_LETTER, "columns": columns, "totals": False})
    return {
        "declaration": {
            "attached": pipeline.ids == "attached",
            "timed": pipeline.timed,
            "sinks": sinks,
            "aggregates": aggregates,
            "left_out": left_out,
            "filtered": list(pipeline.filtered),
            **({} if pipeline.explode is None else {"rows_max": pipeline.explode.rows_max}),
        },
        "schemas": {**schemas, DEAD_LETTER: letters_of(pipeline).model_dump(mode="json")},
        "defaults": pipeline.defaults,
        "code": package_digests(*pipeline.functions),
        "rows": [to.name for to in pipeline.rows if not isinstance(to, ToFiles | ToIceberg)],
        "kafka": pipeline.kafka_sinks,
        "files": pipeline.file_sinks,
        "tables": list(pipeline.tables),
        "lake": list(pipeline.lake_tables),
    }


def _why_unjudged_windows(each: Windowed) -> str | None:
    """Why a sink of aggregates cannot be compared; None where it can."""
    to = each.to
    if isinstance(to, ToKafka) and to.value:
        return _NO_JSON
    needed = {*keys_of(each), WINDOW_START}
    return "its columns leave key and window out" if to.columns and needed - {*to.columns} else None


def _parts(value: Value) -> tuple[Any, ...]:
    """What the reference makes a value of; of whole numbers as runs have always been recorded."""
    if value.type == WHOLE and not value.most:
        return value.how, value.column
    return value.how, value.column, value.type, value.most


def _why_unjudged(to: AnySink) -> str | None:
    """Why a sink of rows cannot be compared; None where it can."""
    if isinstance(to, ToKafka):
        return _NO_JSON if to.value else None
    if isinstance(to, ToTable) and to.key:
        return "its rows replace each other"
    coordinates = set(COORDINATES.names)
    return "its columns leave topic, partition and offset out" if to.columns and coordinates - {*to.columns} else None


def _sink(pipeline: Pipeline, to: AnySink, of: str, recorded: set[str], totals: bool = False) -> dict[str, Any]:
    columns = pipeline.schema_of(to.name).names
    apart = recorded | (set(COORDINATES.names) if of == "rows" else set())
    return {
        "name": to.name,
        "kind": _KINDS[type(to)],
        "of": of,
        "columns": [name for name in columns if name not in apart],
        "totals": totals,
    }


def transform_all(pipeline: Pipeline, source: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What the transform makes of records, a line each, in no order."""
    from effectively_once import trial_session  # noqa: PLC0415 - the declaration needs no Spark
    from effectively_once.epoch import rows  # noqa: PLC0415

    spark = trial_session()
    sent = [
        (
            _bytes(one["key"]),
            _bytes(one["value"]),
            one["topic"],
            one["partition"],
            one["offset"],
            _EPOCH + timedelta(milliseconds=one["timestamp"]),
            0,
        )
        for one in source
    ]
    judged = rows.judge(pipeline, spark.createDataFrame(sent, rows.KAFKA)).toArrow()
    values = {(one["topic"], one["partition"], one["offset"]): _as_dead_letter(_bytes(one["value"])) for one in source}
    for row in judged.to_pylist():
        place = tuple(row.pop(name) for name in COORDINATES.names)
        reason, left_out = row.pop("reason"), row.pop("filtered") if pipeline.filtered else None
        row.pop("value")
        # As the sinks write it; a row is compared as JSON has it.
        plain = orjson.loads(orjson.dumps(row, default=spell))
        value, encoding = values[place]
        line = {"source": place, "reason": reason, "row": plain, "value": value, "encoding": encoding}
        if pipeline.explode is not None:
            line["pos"] = row["pos"]
        # What is left out has a word of the library's as its reason, that nothing takes it for accepted.
        yield line if left_out is None else {**line, "reason": None, "filtered": left_out}


def _as_dead_letter(value: bytes | None) -> tuple[str | None, str]:
    """As a dead letter has it: a tombstone's null stays null."""
    return (None, TEXT) if value is None else as_text(value)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; errors are for the process that asked, on the last line of the error output."""
    what, job, *paths = arguments
    pipeline = import_pipeline(job)
    if what == "declaration":
        sys.stdout.write(orjson.dumps(describe(pipeline)).decode() + "\n")
        return 0
    source, to = map(Path, paths)
    with LinesWriter(to) as lines:
        for line in transform_all(pipeline, list(read_lines(source))):
            lines.write(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
