"""The demo of fraud detection: phases at stated rates, three kills, Spark's own triggers beside it, and a verdict.

`make demo JOB=fraud` runs it and exits with 0 pass, 1 fail, 2 unknown.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from effectively_once.object_store import ACCESS_KEY, SECRET_KEY
from infra.console import Console
from infra.embedded.job import RunError
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.postgres import HOW, find_postgres
from infra.toolchain.prepare import Toolchain
from infra.versions import of_run
from tests.bench.facts import machine
from tests.harness.fraud.judge import judge
from tests.harness.fraud.plan import DEADLINE_MS, KILLED, TARGET_MS, WINDOWS_MS, Phase, phases
from tests.harness.fraud.play import Play
from tests.harness.fraud.results import FraudResults
from tests.harness.manifest import git_state
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.surroundings import result_store

FRAUD_RECORDS, FRAUD_RATE, TRIGGER_S = 10_500, 100, 20


@dataclass
class FraudDemo:
    """One run from start to verdict; whichever way `run` ends, no process is left.

    Attributes:
        checkout: where `runs/` is.
        toolchain: of the embedded stack.
        seed: what is sent and killed.
        console: tells what is under way.
        class_archive: shared class data of Spark's JVMs.
        records: how many are sent in all phases together.
        kills: how many; see `tests.harness.fraud.plan`.
        rate: transactions a second.
        triggers: whether Spark's own triggers are measured beside the job.
        stop: set from outside to end early.
    """

    checkout: Path
    toolchain: Toolchain
    seed: int
    console: Console
    class_archive: Path | None = None
    records: int = FRAUD_RECORDS
    kills: int = len(KILLED)
    rate: int = FRAUD_RATE
    triggers: bool = True
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> FraudResults:
        """Run it all and judge it; a run that broke off is unknown.

        Raises:
            RunError: there is no PostgreSQL here.
        """
        programs = find_postgres()
        if programs is None:
            raise RunError(f"decisions need a result store. {HOW}")
        path = new_run(self.checkout / "runs" / "fraud", self.seed)
        directory, planned = RunDirectory(path), phases(self.seed, self.records, self.rate, self.kills)
        began_ms, sent_to_spark = time.time_ns() // 1_000_000, self.rate * TRIGGER_S if self.triggers else 0
        self.console.say(f"run {path.relative_to(self.checkout)}, seed {self.seed}: {_told(planned)}")
        directory.write_json(directory.manifest_path, self._manifest(planned, began_ms, sent_to_spark))
        point_latest(path)
        try:
            with EmbeddedStack(path, self.toolchain, self.console.say) as stack:
                os.environ |= {
                    ACCESS_KEY: stack.endpoints.s3_access_key, SECRET_KEY: stack.endpoints.s3_secret_key,
                }  # fmt: skip
                with result_store(directory, programs) as store:
                    assert store is not None, "its programs are there"
                    Play(
                        directory, stack, store, self.toolchain, planned, self.seed, began_ms, self.console,
                        self.class_archive, sent_to_spark, self.stop,
                    ).go()  # fmt: skip
        except Exception as error:
            # What is there of it says for itself that it does not come to an end.
            trace = directory.logs / "error.txt"
            trace.parent.mkdir(parents=True, exist_ok=True)
            trace.write_text(traceback.format_exc())
            self.console.say(f"✗ it broke off: {error}\n  details: {trace.relative_to(self.checkout)}")
        with self.console.step("judge"):
            results = judge(path)
        self.console.say(f"results {(path / 'page.html').relative_to(self.checkout)}")
        return results

    def _manifest(self, planned: list[Phase], began_ms: int, triggers: int) -> dict[str, Any]:
        options = f"--records {self.records} --kills {self.kills} --rate {self.rate}"
        return {
            "seed": self.seed, "deadline_ms": DEADLINE_MS, "target_ms": TARGET_MS, "windows_ms": WINDOWS_MS,
            "phases": [asdict(one) for one in planned], "triggers": triggers, "started_at": began_ms,
            "command": f'make demo JOB=fraud SEED={self.seed} ARGS="{options}"', "machine": machine(),
            "versions": of_run(), "git": git_state(self.checkout),
        }  # fmt: skip


def _told(planned: list[Phase]) -> str:
    return ", ".join(f"{one.name} {one.records:,}" for one in planned)
