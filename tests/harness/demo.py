"""The demo: a pipeline under SIGKILL on one machine, its epilogue, its controls, and the verdict."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.console import Console
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from infra.versions import of_run
from tests.harness import judge as judging
from tests.harness import report
from tests.harness.act import PIPELINE, SHARDS, TOPIC, Act
from tests.harness.collector import GLOBAL_COUNTS, KAFKA_SINKS
from tests.harness.controls.run import CONTROLS
from tests.harness.history import History
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.subject import Subject

CLAIM = (
    "Every event in time is counted exactly once per user and minute, whichever executors are killed: "
    "no sink misses, doubles, invents or alters a record."
)


@dataclass
class Demo:
    """One run from start to verdict; whichever way `run` ends, no process is left."""

    checkout: Path
    toolchain: Toolchain
    subject: Subject
    seed: int
    kills: int
    console: Console
    class_archive: Path | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Results:
        """Run it all and judge it; a run that broke off is judged too, by what there is, and is never a pass."""
        path = new_run(self.checkout / "runs", self.seed)
        directory = RunDirectory(path)
        self.console.say(f"run {path.relative_to(self.checkout)}, seed {self.seed}: {self.subject.says}")
        directory.write_json(directory.manifest_path, self._manifest(path.name))
        point_latest(path)
        try:
            self._play(directory)
        except Exception as error:
            # The judge finds no end in the history, so the verdict is unknown or worse.
            trace = directory.logs / "error.txt"
            trace.parent.mkdir(exist_ok=True)
            trace.write_text(traceback.format_exc())
            self.console.say(f"✗ the run broke off: {error}\n  details: {trace.relative_to(self.checkout)}")
        with self.console.step("judge"):
            results = judging.judge(path)
            page = report.write(path)
        self.console.say(f"report {page.relative_to(self.checkout)}")
        return results

    def _play(self, directory: RunDirectory) -> None:
        """Run the part that needs servers, and write its evidence."""
        stack = EmbeddedStack(directory.path, self.toolchain, self.console.say)
        with History(directory.history_path) as history, stack:
            os.environ["AWS_ACCESS_KEY_ID"] = stack.endpoints.s3_access_key
            os.environ["AWS_SECRET_ACCESS_KEY"] = stack.endpoints.s3_secret_key
            Act(
                directory, history, stack.endpoints, self.subject, toolchain=self.toolchain, seed=self.seed,
                kills=self.kills, console=self.console, class_archive=self.class_archive, stop=self.stop,
            ).go()  # fmt: skip
            history.record("phase", phase="judge")

    def _manifest(self, name: str) -> dict[str, Any]:
        numbers = self.subject.numbers
        return {
            "format": 1, "run": name, "claim": CLAIM, "seed": self.seed, "started_at": _now_ms(),
            "settings": {
                "pipeline": PIPELINE, "topic": TOPIC, "shards": SHARDS, "window_ms": self.subject.window_ms,
                "lateness_ms": self.subject.lateness_ms, "sinks": [*KAFKA_SINKS, GLOBAL_COUNTS], **self.subject.named,
            },
            "workload": {
                "kind": self.subject.kind, "sent": numbers.sent, "duplicates_sent": numbers.duplicates_sent,
                "late_sent": numbers.late_sent, "malformed_sent": numbers.malformed_sent,
            },
            "faults_planned": self.kills, "controls": [{"name": name, "must": "fail"} for name in CONTROLS],
            "versions": of_run(), "git": git_state(self.checkout), "control": None,
        }  # fmt: skip


def git_state(checkout: Path) -> dict[str, Any]:
    """Commit and whether there are changes; empty outside a repository."""

    def ask(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
