"""A run of fraud detection from start to verdict: phases at stated rates, three kills, and what was seen of them.

`make demo JOB=fraud` plays it here, with Spark's own triggers beside it, `make acceptance SUITE=jobs JOB=fraud` on a
cluster; exit code 0 pass, 1 fail, 2 unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from infra.console import Console
from infra.embedded.job import RunError
from infra.toolchain.command import ToolchainError
from infra.versions import of_run
from tests.bench.facts import machine
from tests.experiments.fraud.judge import judge
from tests.experiments.fraud.plan import (
    DEADLINE_MS,
    HELD_MAX,
    KILLED,
    STORE_DOWN_S,
    TARGET_MS,
    WINDOWS_MS,
    Phase,
    phases,
)
from tests.experiments.fraud.play import Play
from tests.experiments.fraud.results import FraudResults
from tests.harness.commit import git_state
from tests.harness.results import On
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.stack.embedded import ProcessStack, embedded
from tests.harness.stack.stack import Stack

NEEDS = "fraud detection"
FRAUD_RECORDS, FRAUD_RATE, TRIGGER_S = 10_500, 100, 20


def on_embedded(console: Console, path: Path) -> AbstractContextManager[ProcessStack]:
    """Processes of this machine, for as long as the block lasts. Raises RunError: there is no PostgreSQL."""
    return embedded(path, console, NEEDS, quick=True)


@dataclass
class FraudDemo:
    """One run; whichever way `run` ends, no process is left.

    Attributes:
        checkout: where `runs/` is.
        on: the name of where it is played.
        stack: opens that, for the folder of a run.
        seed: what is sent and killed.
        console: tells what is under way.
        records: how many are sent in all phases together.
        kills: how many; see `tests.experiments.fraud.plan`.
        rate: transactions a second.
        triggers: whether Spark's own triggers are measured beside the job.
        store_down_s: how long the result store is away when it is killed, where that is ours to choose.
        held_max: how many records the aggregator holds meanwhile before it reads no more.
        stop: set from outside to end early.
    """

    checkout: Path
    on: On
    stack: Callable[[Path], AbstractContextManager[Stack]]
    seed: int
    console: Console
    records: int = FRAUD_RECORDS
    kills: int = len(KILLED)
    rate: int = FRAUD_RATE
    triggers: bool = True
    store_down_s: float = STORE_DOWN_S
    held_max: int = HELD_MAX
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> FraudResults:
        """Run it all and judge it; a run that broke off is unknown.

        Raises:
            RunError: there is no PostgreSQL here.
            ToolchainError: what the stack needs is not to be had.
        """
        path = new_run(self.checkout / "runs" / "fraud", self.seed)
        directory = RunDirectory(path)
        planned = phases(self.seed, self.records, self.rate, self.kills, self.store_down_s)
        began_ms, sent_to_spark = time.time_ns() // 1_000_000, self.rate * TRIGGER_S if self.triggers else 0
        self.console.say(f"run {path.relative_to(self.checkout)}, seed {self.seed}: {_describe(planned)}")
        directory.write_json(directory.manifest_path, self._manifest(planned, began_ms, sent_to_spark))
        point_latest(path)
        try:
            with self.stack(path) as stack:
                Play(
                    directory,
                    stack,
                    planned,
                    self.seed,
                    began_ms,
                    self.console,
                    self.held_max,
                    sent_to_spark,
                    self.store_down_s,
                    self.stop,
                ).go()
        except (RunError, ToolchainError):
            raise
        except Exception as error:
            # What is there of it says for itself that it does not come to an end.
            trace = directory.keep_trace()
            self.console.say(f"✗ it broke off: {error}\n  details: {trace.relative_to(self.checkout)}")
        with self.console.step("judge"):
            results = judge(path)
        self.console.say(f"results {(path / 'page.html').relative_to(self.checkout)}")
        return results

    def _manifest(self, planned: list[Phase], began_ms: int, triggers: int) -> dict[str, Any]:
        return {
            "on": self.on,
            "seed": self.seed,
            "deadline_ms": DEADLINE_MS,
            "target_ms": TARGET_MS,
            "held_max": self.held_max,
            "windows_ms": WINDOWS_MS,
            "phases": [asdict(one) for one in planned],
            "triggers": triggers,
            "started_at": began_ms,
            "command": self._command,
            "machine": machine(),
            "versions": of_run(),
            "git": git_state(self.checkout),
        }

    @property
    def _command(self) -> str:
        if self.on == "cluster":
            return f"make acceptance SUITE=jobs JOB=fraud SEED={self.seed}"
        options = f"--records {self.records} --kills {self.kills} --rate {self.rate}"
        if self.store_down_s != STORE_DOWN_S:
            options += f" --store-down-s {self.store_down_s:g}"
        if self.held_max != HELD_MAX:
            options += f" --held-max {self.held_max}"
        return f'make demo JOB=fraud SEED={self.seed} ARGS="{options}"'


def _describe(planned: list[Phase]) -> str:
    return ", ".join(f"{one.name} {one.records:,}" for one in planned)
