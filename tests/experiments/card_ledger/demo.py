"""The card ledger's demo: three ways, one after the other, under the same records and kills; a table and a verdict.

`make demo JOB=card_ledger` runs it here, `make acceptance SUITE=jobs` on a cluster; exit code 0 pass, 1 fail,
2 unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.console import Console
from infra.versions import of_run
from tests.experiments.card_ledger.judge import directory_of, judge
from tests.experiments.card_ledger.play import PATIENCE, Play
from tests.experiments.card_ledger.results import CardResults
from tests.experiments.card_ledger.ways import KILLS, WAYS, Way, describe_kills
from tests.experiments.card_ledger.workload import write
from tests.harness.commit import git_state
from tests.harness.results import On
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.stack.embedded import ProcessStack, embedded
from tests.harness.stack.stack import Stack

CARD_RECORDS = 1_200


def on_embedded(console: Console, path: Path) -> AbstractContextManager[ProcessStack]:
    """Processes of this machine, for as long as the block lasts."""
    return embedded(path, console, None, quick=True, patience=PATIENCE)


@dataclass
class CardDemo:
    """One run from start to verdict; whichever way `run` ends, no process is left.

    Attributes:
        checkout: where `runs/` is.
        on: the name of where it is played.
        stack: opens that, for the folder of a run.
        seed: what is sent, killed and goes wrong.
        console: tells what is under way.
        records: how many are sent to each way.
        kills: how many each way gets.
        stop: set from outside to end early.
    """

    checkout: Path
    on: On
    stack: Callable[[Path], AbstractContextManager[Stack]]
    seed: int
    console: Console
    records: int = CARD_RECORDS
    kills: int = len(KILLS)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> CardResults:
        """Run it all and judge it; a way that broke off makes the run unknown."""
        path = new_run(self.checkout / "runs" / "cards", self.seed)
        directory = RunDirectory(path)
        self.console.say(
            f"run {path.relative_to(self.checkout)}, seed {self.seed}: {self.records:,} records to each of {len(WAYS)} "
            f"ways; {describe_kills(self.kills)}"
        )
        directory.write_json(directory.manifest_path, self._manifest())
        point_latest(path)
        records = path / "transactions.jsonl"
        write(records, self.seed, self.records)
        with self.stack(path) as stack:
            for way in WAYS:
                self._play(way, directory, stack, records)
        with self.console.step("judge"):
            results = judge(path)
        self.console.say(f"results {directory.results_path.relative_to(self.checkout)}")
        return results

    def _play(self, way: Way, directory: RunDirectory, stack: Stack, records: Path) -> None:
        self.console.say(f"{way.name}: {way.says}")
        own = directory_of(directory.path, way)
        try:
            Play(way, own, stack, records, self.seed, self.kills, self.console, self.stop).go()
        except Exception as error:
            # What is there of it says for itself that it does not come to an end.
            trace = own.keep_trace()
            self.console.say(f"✗ {way.name} broke off: {error}\n  details: {trace.relative_to(self.checkout)}")

    def _manifest(self) -> dict[str, Any]:
        return {
            "on": self.on,
            "seed": self.seed,
            "kills": self.kills,
            "records": self.records,
            "started_at": time.time_ns() // 1_000_000,
            "versions": of_run(),
            "git": git_state(self.checkout),
        }
