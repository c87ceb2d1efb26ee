"""The command that shows what is declared, before anything runs: it imports the job and asks no server."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from effectively_once.operate.inspect.description import Columns, Description, SinkFacts
from effectively_once.pipeline.columns import TIME
from effectively_once.pipeline.job import Job

_IDS = {
    "attached": "attached: of records with one id the first is accepted, while its window is open",
    "coordinates": "coordinates: a record is its topic, partition and offset; none is dropped as a copy",
}


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of a command line; it sets `command`, called with job and arguments."""
    parser = commands.add_parser("describe", help="show what is declared: names, columns, state; no server is asked")
    parser.add_argument("settings", type=Path, help="settings file of the pipeline")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(command=_describe)


def lines(found: Description) -> Iterator[str]:
    """Yield one line a fact; columns of a sink below its line."""
    yield f"pipeline    {found.pipeline}, declared by {found.job}"
    yield f"source      topic {found.topic} at {found.kafka}"
    yield f"columns     {_list_columns(found.columns)}"
    if found.required:
        yield f"required    {', '.join(found.required)}: a record without one of them is a dead letter"
    yield f"ids         {_IDS[found.ids]}"
    if TIME.names[0] in found.columns:
        yield f"windows     {found.window_ms:,} ms each, and {found.lateness_ms:,} ms more for what is late"
    if found.ahead_ms is not None:
        yield f"ahead       a time {found.ahead_ms:,} ms after the record's own in Kafka is a dead letter"
    if found.filtered:
        yield f"filtered    {', '.join(found.filtered)}: a record of one of them is counted, and published nowhere"
    if found.explode is not None:
        of = found.explode
        yield f"explode     {of['column']}: each element is a row, of a record at most {of['rows_max']:,}"
    for step, adds in found.recorded.items():
        yield f"recorded    {step}: {_list_columns(adds)}"
    for sink in found.sinks:
        yield from _sink(sink)
    for kind in found.state:
        yield f"state       {kind.kind}: {kind.of}"
    yield f"shards      {found.shards}"
    yield f"semantics   {found.semantics}"
    yield f"bucket      {found.bucket}"
    if found.database is not None:
        yield f"database    {found.database}"
    yield f"digest      {found.digest} of {', '.join(found.bound)}"


def _sink(sink: SinkFacts) -> Iterator[str]:
    key = f", key {', '.join(sink.key)}" if sink.key else ""
    yield f"sink        {sink.name}: {sink.of} to {sink.kind} {sink.where}{key}"
    yield f"            {_list_columns(sink.columns) or f'each message is the column {sink.value}'}"


def _list_columns(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _describe(job: Job, given: argparse.Namespace) -> int:
    found = Description.of(job)
    for line in [json.dumps(found.as_json(), indent=2)] if given.json else lines(found):
        sys.stdout.write(f"{line}\n")
    return 0
