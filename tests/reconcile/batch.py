"""The batch run of a reconciliation: started once both streams have ended, and its files fetched."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from effectively_once.ledger.objects import Found, Get
from effectively_once.object_store import BucketAddress, S3ObjectStore
from infra.embedded.job import RunError
from tests.arms.ground import Ground
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.reconcile.batch_job import BESIDE, RECONCILED
from tests.reconcile.streams import Stream

MODULE, FILES = "tests.reconcile.batch_job", ("tests/reconcile/batch_job.py",)
BATCH_S = 300.0
ANSWERS = (0, 1)
"""It found the stream accurate, or not; both are answers."""


def reconcile(directory: RunDirectory, ground: Ground, stream: Stream, beside: str) -> None:
    """Hold a stream that has ended against the batch run; cells and report go to `directory`.

    Args:
        directory: of the batch run.
        ground: where it runs.
        stream: its settings are the stream's own.
        beside: topic of the other stream.

    Raises:
        WaitTimedOutError: it did not come to an end.
        RunError: it could not tell.

    """
    directory.path.mkdir()
    with History(directory.history_path) as history:
        role = replace(stream.role, name="batch")
        cast = ground.cast(directory, history, MODULE, [role], environment={BESIDE: beside}, files=FILES, executors=1)
        watch, (driver,) = cast.watch, cast.drivers
        with cast.followed():
            cast.start()
            watch.wait_for("the batch run", lambda: told(watch.seen) is not None, BATCH_S, driver.alive)
            driver.stop()
        history.end()
    found = told(watch.seen)
    assert found is not None, "that was waited for"
    fetch(directory, ground, found)
    shutil.rmtree(directory.path / "work", ignore_errors=True)


def told(seen: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return what the run announced when it had ended; None before."""
    return next((event for event in seen if event["event"] == RECONCILED), None)


def fetch(directory: RunDirectory, ground: Ground, found: Mapping[str, Any]) -> None:
    """Write the files that a run has put to its folder.

    Raises:
        RunError: it could not tell, or one of them is not there.

    """
    if found["code"] not in ANSWERS:
        raise RunError(f"the batch run ended with exit code {found['code']}; {directory.logs} says why")
    store = S3ObjectStore(BucketAddress(ground.endpoints.s3_endpoint, ground.endpoints.s3_bucket))
    for name in found["objects"]:
        match store.answer(Get(name)):
            case Found(body):
                (directory.path / name.rpartition("/")[2]).write_bytes(body)
            case _:
                raise RunError(f"the batch run has put {name}, and it is not there; run again")
