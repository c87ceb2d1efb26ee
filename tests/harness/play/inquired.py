"""Who asks a pipeline, while it runs, how complete its results are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.object_store import BucketAddress
from infra.embedded.stack import Endpoints
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.driver_metrics import read_metric
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.asked import Metric
from tests.harness.inquiry import Complete, Inquiry, Tail
from tests.harness.run_directory import RunDirectory

LOOK_PATIENCE_S = 5.0
"""A store that does not answer within so long is asked again when it is time for the next window."""


def inquiry_of(
    directory: RunDirectory,
    endpoints: Endpoints,
    settings: PipelineSettings,
    drivers: SupervisedDrivers,
    packages: str,
) -> Inquiry:
    """Who asks the pipeline of a run on this machine.

    Args:
        directory: of the run.
        endpoints: of its stack.
        settings: of its pipeline.
        drivers: whose metrics are read.
        packages: where Python finds the library's command and the harness.
    """
    command = make_command(directory, directory.path.absolute() / "settings.json", packages)
    return make_inquiry(directory, endpoints, settings, command, lambda: read_metric(drivers.driver))


def make_inquiry(
    directory: RunDirectory,
    endpoints: Endpoints,
    settings: PipelineSettings,
    command: Complete,
    metric: Callable[[], Metric | None],
) -> Inquiry:
    """Make one of a run.

    Args:
        directory: of the run.
        endpoints: of its stack.
        settings: of its pipeline.
        command: asks for one window.
        metric: reads that of the driver that runs.
    """
    address = BucketAddress(endpoints.s3_endpoint, settings.s3_bucket)
    chain = ChainReader(address, settings.pipeline, settings.topic, LOOK_PATIENCE_S)

    def tail() -> Tail:
        head = chain.head()
        return [] if head is None else head.content["tail"]

    return Inquiry(directory.path, tail, command, metric, (settings.window_ms, settings.lateness_ms))


def make_command(directory: RunDirectory, settings: Path, packages: str) -> Complete:
    """Make the command that asks, with a settings file, where Python finds those packages."""
    return Complete(settings, packages, directory.path.absolute() / "work" / "complete.log")
