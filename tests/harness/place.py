"""Where a run's pipeline lives: processes of this machine, or pods of a cluster. The act is the same in both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.embedded.stack import Endpoints
from tests.harness.adapters.drivers import Drivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.witness import ProcessWitness, Witness
from tests.harness.history import History


@dataclass(frozen=True)
class Patience:
    """Bounds of waits, in seconds: for the first driver, an executor's replacement, a restarted driver's take-over."""

    driver_s: float = 120.0
    replaced_s: float = 40.0
    take_over_s: float = 60.0


@dataclass(frozen=True)
class Place:
    """The servers of a run, and the processes of one pipeline.

    Attributes:
        endpoints: how this process reaches the servers.
        settings: the pipeline's own (`PipelineSettings`): how its processes reach them.
        drivers: starts and strikes them.
        watch: what they announce; started and stopped by the act.
        replication: of topics.
        patience: how long things may take here.
        witness: notes which processes come and go; started and stopped by the act.
    """

    endpoints: Endpoints
    settings: Any
    drivers: Drivers
    watch: Watch
    replication: int = 1
    patience: Patience = Patience()
    witness: Callable[[History], Witness] = ProcessWitness
