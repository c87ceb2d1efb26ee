"""The drivers of a run that is made up: what they and the witness tell, and the faults that strike."""

from __future__ import annotations

import hashlib
import json
from typing import Any, ClassVar

from tests.unit.harness.fabricated_files import Row
from tests.unit.harness.witnessed import processes_of

T0 = 1_750_000_000_000
GIT = {"commit": "c0ffee", "dirty": False}
CODE = {"effectively_once": "e0" * 32, "effectively_once_jobs": "f0" * 32}
SETTINGS: dict[str, Row] = {
    "settings.json": {"topic": "events", "epoch_rows_max": 20_000, "start_patience_s": 15.0},
    "settings-epilogue.json": {"topic": "events", "epoch_rows_max": 200_000, "start_patience_s": 15.0},
}
"""Of each settings file what matters: the pipeline has more."""


class Drivers:
    """One driver after the other, and the history of all."""

    settings: ClassVar[dict[str, Row]] = SETTINGS
    """Theirs, by the name of a file."""

    def __init__(self) -> None:
        self.history: list[Row] = []
        self.now, self.driver, self.generation = T0, 4711, 1
        self.lineage = "l1"
        self.begun: dict[int, float] = {}
        self.noted: set[str] = set()

    def _start(self) -> None:
        """Let a driver start, with the settings of the run, or those of its epilogue from the first restart on."""
        later = any(event.get("phase") == "epilogue" for event in self.history)
        self.begun[self.driver] = self.now / 1000
        text = json.dumps(self.settings["settings-epilogue.json" if later else "settings.json"], sort_keys=True)
        versions = {"python": "3.13.1", "spark": "4.2.0"}
        told = {"code": CODE, "settings": hashlib.sha256(text.encode()).hexdigest()[:32], "versions": versions}
        self._tell("driver", state="started", pid=self.driver, generation=self.generation, **told)

    def _end(self, state: str) -> None:
        """Let the driver end; of one that is killed the witness tells, of one that stops it does itself."""
        who = self._driver()
        if state == "stopped":
            self._tell("driver", state=state, pid=self.driver, generation=self.generation)
            return
        if who not in self.noted:
            self._tell("process", state="seen", process=who)
        self._tell("process", state="gone", process=who, last=self.now, code=-9)
        self._tell("driver", state=state, pid=self.driver, process=who)

    def _driver(self) -> str:
        """The driver as kernel and injector name it."""
        return f"{self.driver}@{self.begun[self.driver]:.2f}"

    def _tell(self, event: str, **fields: Any) -> None:
        self.now += 10
        self.history.append({"t": self.now, "event": event, **fields})

    def _announce(self, epoch: int, step: str, sink: str | None) -> Row:
        """Let a shard of an epoch come by a step; what a fault that strikes at it says of it."""
        self._tell("step", epoch=epoch, shard=0, sink=sink, step=step, pid=5000 + epoch, attempt=0)
        phase = step if sink is None else f"{step}:{sink}"
        return {"epoch": epoch, "phase": phase, "shard": 0, "announced_at": self.now}

    def _strike(self, target: str, epoch: int) -> bool:
        # Each strikes at another of the two, and both came before it.
        steps = [self._announce(epoch, "ids_decided", None), self._announce(epoch, "transaction_open", "accepted")]
        at, injected = steps[target == "executor"], self.now
        before, after = f"{5000 + epoch}@{injected / 1000 - 1:.2f}", f"{6000 + epoch}@{injected / 1000 + 0.5:.2f}"
        if target == "driver":
            before = self._driver()
            self._tell("driver", state="killed", pid=self.driver)
            self.driver, self.generation = self.driver + 1, self.generation + 1
            self._start()
            after = self._driver()
            self.noted.add(after)
            self._tell("epoch", epoch=epoch, state="declared", generation=self.generation, driver=self.driver)
        who = {"process_before": before, "process_after": after, "injected_at": injected}
        self._tell("fault", kind="sigkill", target=target, signal="SIGKILL", **at, **who, recovered_s=1.5, hit=True)
        self.history += processes_of(self.history[-1:])
        return True
