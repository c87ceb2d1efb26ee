"""The negative controls beside a run on this machine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from infra.console import Console
from infra.embedded.spark import SparkHome
from tests.harness.adapters.embedded import ProcessDrivers
from tests.harness.adapters.events import Watch
from tests.harness.adapters.topics import Topics
from tests.harness.controls.names import QUICK, NegativeControl
from tests.harness.controls.run import PARTITIONS, run_controls
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory


def play(
    directory: RunDirectory,
    home: SparkHome,
    checkout: Path,
    *,
    seed: int,
    console: Console,
    stop: threading.Event,
    controls: Sequence[NegativeControl] = QUICK,
) -> None:
    """Play them on the stack of `home`, in an application of their own; see `run_controls`.

    It has one executor with a core for each partition: fewer JVMs start, again after each kill, beside the run.
    """
    home = replace(home, executors=1, cores=PARTITIONS)
    events = directory.path / "work" / "controls.jsonl"
    drivers = ProcessDrivers(home, "tests.harness.controls.job", events, checkout=checkout)
    with (
        console.step("negative controls, which must fail"),
        History(directory.path / "work" / "controls-history.jsonl") as scratch,
    ):
        run_controls(
            directory,
            drivers,
            Topics(home.endpoints.kafka_bootstrap),
            Watch(events, scratch),
            settings=directory.path / "settings.json",
            seed=seed,
            console=console,
            stop=stop,
            controls=controls,
        )
