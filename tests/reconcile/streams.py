"""One stream of a reconciliation: its driver under kills, from the first record to its orderly end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.console import Console
from infra.embedded.job import Job
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import CHECKOUT, Toolchain
from tests.compare.kills import Gate, Kills
from tests.compare.plan import DRIVER, EXECUTOR, Strike
from tests.compare.play import done_with
from tests.harness.adapters.events import Watch
from tests.harness.adapters.hold import Hold
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.history import History
from tests.harness.own_act import OwnHome
from tests.harness.run_directory import RunDirectory

JOB = "effectively_once_jobs.user_counts"
PLAIN = "tests.reconcile.plain_job"
SHARDS = 2
DRIVER_S, DONE_S = 180.0, 300.0


def _declared(event: Mapping[str, Any]) -> bool:
    return bool(event["event"] == "epoch" and event.get("state") == "declared")


EPOCHS = Gate(
    "epoch", _declared,
    # The rows are out and committed; who has them out does not yet know, or has not said so.
    {EXECUTOR: ("committed", {"sink": "accepted|user_counts"}), DRIVER: ("job_done", {})},
)  # fmt: skip


@dataclass
class Stream:
    """A stream as a process of its own with executors; whichever way it ends, no process of it is left.

    Attributes:
        directory: of this stream; evidence goes there.
        module: what runs it.
        settings: of the pipeline.
        strikes: who is killed, and when.

    """

    directory: RunDirectory
    module: str
    settings: Mapping[str, Any]
    strikes: Sequence[Strike]
    toolchain: Toolchain
    endpoints: Endpoints
    console: Console
    class_archive: Path | None = None
    settings_path: Path = field(init=False)
    home: OwnHome = field(init=False)
    watch: Watch = field(init=False)
    drivers: SupervisedDrivers = field(init=False)
    _hold: Hold = field(init=False)

    def __post_init__(self) -> None:
        """Write the settings, and say where everything is."""
        path = self.directory.path.absolute()
        self.settings_path = path / "settings.json"
        self.directory.write_json(self.settings_path, self.settings)
        self._hold = Hold(path / "work" / "points")
        environment = Job.named(JOB).environment(self.toolchain)
        if self.module == PLAIN:
            # It is no part of the wheel.
            environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}:{CHECKOUT}"
        self.home = OwnHome(
            self.toolchain, self.endpoints, path, self.class_archive, environment={**environment, **self._hold.env}
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run its driver and the kills; within the block records may be sent and waited for.

        Raises:
            WaitTimedOutError: no driver came up.
            ServerError: what was killed was not replaced.

        """
        with History(self.directory.history_path) as history:
            self.watch = Watch(self.directory.path.absolute() / "work" / "events.jsonl", history)
            self.drivers = SupervisedDrivers(
                self.home, self.module, self.watch.path, history=history, say=self.console.say
            )
            self.watch.start()
            kills = Kills(
                self.strikes, self.drivers, self.watch, self._hold, history=history, say=self.console.say, gate=EPOCHS
            )
            try:
                self.drivers.start("driver", self.settings_path)
                self.watch.wait_for("the driver", lambda: bool(self.watch.seen), DRIVER_S, self.drivers.alive)
                kills.start()
                yield
                kills.ended()
                self.drivers.stop()
            finally:
                kills.stop_asked.set()
                self.drivers.end()
                self.watch.stop()
            history.end()

    def wait_until_done(self, records: int) -> None:
        """Wait until it is done with so many records. Raises WaitTimedOutError."""
        self.watch.wait_for(
            f"{self.settings['pipeline']} to be done with {records:,} records",
            lambda: done_with(self.watch.seen) >= records, DONE_S, self.drivers.alive,
        )  # fmt: skip

    def forget(self) -> None:
        """Remove what is no evidence."""
        shutil.rmtree(self.directory.path / "work", ignore_errors=True)


def settings_of(name: str, topic: str, endpoints: Endpoints, **more: Any) -> dict[str, Any]:
    """Return the settings of a stream."""
    return {
        "pipeline": name, "topic": topic, "job": JOB, "kafka_bootstrap": endpoints.kafka_bootstrap,
        "s3_endpoint": endpoints.s3_endpoint, "s3_bucket": endpoints.s3_bucket, "shards": SHARDS, **more,
    }  # fmt: skip
