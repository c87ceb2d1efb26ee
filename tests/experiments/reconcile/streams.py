"""One stream of a reconciliation: its driver under kills, from the first record to its orderly end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from infra.console import Console
from tests.experiments.arm import wait_until_done
from tests.experiments.kills import Gate, Kills, Strike
from tests.experiments.strikes import DRIVER, EXECUTOR
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.processes import Processes, Role
from tests.harness.stack.stack import Stack

JOB = "effectively_once_jobs.user_counts"
PLAIN = "tests.experiments.reconcile.plain_job"
FILES = {PLAIN: ("tests/experiments/reconcile/plain_job.py", "tests/experiments/reconcile/increments.py")}
"""Of a module that is no part of the wheel."""


def _declared(event: Mapping[str, Any]) -> bool:
    return bool(event["event"] == "epoch" and event.get("state") == "declared")


EPOCHS = Gate(
    "epoch",
    _declared,
    # The rows are out and committed; who has them out does not yet know, or has not said so.
    {EXECUTOR: ("committed", {"sink": "accepted|user_counts"}), DRIVER: ("job_done", {})},
)


@dataclass
class Stream:
    """A stream as a driver with executors; whichever way it ends, nothing of it is left running.

    Attributes:
        directory: of this stream; evidence goes there.
        module: what runs it.
        role: what its driver is started with.
        strikes: who is killed, and when.
        stack: where it runs.
        processes: its driver, while it is running.

    """

    directory: RunDirectory
    module: str
    role: Role
    strikes: Sequence[Strike]
    stack: Stack
    console: Console
    processes: Processes = field(init=False)

    @property
    def pipeline(self) -> str:
        """Its name; its topics' names begin with it."""
        return str(self.role.settings["pipeline"])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run its driver and the kills; within the block records may be sent and waited for.

        Raises:
            WaitTimedOutError: no driver came up.
            ServerError: what was killed was not replaced.

        """
        with History(self.directory.history_path) as history:
            self.processes = self.stack.prepare(
                self.directory, history, self.module, [self.role], files=FILES.get(self.module, ())
            )
            watch, (drivers,) = self.processes.watch, self.processes.drivers
            kills = Kills(self.strikes, self.processes, EPOCHS, history=history, say=self.console.say)
            with self.processes.following():
                try:
                    self.processes.start()
                    watch.wait_for("the driver", lambda: bool(watch.seen), self.stack.patience.driver_s, drivers.alive)
                    kills.start()
                    yield
                    kills.end()
                    drivers.stop()
                finally:
                    kills.stop_asked.set()
            history.end()

    def wait_until_done(self, records: int) -> None:
        """Wait until it is done with so many records. Raises WaitTimedOutError."""
        wait_until_done(self.processes, self.pipeline, records)

    def forget(self) -> None:
        """Remove what is no evidence."""
        shutil.rmtree(self.directory.path / "work", ignore_errors=True)
