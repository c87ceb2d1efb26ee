"""Who asks a pipeline in pods, while it runs, how complete its results are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import effectively_once
from effectively_once.pipeline.settings import PipelineSettings
from infra.cluster.access import CHECKOUT
from infra.values.network import METRICS_PORT
from tests.harness.adapters.driver_metrics import read_metric_at
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.adapters.tunnel import Far, Tunnel
from tests.harness.inquiry import Inquiry
from tests.harness.play.inquired import make_command, make_inquiry
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.cluster import ClusterStack

ASKED_SETTINGS = "asked-settings.json"
FILES = "asked-files"
"""Folder of the files that the pods have beside the wheel, as the job may be one of them."""


@contextmanager
def inquiry_in_pods(
    stack: ClusterStack, directory: RunDirectory, settings: PipelineSettings, drivers: SupervisedPods | None
) -> Iterator[Inquiry]:
    """Who asks the pipeline of a run in pods: the command on this machine, the metric through the API server.

    In a driver's pod the command would take memory that the driver was given.

    Args:
        stack: of the run.
        directory: of the run.
        settings: of its pipeline, as its pods have them.
        drivers: whose metrics are read, and whose pods' files the command finds; None: nobody's.
    """
    endpoints = stack.endpoints
    reached = {"s3_endpoint": endpoints.s3_endpoint, "kafka_bootstrap": endpoints.kafka_bootstrap}
    work = directory.path.absolute() / "work"
    work.mkdir(parents=True, exist_ok=True)
    path, files = work / ASKED_SETTINGS, work / FILES
    path.write_text(settings.model_copy(update=reached).model_dump_json(indent=1))
    _write_files(files, {} if drivers is None else drivers.values.get("extraFiles", {}))

    def dial() -> Far:
        if drivers is None:
            raise ConnectionRefusedError("no driver of this run is supervised")
        return stack.cluster.dial(drivers.running().name, int(drivers.values.get("metricsPort") or METRICS_PORT))

    tunnel = Tunnel(dial)
    tunnel.start()
    command = make_command(directory, path, f"{files}:{Path(effectively_once.__file__).parents[1]}:{CHECKOUT}")
    try:
        with make_inquiry(directory, endpoints, settings, command, lambda: read_metric_at(tunnel.port)) as inquiry:
            yield inquiry
    finally:
        tunnel.stop()


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
