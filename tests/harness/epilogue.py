"""Oracle 6: restarts with and without checkpoint, before windows are closed and after, with records sent again.

What is sent again before the closing records is in time: nothing but the catalog keeps it out. After them all is late.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.drivers import Drivers
from tests.harness.adapters.events import Watch
from tests.harness.evidence import AGAIN
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.subject import Subject
from tests.harness.workload.record import Planned
from tests.harness.workload.sender import Sender

# How many epochs still come is not the question here: few large ones take less time.
ROWS_MAX = 150_000
BYTES_MAX = 9_000_000
"""Of payloads in one epoch: a Python worker in a pod has room for so many, several times over."""
SHARE = 10
"""The last tenth is sent again after each restart, records of the whole run once the windows are closed (`AGAIN`)."""


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

    def play(
        self,
        sender: Sender,
        boundary: Callable[[], dict[str, Any]],
        published: Callable[[Sender], None],
        closers: Iterable[Planned],
        settlers: Iterable[Planned] = (),
    ) -> None:
        """Restart the driver twice, close all windows, send records again; at the end the driver has stopped in order.

        Args:
            sender: of the run.
            boundary: where the outputs end.
            published: waits until everything sent is.
            closers: close the windows; a pipeline that has none sends no closer.
            settlers: sent before anything else, they close the windows that the run has ended. Otherwise the epoch
                after the first restart would, and the restart would seem to have changed an output.
        """
        for settler in settlers:
            sender.send([settler])
            published(sender)
        settings = json.loads(self.settings_path.read_text())
        larger = self.settings_path.with_name("settings-epilogue.json")
        payload = self.subject.payload_bytes
        rows_max = min(ROWS_MAX, BYTES_MAX // payload) if payload else max(ROWS_MAX, settings["epoch_rows_max"])
        larger.write_text(json.dumps({**settings, "epoch_rows_max": rows_max}))
        before, steps = boundary(), []
        pid = self.drivers.driver
        killed = self.drivers.kill()
        self.history.record("driver", state="killed", pid=pid, process=killed)
        self.drivers.gather()
        last = self.subject.numbers.sent - self.subject.numbers.sent // SHARE - 1
        for checkpoint in ("kept", "deleted"):
            if checkpoint == "deleted":
                self._stop()
                if not self.chain.delete_checkpoints():
                    raise RuntimeError("there was no checkpoint to delete: the restart without one would show nothing")
            after = self._last_epoch()
            self._restart(larger)
            resent = self._resend(sender, max(last, 0), published)
            steps.append({"step": "restart", "checkpoint": checkpoint, "resent": resent, "after_epoch": after})
        closing = {"before": boundary()}
        for closer in closers:
            sender.send([closer])
        published(sender)
        closing["after"], after = boundary(), self._last_epoch()
        every = max(1, self.subject.numbers.sent // AGAIN)
        resent = self._resend(sender, 0, published, every)
        steps.append({"step": "closed", "resent": resent, "after_epoch": after})
        self._stop()
        document = {"boundary": before, "closing": closing, "steps": steps}
        self.directory.write_json(self.directory.epilogue_path, document)

    def _resend(self, sender: Sender, first: int, published: Callable[[Sender], None], every: int = 1) -> int:
        """Send the records from a number on again, or some at equal distances; how many were acknowledged."""
        before = sender.acknowledged
        sender.resend(islice(self.subject.records(), first, None, every))
        published(sender)
        return sender.acknowledged - before

    def _stop(self) -> None:
        code = self.drivers.stop()
        if code != 0:
            raise RuntimeError(f"the driver did not stop in order: exit code {code}; {self.drivers.alive()}")

    def _last_epoch(self) -> int:
        head = self.chain.head()
        assert head is not None, "the pipeline ran"
        return head.last_pinned

    def _restart(self, settings: Path) -> None:
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
