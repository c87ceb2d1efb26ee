"""The batch run as a driver, in the stream's place: `python -m effectively_once_jobs.reconcile.deployed SETTINGS.json`.

For the chart, whose `module` names it. What it found goes to the object store, under a name of this run's below the
pipeline's own. A driver that ends is started again: so this one stays, once that is done, until SIGTERM. One that could
not tell ends with the code of its error, and the next one tries again.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from effectively_once.errors import PipelineError, UnreachableError, one_line
from effectively_once.ledger.objects import Put, Written
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.progress import announce
from effectively_once.store.object_store import S3ObjectStore
from effectively_once_jobs.reconcile import __main__ as command
from effectively_once_jobs.settings_file import read

RECONCILED = "reconciled"
"""Announced with the command's exit code and the names of the objects, and part of these names."""
ANSWERS = (0, 1)
"""The stream is accurate, or it is not."""


class ReconcileSettings(PipelineSettings):
    """The stream's own settings, and what the batch run needs to know beside them.

    Attributes:
        beside: topics of other jobs, as `--beside`.
        since_ms: as `--since`.

    """

    beside: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")], ...] = ()
    since_ms: int | None = None


def main(argv: Sequence[str]) -> int:
    """Run it once, tell of it, and wait for SIGTERM; returns the exit code."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    announce("driver", state="started", pid=os.getpid(), generation=1)
    try:
        code = _reconcile(read(Path(argv[0]), ReconcileSettings))
    except PipelineError as error:
        sys.stderr.write(one_line(error) + "\n")
        return error.exit_code
    if code not in ANSWERS:
        return code
    stop.wait()
    return 0


def _reconcile(settings: ReconcileSettings) -> int:
    """Run the command, and put what it found; returns its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        own, to = Path(folder) / "settings.json", Path(folder) / "found"
        # What is not set here is the declaration's to say.
        own.write_text(settings.model_dump_json(include={*PipelineSettings.model_fields}, exclude_unset=True))
        words = [str(own), "--to", str(to), *(word for topic in settings.beside for word in ("--beside", topic))]
        code = command.main([*words, *([] if settings.since_ms is None else ["--since", str(settings.since_ms)])])
        if code in ANSWERS:
            names = put(S3ObjectStore(settings.bucket), settings.pipeline, to)
            sys.stdout.write(f"{', '.join(names)} in bucket {settings.s3_bucket}\n")
            announce(RECONCILED, code=code, objects=names)
        return code


def put(store: S3ObjectStore, pipeline: str, folder: Path) -> list[str]:
    """Put the files of a folder to the object store; returns their names there.

    Raises:
        UnreachableError: the store did not say that it has one.

    """
    place = f"{pipeline}/{RECONCILED}/{uuid.uuid4().hex}"
    names: list[str] = []
    for file in sorted(folder.iterdir()):
        name = f"{place}/{file.name}"
        match store.answer(Put(name, file.read_bytes(), None)):
            case Written():
                names.append(name)
            case answer:
                raise UnreachableError(
                    f"the object store did not say that it has {name}, but {answer}",
                    store.address.endpoint,
                    "Nothing was lost: the next driver runs all of it again.",
                )
    return names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
