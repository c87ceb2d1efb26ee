"""Oracle 6: after the run, restarts with and without checkpoint, everything re-sent; the outputs must not move."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.drivers import Drivers
from tests.harness.adapters.events import Watch
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.subject import Subject
from tests.harness.workload.sender import Sender

# How many epochs still come is not the question here: few large ones take less time.
ROWS_MAX = 150_000
SHARE = 10
"""One tenth is re-sent after the first restart, everything after the second."""


@dataclass
class Epilogue:
    """Plays the epilogue of one run on its own servers."""

    directory: RunDirectory
    drivers: Drivers
    chain: ChainReader
    watch: Watch
    history: History
    subject: Subject
    settings_path: Path
    take_over_s: float = 60.0
    rows_max: int = ROWS_MAX

    def play(self, sender: Sender, boundary: dict[str, Any], published: Callable[[Sender], None]) -> None:
        """Kill the driver, restart twice, re-send everything; at the end the driver has stopped in order."""
        settings = json.loads(self.settings_path.read_text())
        larger = self.settings_path.with_name("settings-epilogue.json")
        larger.write_text(json.dumps({**settings, "epoch_rows_max": max(self.rows_max, settings["epoch_rows_max"])}))
        first = self.subject.numbers.sent // SHARE + 1
        steps = []
        pid = self.drivers.driver
        killed = self.drivers.kill()
        self.history.record("driver", state="killed", pid=pid, process=killed)
        for checkpoint, stop in (("kept", first), ("deleted", None)):
            if checkpoint == "deleted":
                self._stopped()
                if not self.chain.delete_checkpoints():
                    raise RuntimeError("there was no checkpoint to delete: the restart without one would show nothing")
            after = self._last_epoch()
            self._restarted(larger)
            before = sender.acknowledged
            sender.resend(islice(self.subject.records(), stop))
            resent = sender.acknowledged - before
            steps.append({"step": "restart", "checkpoint": checkpoint, "resent": resent, "after_epoch": after})
            published(sender)
        self._stopped()
        self.directory.write_json(self.directory.epilogue_path, {"boundary": boundary, "steps": steps})

    def _stopped(self) -> None:
        code = self.drivers.stop()
        if code != 0:
            raise RuntimeError(f"the driver did not stop in order: exit code {code}; {self.drivers.alive()}")

    def _last_epoch(self) -> int:
        head = self.chain.head()
        assert head is not None, "the pipeline ran"
        return head.declared.epoch if head.declared else head.last_recorded

    def _restarted(self, settings: Path) -> None:
        """Start the driver and wait until it has taken the chain over: before that it cannot stop in order."""
        before = self._takeovers()
        self.drivers.start("driver", settings)
        self.watch.wait_for(
            "the restarted driver to take over",
            lambda: self._takeovers() > before,
            self.take_over_s,
            self.drivers.alive,
        )

    def _takeovers(self) -> int:
        with self.watch.changed:
            return sum(event["event"] == "driver" and event["state"] == "started" for event in self.watch.seen)
