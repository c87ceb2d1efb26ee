"""The way out of an epoch that no driver can repeat, as an operator takes it: `effectively-once repair`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from infra.embedded.spark import SparkHome
from infra.toolchain.command import tail
from tests.harness.adapters.job_home import COMMAND_S, PROGRAM

LINES = 20


class NoWayOutError(Exception):
    """The command ended otherwise than it should; the message has its last words."""


@dataclass(frozen=True)
class WayOut:
    """Repairs the declared epoch, and names another job in the settings: that of all drivers from then on.

    Attributes:
        home: starts what an operator starts.
        settings: the file that every driver reads.
        job: the pipeline with proof.
        taken: is called once the epoch can be finished.
    """

    home: SparkHome
    settings: Path
    job: str
    taken: Callable[[], None] = lambda: None

    def take(self) -> str:
        """Run the command; what it said last. Raises NoWayOutError."""
        self.settings.write_bytes(orjson.dumps({**orjson.loads(self.settings.read_bytes()), "job": self.job}))
        child = self.home.start("repair", PROGRAM, ["repair", str(self.settings), "--yes"])
        try:
            if not child.wait(COMMAND_S) or child.status():
                raise NoWayOutError(child.post_mortem())
        finally:
            child.stop()
        self.taken()
        said = [line for line in tail(child.log, LINES).splitlines() if line.strip()]
        return said[-1].strip() if said else ""
