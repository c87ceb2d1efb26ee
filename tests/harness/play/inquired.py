"""Who asks a pipeline, while it runs, how complete its results are: one on this machine, or one in pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import effectively_once
from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.object_store import BucketAddress
from infra.cluster.access import CHECKOUT
from infra.embedded.stack import Endpoints
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.driver_metrics import read_metric, read_metric_at
from tests.harness.adapters.supervised import SupervisedDrivers
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.adapters.tunnel import Far, Tunnel
from tests.harness.asked import Metric
from tests.harness.inquiry import Complete, Inquiry, Tail
from tests.harness.run_directory import RunDirectory

LOOK_PATIENCE_S = 5.0
"""A store that does not answer within so long is asked again when it is time for the next window."""
METRICS_PORT = 9404
"""Of the chart, where a pipeline's values name no other."""
ASKED_SETTINGS = "asked-settings.json"


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
    command = _complete(directory, directory.path.absolute() / "settings.json", packages)
    return _inquiry(directory, endpoints, settings, command, lambda: read_metric(drivers.driver))


class Deployment(Protocol):
    """Where pods and servers of a run are (tests.harness.play.stage.Stage)."""

    @property
    def cluster(self) -> Cluster:
        """The namespace of its pods."""

    @property
    def endpoints(self) -> Endpoints:
        """How this process reaches its servers."""


@contextmanager
def inquiry_in_pods(
    stage: Deployment, directory: RunDirectory, settings: PipelineSettings, drivers: SupervisedPods | None
) -> Iterator[Inquiry]:
    """Who asks the pipeline of a run in pods: the command on this machine, the metric through the API server.

    In a driver's pod the command would take memory that the driver was given.

    Args:
        stage: of the run.
        directory: of the run.
        settings: of its pipeline, as its pods have them.
        drivers: whose metrics are read; None: nobody's.
    """
    endpoints = stage.endpoints
    reached = {"s3_endpoint": endpoints.s3_endpoint, "kafka_bootstrap": endpoints.kafka_bootstrap}
    path = directory.path.absolute() / "work" / ASKED_SETTINGS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(settings.model_copy(update=reached).model_dump_json(indent=1))

    def dial() -> Far:
        if drivers is None:
            raise ConnectionRefusedError("no driver of this run is supervised")
        return stage.cluster.dial(drivers.running().name, int(drivers.values.get("metricsPort") or METRICS_PORT))

    tunnel = Tunnel(dial)
    tunnel.start()
    command = _complete(directory, path, f"{Path(effectively_once.__file__).parents[1]}:{CHECKOUT}")
    try:
        with _inquiry(directory, endpoints, settings, command, lambda: read_metric_at(tunnel.port)) as inquiry:
            yield inquiry
    finally:
        tunnel.stop()


def _inquiry(
    directory: RunDirectory,
    endpoints: Endpoints,
    settings: PipelineSettings,
    command: Complete,
    metric: Callable[[], Metric | None],
) -> Inquiry:
    address = BucketAddress(endpoints.s3_endpoint, settings.s3_bucket)
    chain = ChainReader(address, settings.pipeline, settings.topic, LOOK_PATIENCE_S)

    def tail() -> Tail:
        head = chain.head()
        return [] if head is None else head.content["tail"]

    return Inquiry(directory.path, tail, command, metric, (settings.window_ms, settings.lateness_ms))


def _complete(directory: RunDirectory, settings: Path, packages: str) -> Complete:
    return Complete(settings, packages, directory.path.absolute() / "work" / "complete.log")
