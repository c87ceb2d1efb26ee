"""Plays negative controls: send, kill once records of the running epoch are visible, drain, look, until it shows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from infra.console import Console
from tests.harness.adapters.drivers import SIGKILL, Drivers, Struck
from tests.harness.adapters.events import Watch
from tests.harness.adapters.topics import Topics
from tests.harness.controls.names import QUICK, NegativeControl, Shows
from tests.harness.controls.observed import SINK, Found, read_committed, read_uncommitted
from tests.harness.controls.shape import TRIES, shape_of
from tests.harness.history import History
from tests.harness.run_directory import LinesWriter, RunDirectory
from tests.harness.workload.pacing import Pace, Pacer
from tests.harness.workload.progress import Progress
from tests.harness.workload.record import Planned
from tests.harness.workload.seeded import Seeded
from tests.harness.workload.sender import Sender, Target, kafka_producer

# As many partitions as cores of executors: each then has one long task.
PARTITIONS = 2
QUIET_S, SETTLE_S = 180.0, 120.0
SAYS: dict[Shows, str] = {
    "duplicated": "records doubled",
    "missing": "records lost",
    "retracted": "records seen that were never committed",
}


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
    controls: Sequence[NegativeControl] = QUICK,
) -> None:
    """Play controls on one Spark application of their own; each gets a run directory below `controls/`.

    Args:
        directory: of the run they belong to.
        drivers: of the controls' application (tests.harness.controls.job), which announces into `watch`.
        topics: the broker.
        watch: not yet started.
        settings: the application's settings file; topics and objects begin with its pipeline's name.
        seed: draws what is sent.
        console: tells what came of it.
        stop: set from outside to end early.
        controls: which, in this order.

    Raises:
        WaitTimedOutError, TimeoutError: something did not come in time, or the application ended.
        InterruptedError: `stop` was set while an output was read.
    """
    prefix = json.loads(settings.read_text())["pipeline"]
    topics.create(*topics_of(prefix, controls))
    watch.start()
    try:
        drivers.start("controls", settings, str(watch.path.parent), *(one.name for one in controls))
        watch.wait_for("the controls' driver", lambda: bool(watch.seen), QUIET_S, partial(_over, drivers, stop))
        for number, one in enumerate(controls):
            player = _Player(one, f"{prefix}.{one.name}", directory, drivers, topics, watch, console, stop)
            player.play(seed + number)
    finally:
        drivers.end()
        watch.stop()


def _over(drivers: Drivers, stop: threading.Event) -> str | None:
    """Why nothing will come any more; None: something may."""
    return "the run is being stopped" if stop.is_set() else drivers.alive()


def topics_of(prefix: str, controls: Sequence[NegativeControl]) -> tuple[dict[str, int], dict[str, int]]:
    """Partitions of the topics that controls need: those of records, and the compacted ones of marks."""
    records = {f"{prefix}.{one.name}.{kind}": PARTITIONS for one in controls for kind in ("events", SINK)}
    marked = [(one, driver) for one in controls if one.marks for driver in one.drivers]
    marks = {".".join(filter(None, (prefix, one.name, SINK, driver, "progress"))): PARTITIONS for one, driver in marked}
    return records, marks


@dataclass
class _Player:
    control: NegativeControl
    prefix: str
    directory: RunDirectory
    drivers: Drivers
    topics: Topics
    watch: Watch
    console: Console
    stop: threading.Event
    _sent: int = 0
    _ids: set[str] = field(default_factory=set)

    def play(self, seed: int) -> None:
        """Up to `TRIES` rounds of send and kill, until the output shows what it must and every kill due has hit."""
        control, own = self.control, self.directory.control(self.control.name)
        with History(own.history_path) as history, own.sent_writer() as lines:
            sender = self._sender(lines, history)
            history.record("phase", phase="steady")
            shown, hit, tries = 0, not control.killed, 0
            stream = iter(Seeded(seed, shape_of(control)))
            # An offence without a kill that is known to have hit would show nothing of kills.
            while not (shown and hit) and tries < TRIES and not self.stop.is_set():
                tries += 1
                hit |= self._round(sender, list(islice(stream, control.records)), history)
                shown = getattr(self._look(own), control.shows)
            self._batches(history)
            history.end()
        own.write_json(own.manifest_path, self._manifest(seed))
        rounds = f"{tries} round{'s' * (tries > 1)}"
        self.console.say(
            f"  {control.name}: {shown:,} {SAYS[control.shows]} after {rounds}{' of kills' * control.killed}"
        )

    def _round(self, sender: Sender, records: list[Planned], history: History) -> bool:
        """Send, kill while records become visible where that is due, wait until every query is idle.

        Returns:
            Whether a kill hit a running batch.
        """
        out = f"{self.prefix}.{SINK}"
        if self.control.killed:
            self.drivers.arm(SIGKILL)
        ends = self.topics.ends(out)
        before = set(self.drivers.executors())
        batches = self._count_batches()
        sender.send(records)
        self._sent += len(records)
        self._ids |= {one.id for one in records if one.id is not None}
        self.drivers.open_gate(self.control.name)
        victims: list[Struck] = []
        if self.control.killed:
            if not self.topics.appears(out, ends, QUIET_S, self.stop):
                raise TimeoutError(f"control {self.control.name}: no record became visible within {QUIET_S:.0f} s")
            # All of them: the record may be of either's task, and a task that has written nothing shows nothing.
            victims = self.drivers.kill_executors(SIGKILL)
        self.watch.wait_for(
            f"control {self.control.name} to publish what was sent",
            lambda: all(self._rows(driver) >= self._sent for driver in self.control.drivers),
            QUIET_S,
            self._alive,
        )
        return self._faults(history, victims, before, batches)

    def _look(self, own: RunDirectory) -> Found:
        """Write what the readers see now, over what they saw in the round before."""
        out = f"{self.prefix}.{SINK}"
        found, places = read_committed(own, self.topics.read(out, self.stop), self._ids, self.stop)
        if self.control.shows != "retracted":
            return found
        return read_uncommitted(own, self.topics.read_uncommitted(out, self.stop), places, self.stop)

    def _faults(self, history: History, victims: list[Struck], before: set[str], batches: int) -> bool:
        """Write down what each kill came to; whether one hit."""
        if not victims:
            return False
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
                "fault",
                kind="sigkill",
                target="executor",
                signal="SIGKILL",
                injected_at=at,
                process_before=who,
                process_after=after,
                epoch=running[0]["epoch"] if running else None,
                phase="records_visible",
                recovered_s=round((ended[0] - at) / 1000, 3) if ended else None,
                hit=bool(running),
            )
            hit = hit or bool(running)
        return hit

    def _alive(self) -> str | None:
        return _over(self.drivers, self.stop)

    def _batches(self, history: History) -> None:
        """The batches as Spark reported them, in the words of the history; a driver that has a name by that."""
        for batch in self._mine():
            driver = batch["by"] or self.drivers.driver
            for state in ("declared", "published"):
                history.record(
                    "epoch",
                    t=batch[state],
                    epoch=batch["epoch"],
                    state=state,
                    generation=1,
                    driver=driver,
                    **({"in": batch["rows"]} if state == "published" else {}),
                )

    def _mine(self) -> list[dict[str, Any]]:
        return [e for e in self.watch.seen if e["event"] == "batch" and e["control"] == self.control.name]

    def _count_batches(self) -> int:
        with self.watch.changed:
            return len(self._mine())

    def _rows(self, driver: str) -> int:
        return sum(batch["rows"] for batch in self._mine() if batch["by"] == driver)

    def _sender(self, lines: LinesWriter, history: History) -> Sender:
        def unacknowledged(record: Planned, error: str) -> None:
            history.record("unacknowledged", id=record.id, error=error)

        # There is no chain to wait for: everything sent counts as settled at once.
        pacer = Pacer(Pace(horizon_ms=None, max_outstanding=self.control.records * TRIES))
        return Sender(
            kafka_producer(self.topics.bootstrap),
            lines,
            pacer,
            Progress,
            unacknowledged=unacknowledged,
            stop=self.stop,
            target=Target(f"{self.prefix}.events", PARTITIONS, QUIET_S),
        )

    def _manifest(self, seed: int) -> dict[str, Any]:
        manifest, name = self.directory.manifest(), self.control.name
        return {
            "format": 1,
            "run": f"{manifest.run}/{name}",
            "claim": f"control {name}: must fail",
            "seed": seed,
            "started_at": time.time_ns() // 1_000_000,
            "settings": {
                "pipeline": name,
                "topic": f"{self.prefix}.events",
                "shards": PARTITIONS,
                "sinks": [SINK],
            },
            "workload": {"kind": "seeded", "sent": self._sent},
            "faults_planned": int(self.control.killed),
            "controls": [],
            "versions": manifest.versions,
            "git": manifest.git,
            "control": name,
            "shows": self.control.shows,
        }
