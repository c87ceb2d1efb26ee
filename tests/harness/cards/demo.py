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
from tests.harness.cards.judge import directory_of, judge
from tests.harness.cards.play import Play
from tests.harness.cards.results import CardResults
from tests.harness.cards.scene import Scene
from tests.harness.cards.ways import KILLS, WAYS, Way, describe_kills
from tests.harness.cards.workload import write
from tests.harness.commit import git_state
from tests.harness.results import On
from tests.harness.run_directory import RunDirectory, new_run, point_latest

CARD_RECORDS = 1_200


@dataclass
class CardDemo:
    """One run from start to verdict; whichever way `run` ends, no process is left.

    Attributes:
        checkout: where `runs/` is.
        on: the name of where it is played.
        scene: makes it, for a run directory.
        seed: what is sent, killed and goes wrong.
        console: tells what is under way.
        records: how many are sent to each way.
        kills: how many each way gets.
        stop: set from outside to end early.
    """

    checkout: Path
    on: On
    scene: Callable[[RunDirectory], AbstractContextManager[Scene]]
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
        with self.scene(directory) as scene:
            for way in WAYS:
                self._play(way, directory, scene, records)
        with self.console.step("judge"):
            results = judge(path)
        self.console.say(f"results {directory.results_path.relative_to(self.checkout)}")
        return results

    def _play(self, way: Way, directory: RunDirectory, scene: Scene, records: Path) -> None:
        self.console.say(f"{way.name}: {way.says}")
        own = directory_of(directory.path, way)
        try:
            Play(way, own, scene, records, self.seed, self.kills, self.console, self.stop).go()
        except Exception as error:
            # What is there of it says for itself that it does not come to an end.
            details = own.keep_trace().relative_to(self.checkout)
            self.console.say(f"✗ {way.name} broke off: {error}\n  details: {details}")

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
