"""Runs the negative controls of a demo: send, kill once records of the running epoch are visible, drain, collect."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from infra.console import Console
from tests.harness.adapters.drivers import SIGKILL, Drivers, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.topics import Topics
from tests.harness.controls.names import CONTROLS
from tests.harness.history import History
from tests.harness.run_directory import LinesWriter, RunDirectory
from tests.harness.workload.pacing import Pace, Pacer
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.sender import Progress, Sender, Target, kafka_producer
from tests.harness.workload.shape import Shape

# As many partitions as executors: each then has one long task.
PARTITIONS, TRIES, RECORDS = 2, 5, 60_000
QUIET_S, SETTLE_S = 180.0, 120.0
# Every record in time and of an id of its own: what is doubled in the output was doubled by the sink.
_SHAPE = Shape(records=RECORDS * TRIES, duplicates=0.0, late=0.0, straddling=0.0, malformed=0.0)


def run_controls(
    directory: RunDirectory,
    drivers: Drivers,
    topics: Topics,
    watch: Watch,
    *,
    settings: Path,
    seed: int,
    console: Console,
    stop: threading.Event,
) -> None:
    """Play every control on one Spark application of its own; each gets a run directory below `controls/`.

    Args:
        directory: of the run they belong to.
        drivers: of the controls' application (tests.harness.controls.job), which announces into `watch`.
        topics: the broker.
        watch: not yet started.
        settings: the application's settings file; topics and objects begin with its pipeline's name.
        seed: draws what is sent.
        console: tells what came of it.
        stop: set from outside to end early.
    """
    prefix = json.loads(settings.read_text())["pipeline"]
    topics.create({f"{prefix}.{name}.{kind}": PARTITIONS for name in CONTROLS for kind in ("events", "accepted")})
    watch.start()
    try:
        drivers.start("controls", settings, str(watch.path.parent), *CONTROLS)
        watch.wait_for("the controls' driver", lambda: bool(watch.seen), QUIET_S, drivers.alive)
        for number, name in enumerate(CONTROLS):
            _Control(name, f"{prefix}.{name}", directory, drivers, topics, watch, console, stop).play(seed + number)
    finally:
        drivers.end()
        watch.stop()


@dataclass
class _Control:
    name: str
    prefix: str
    directory: RunDirectory
    drivers: Drivers
    topics: Topics
    watch: Watch
    console: Console
    stop: threading.Event

    def play(self, seed: int) -> None:
        """Up to `TRIES` rounds of send and kill, until a kill hit and the output holds more records than were sent."""
        own = self.directory.control(self.name)
        with History(own.history_path) as history, own.sent_writer() as lines:
            sender = self._sender(lines, history)
            history.record("phase", phase="steady")
            doubled, hit, tries, unique = 0, False, 0, 0
            stream = iter(Seeded(seed, _SHAPE))
            # Doubled records without a kill that is known to have hit would show nothing of kills.
            while not (doubled and hit) and tries < TRIES and not self.stop.is_set():
                tries += 1
                records = list(islice(stream, RECORDS))
                unique += len(records)
                doubled, now = self._round(sender, records, unique, history)
                hit = hit or now
            self._batches(history)
            history.record("phase", phase="judge")
        own.write_json(own.manifest_path, self._manifest(seed, unique))
        with own.observed_writer("accepted") as writer:
            for row in self.topics.read(f"{self.prefix}.accepted", self.stop):
                writer.write({"sink": "accepted", **row})
        self.console.say(
            f"  {self.name}: {doubled:,} records doubled after {tries} round{'s' if tries > 1 else ''} of kills"
        )

    def _round(self, sender: Sender, records: list[Planned], unique: int, history: History) -> tuple[int, bool]:
        """Send, kill while records become visible, wait until the query is idle.

        Returns:
            How many records are too many, and whether a kill hit a running batch.
        """
        out = f"{self.prefix}.accepted"
        self.drivers.arm(SIGKILL)
        ends = self.topics.ends(out)
        before = set(self.drivers.executors())
        batches = self._told()
        sender.send(records)
        self.drivers.open_gate(self.name)
        if not self.topics.appears(out, ends, QUIET_S, self.stop):
            raise TimeoutError(f"control {self.name}: no record became visible within {QUIET_S:.0f} s")
        # All of them: the record may be of either's task, and a task that has written nothing doubles nothing.
        victims = self.drivers.kill_executors(SIGKILL)
        self.watch.wait_for(
            f"control {self.name} to publish what was sent",
            lambda: self._rows() >= unique, QUIET_S, self._alive,
        )  # fmt: skip
        hit = self._faults(history, victims, before, batches)
        return sum(self.topics.ends(out).values()) - unique, hit

    def _faults(self, history: History, victims: list[Struck], before: set[str], batches: int) -> bool:
        """Write down what each kill came to; whether one hit."""
        fresh_ones: list[str] = []

        def replaced() -> bool:
            fresh_ones[:] = [one for one in self.drivers.executors() if one not in before]
            return len(fresh_ones) >= len(victims)

        self.watch.wait_for("new executors", replaced, SETTLE_S, self._alive)
        hit = False
        for (who, at), after in zip(victims, fresh_ones, strict=False):
            running = [b for b in self._mine() if b["declared"] <= at <= b["published"]]
            ended = [b["published"] for b in self._mine()[batches:] if b["published"] >= at]
            history.record(
                "fault", kind="sigkill", target="executor", signal="SIGKILL", injected_at=at, process_before=who,
                process_after=after, epoch=running[0]["epoch"] if running else None, phase="records_visible",
                recovered_s=round((ended[0] - at) / 1000, 3) if ended else None, hit=bool(running),
            )  # fmt: skip
            hit = hit or bool(running)
        return hit

    def _alive(self) -> str | None:
        return "the run is being stopped" if self.stop.is_set() else self.drivers.alive()

    def _batches(self, history: History) -> None:
        """The batches as Spark reported them, in the words of the history."""
        driver = self.drivers.driver
        for batch in self._mine():
            for state in ("declared", "published"):
                history.record(
                    "epoch", t=batch[state], epoch=batch["epoch"], state=state, generation=1, driver=driver,
                    **({"in": batch["rows"]} if state == "published" else {}),
                )  # fmt: skip

    def _mine(self) -> list[dict[str, Any]]:
        return [e for e in self.watch.seen if e["event"] == "batch" and e["control"] == self.name]

    def _told(self) -> int:
        with self.watch.changed:
            return len(self._mine())

    def _rows(self) -> int:
        return sum(batch["rows"] for batch in self._mine())

    def _sender(self, lines: LinesWriter, history: History) -> Sender:
        def unacknowledged(record: Planned, error: str) -> None:
            history.record("unacknowledged", id=record.id, error=error)

        # There is no chain to wait for: everything sent counts as settled at once.
        pacer = Pacer(Pace(horizon_ms=None, max_outstanding=10 * RECORDS))
        return Sender(
            kafka_producer(self.topics.bootstrap), lines, pacer, Progress,
            unacknowledged=unacknowledged, stop=self.stop, target=Target(f"{self.prefix}.events", PARTITIONS, QUIET_S),
        )  # fmt: skip

    def _manifest(self, seed: int, unique: int) -> dict[str, Any]:
        manifest = self.directory.manifest()
        return {
            "format": 1, "run": f"{manifest.run}/{self.name}", "claim": f"control {self.name}: must fail", "seed": seed,
            "started_at": time.time_ns() // 1_000_000,
            "settings": {
                "pipeline": self.name, "topic": f"{self.prefix}.events", "shards": PARTITIONS, "sinks": ["accepted"],
            },
            "workload": {"kind": "seeded", "sent": unique}, "faults_planned": 1, "controls": [],
            "versions": manifest.versions, "git": manifest.git, "control": self.name,
        }  # fmt: skip
