"""Plays Spark's own triggers beside the job: the same rate, the cheapest decision, latency by the broker's clock."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra.console import Console
from infra.embedded.spark import SparkHome
from infra.toolchain.prepare import CHECKOUT
from tests.bench.facts import load
from tests.experiments.fraud.plan import SPARK_ARMS
from tests.experiments.fraud.sender import Sender
from tests.experiments.fraud.topics import StampedTopics
from tests.harness.adapters.embedded import ProcessDrivers
from tests.harness.adapters.events import WaitTimedOutError, Watch
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory

MODULE = "tests.experiments.fraud.spark_job"
START_S, DRAIN_S = 120.0, 90.0
Record = tuple[str, bytes]


@dataclass
class Triggers:
    """Both arms in one driver, one after the other; an arm that Spark refuses is told of, and has no latencies."""

    directory: RunDirectory
    home: SparkHome
    topics: StampedTopics
    history: History
    console: Console
    stop: threading.Event

    def play(self, records: Sequence[Record], rate: int) -> None:
        """Send the records to each arm, and write when each was decided as `observed/<arm>.jsonl`."""
        arms = {name: (f"trigger_{number}", f"trigger_{number}_out") for number, name in enumerate(SPARK_ARMS)}
        self.topics.make([topic for both in arms.values() for topic in both])
        work = self.directory.path.absolute() / "work" / "triggers"
        work.mkdir(parents=True)
        settings = work / "settings.json"
        self.directory.write_json(
            settings,
            {
                "bootstrap": self.topics.bootstrap,
                "arms": arms,
                "checkpoints": f"file://{work}",
            },
        )
        watch = Watch(work / "events.jsonl", self.history)
        drivers = ProcessDrivers(self.home, MODULE, watch.path, checkout=CHECKOUT)
        watch.start()
        try:
            drivers.start("triggers", settings)
            for name, (given, decided) in arms.items():
                try:
                    self._arm(name, watch, drivers, (given, decided), records=records, rate=rate)
                except (WaitTimedOutError, RuntimeError, TimeoutError) as error:
                    # It is beside the matter: what the job was seen to do stands without it.
                    self._failed(name, str(error).splitlines()[0][:300])
                drivers.open_gate(decided)
            drivers.stop()
        finally:
            drivers.end()
            watch.stop()

    def _arm(
        self,
        name: str,
        watch: Watch,
        drivers: ProcessDrivers,
        topics: tuple[str, str],
        *,
        records: Sequence[Record],
        rate: int,
    ) -> None:
        given, decided = topics
        told: list[dict[str, Any]] = []

        def state(wanted: str) -> bool:
            told[:] = [one for one in watch.seen if one["event"] == "arm" and one["arm"] == name]
            return any(one["state"] == wanted for one in told)

        def refused() -> str | None:
            return drivers.alive() or next((one["says"] for one in told if one["state"] == "failed"), None)

        watch.wait_for(f"the arm {name}", lambda: state("running"), START_S, refused)
        with self.console.step(f"{name} of Spark: {len(records):,} transactions at {rate} a second"):
            with self.directory.observed_writer(f"{given}.sent") as lines:
                Sender(self.topics.bootstrap, given, lines, self.stop).send(0, records, rate)
            watch.wait_for(
                f"the decisions of {name}",
                lambda: not state("failed") and self.topics.number(decided) >= len(records),
                DRAIN_S,
                refused,
            )
        self.history.record("arm", arm=name, state="measured", load=load())
        with self.directory.observed_writer(decided) as lines:
            for at_ms, row in self.topics.read(decided):
                lines.write({"arm": name, "decided_ms": at_ms, "arrived_ms": row["arrived_ms"]})

    def _failed(self, name: str, says: str) -> None:
        self.history.record("arm", arm=name, state="failed", says=says)
        self.console.say(f"✗ {name} of Spark: {says}")
