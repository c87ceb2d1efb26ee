"""The batch run as a driver on any ground: what it found goes to the object store, from where it is fetched.

A driver that ends is started again, on a cluster by the operator. So it stays, once it has told how the run went, until
it is told to stop. It may run again: every run puts its files under a name of its own.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import uuid
from pathlib import Path

from effectively_once.job import job_of
from effectively_once.ledger.objects import Put, Written
from effectively_once.object_store import S3ObjectStore
from effectively_once.progress import announce
from effectively_once_jobs.reconcile import __main__ as command

BESIDE = "EFFECTIVELY_ONCE_BESIDE"
"""Variable with the topic of the stream beside."""
RECONCILED = "reconciled"
"""Announced with the command's exit code, and with the names of what was put."""


def main(argv: list[str]) -> int:
    """Run it once, tell of it, and wait for SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    announce("driver", state="started", pid=os.getpid(), generation=1)
    with tempfile.TemporaryDirectory() as folder:
        code = command.main([argv[0], "--to", folder, "--beside", os.environ[BESIDE]])
        announce(RECONCILED, code=code, objects=put(Path(argv[0]), Path(folder)))
    stop.wait()
    return 0


def put(settings: Path, folder: Path) -> list[str]:
    """Put the files of a folder to the object store, below the pipeline's own prefix; their names there.

    Raises:
        RuntimeError: the store did not say that it has one.

    """
    told = job_of(settings).settings
    store, place = S3ObjectStore(told.bucket), f"{told.pipeline}/{RECONCILED}/{uuid.uuid4().hex}"
    names = []
    for file in sorted(folder.iterdir()):
        name = f"{place}/{file.name}"
        match store.answer(Put(name, file.read_bytes(), None)):
            case Written():
                names.append(name)
            case answer:
                raise RuntimeError(f"object {name} was not put: {answer}; the next driver runs all of it again")
    return names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
