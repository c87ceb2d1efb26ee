"""The batch run of a reconciliation: started once both streams have ended, and its files fetched."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from effectively_once.ledger.objects import Found, Get
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once_jobs.reconcile.deployed import RECONCILED
from infra.embedded.job import RunError
from tests.experiments.reconcile.streams import Stream
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.processes import Role
from tests.harness.stack.stack import Stack

MODULE, BATCH_S = "effectively_once_jobs.reconcile.deployed", 300.0


def reconcile(directory: RunDirectory, stack: Stack, stream: Stream, beside: str) -> None:
    """Hold a stream that has ended against the batch run; cells and report go to `directory`.

    Args:
        directory: of the batch run.
        stack: where it runs.
        stream: its settings are the stream's own.
        beside: topic of the other stream.

    Raises:
        WaitTimedOutError: it did not come to an end, or could not tell.
        RunError: what it found is not there.

    """
    directory.path.mkdir()
    with History(directory.history_path) as history:
        role = Role(stream.role.settings, {"beside": [beside]}, "batch")
        processes = stack.prepare(directory, history, MODULE, [role], executors=1)
        watch, (driver,) = processes.watch, processes.drivers
        with processes.following():
            processes.start()
            watch.wait_for("the batch run", lambda: objects_put(watch.seen) is not None, BATCH_S, driver.alive)
            driver.stop()
        history.end()
    fetch(directory, stack, objects_put(watch.seen) or ())
    shutil.rmtree(directory.path / "work", ignore_errors=True)


def objects_put(seen: Sequence[dict[str, Any]]) -> list[str] | None:
    """Names of the objects that the run has put, as it announces when it has ended; None before."""
    return next((event["objects"] for event in seen if event["event"] == RECONCILED), None)


def fetch(directory: RunDirectory, stack: Stack, names: Sequence[str]) -> None:
    """Write objects to a folder, as files of their last names. Raises RunError: one of them is not there."""
    store = S3ObjectStore(BucketAddress(stack.endpoints.s3_endpoint, stack.endpoints.s3_bucket))
    for name in names:
        match store.answer(Get(name)):
            case Found(body):
                (directory.path / name.rpartition("/")[2]).write_bytes(body)
            case _:
                raise RunError(f"the batch run has put {name}, and it is not there; run again")
