"""The commands of a pipeline: `python -m effectively_once create|inspect|backup|restore SETTINGS.json`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Final

from effectively_once.errors import PipelineError
from effectively_once.ledger.layout import Layout
from effectively_once.operate import grant, grant_objects, grant_tables, life_cycle
from effectively_once.operate.backup.backup import Backup
from effectively_once.operate.backup.backup_manifest import manifest_of
from effectively_once.operate.backup.lake_pins import LakePins
from effectively_once.operate.backup.location import location_of
from effectively_once.operate.backup.restore import restore
from effectively_once.operate.backup.series import Series
from effectively_once.operate.backup.topic_copies import TopicCopies
from effectively_once.operate.create import create_command
from effectively_once.operate.inspect import describe
from effectively_once.operate.inspect.certificate import complete, windows_of
from effectively_once.operate.inspect.inspection_text import lines
from effectively_once.operate.inspect.inspector import Inspector
from effectively_once.operate.inspect.start_check import start_check
from effectively_once.pipeline.job import Job, job_of
from effectively_once.pipeline.settings import refuse_changed
from effectively_once.store.object_store import S3ObjectStore

WHEEL_DIGEST = "EFFECTIVELY_ONCE_WHEEL_DIGEST"
_OF_THEIR_OWN: Final[Mapping[str, ModuleType]] = {
    "create": create_command,
    "grant": grant,
    "grant-objects": grant_objects,
    "grant-tables": grant_tables,
}
"""Commands that read their command lines themselves."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command, and return the exit code: that of the named error, or 0."""
    arguments = sys.argv[1:] if argv is None else argv
    code: int
    if (own := _OF_THEIR_OWN.get(arguments[0] if arguments else "")) is not None:
        code = own.main(arguments[1:])
        return code
    if arguments[:1] == ["run"]:
        # Imported here alone: the other commands run where there is no Spark.
        code = importlib.import_module("effectively_once.driver.main").run(arguments[1:])
        return code
    given = parser().parse_args(arguments)
    try:
        code = given.command(job_of(given.settings), given)
    except PipelineError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    return code


def _inspect(job: Job, given: argparse.Namespace) -> int:
    found = Inspector(job, os.environ.get(WHEEL_DIGEST)).look(deep=given.deep)
    for line in [json.dumps(found.as_json(), indent=2)] if given.json else lines(found):
        _say(line)
    return found.exit_code


def _complete(job: Job, given: argparse.Namespace) -> int:
    settings = job.settings
    store = S3ObjectStore(settings.bucket, settings.start_patience_s)
    windows = windows_of(job, given.of)
    return complete(settings, store, given.window, _say, as_json=given.json, windows=windows)


def _backup(job: Job, given: argparse.Namespace) -> int:
    settings = job.settings
    place = location_of(given.place, settings, given.endpoint)
    source, layout = S3ObjectStore(settings.bucket), Layout(settings.pipeline)
    pins = LakePins(job, source, _say)
    series = Series(place, settings.pipeline, _say, pins.unpin)
    if given.keep is not None:
        place = series.begin(datetime.now(UTC))
    steps = [job.pipeline.recorded.name] if job.pipeline.recorded else []
    manifest = Backup(source, layout, place, list(job.pipeline.file_sinks), _say, steps=steps, pin=pins.pin).take(
        all_output=not given.output_from_floor, checkpoint=given.checkpoint
    )
    size = sum(copied.bytes for copied in manifest.objects.values())
    if given.topics:
        TopicCopies(job, place, _say).take(manifest, source)
    _say(f"complete: {len(manifest.objects):,} objects, {size:,} bytes, {place}")
    if given.keep is not None:
        series.prune(given.keep)
    return 0


def _restore(job: Job, given: argparse.Namespace) -> int:
    settings = job.settings
    place, layout = location_of(given.place, settings, given.endpoint), Layout(settings.pipeline)
    store = S3ObjectStore(settings.bucket)
    topics = TopicCopies(job, place, _say) if given.topics else None
    if topics is not None:
        topics.check()
    head = restore(
        place,
        store,
        layout,
        lambda head: refuse_changed(head.settings, job.bound, str(place)),
        _say,
        kept=tuple(job.pipeline.lake_tables),
    )
    declared = f", epoch {head.declared.epoch} is declared" if head.declared else ""
    _say(f"restored: epoch {head.last_recorded} is the last recorded{declared}")
    if topics is not None:
        topics.put_back(head)
    if given.set_lake_tables_back:
        LakePins(job, store, _say).set_back(head, manifest_of(place).taken_ms)
    check = start_check(job, store, os.environ.get(WHEEL_DIGEST))
    _say(f"start: {check.verdict}")
    if check.refusal is not None:
        raise check.refusal
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def parser() -> argparse.ArgumentParser:
    """Return what reads a command line, but for `create` and `run`."""
    made = argparse.ArgumentParser(prog="effectively-once", description=(__doc__ or "").split(":", maxsplit=1)[0] + ".")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    # For the list of commands only: these two read their arguments themselves.
    commands.add_parser("create", help="make bucket, topics and tables")
    commands.add_parser("run", help="run the job that the settings name, until it is asked to stop")

    inspect = commands.add_parser("inspect", help="show what there is of a pipeline, and what is damaged")
    inspect.add_argument("--json", action="store_true", help="one JSON object instead of text")
    inspect.add_argument("--deep", action="store_true", help="read every segment, manifest and published file too")
    whole = commands.add_parser(
        "complete", help="tell whether all sources had passed a window when its result was published"
    )
    whole.add_argument("--window", type=int, required=True, metavar="START_MS", help="its start, ms since 1970")
    whole.add_argument("--of", metavar="NAME", help="whose window it is, where there are several lengths")
    whole.add_argument("--json", action="store_true", help="one JSON object instead of text")
    backup = commands.add_parser("backup", help="copy the chain, consistently, while drivers run")
    backup.add_argument("--checkpoint", action="store_true", help="Spark's checkpoint too")
    backup.add_argument(
        "--output-from-floor", action="store_true", help="of object-store sinks only what is not below the floor"
    )
    backup.add_argument(
        "--keep",
        type=life_cycle.read_number,
        metavar="N",
        help="one of a series: in a folder of its own below the place, named after the moment; the newest N stay",
    )
    putting_back = commands.add_parser("restore", help="put a chain back from a backup")
    putting_back.add_argument(
        "--set-lake-tables-back",
        action="store_true",
        help="lake tables show what they did at the backup, and nothing that came after it",
    )
    backup.add_argument("--topics", action="store_true", help="the rows of the Kafka sinks too, up to the head")
    putting_back.add_argument(
        "--topics", action="store_true", help="fill the topics of the Kafka sinks, made anew, with those of the backup"
    )
    for command, function in ((inspect, _inspect), (whole, _complete), (backup, _backup), (putting_back, _restore)):
        command.add_argument("settings", type=Path, help="settings file of the pipeline")
        command.set_defaults(command=function)
    for command in (backup, putting_back):
        command.add_argument("place", help="a folder, or s3://bucket/prefix; one backup each")
        command.add_argument("--endpoint", help="of the bucket, when it is not the pipeline's: http[s]://host:port")
    describe.add_to(commands)
    life_cycle.add_to(commands)
    return made


if __name__ == "__main__":
    sys.exit(main())
