"""A pipeline in pods is asked from outside: the command with addresses of this machine, the metric through the API."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from effectively_once.driver.metrics import Metrics
from effectively_once.ledger.clock import Clock
from effectively_once.pipeline.settings import PipelineSettings
from infra.embedded.stack import Endpoints
from tests.harness import asked, inquiry
from tests.harness.adapters.driver_metrics import ANY_PORT, EVERYWHERE, read_metric_at
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.asked import Certificate
from tests.harness.play import inquired
from tests.harness.play.inquired_in_pods import inquiry_in_pods
from tests.harness.run_directory import RunDirectory
from tests.unit.ledger.samples import declaration, record_of

INSIDE: dict[str, Any] = {
    "kafka_bootstrap": "kafka:9092",
    "s3_endpoint": "http://minio:9000",
    "s3_bucket": "bucket",
    "job": "j",
}
ENDPOINTS = Endpoints("127.0.0.1:1", "http://127.0.0.1:2", "a", "b", "bucket")


class Drivers:
    """One driver in a pod, or none."""

    def __init__(self, pod: str | None) -> None:
        self.pod = pod
        self.values: dict[str, Any] = {"metricsPort": 7, "extraFiles": {"a_job_of_pods.py": "pipeline = 1\n"}}

    def running(self) -> Any:
        if self.pod is None:
            raise NoProcessError("no driver runs")
        return SimpleNamespace(name=self.pod)


def ports() -> set[int]:
    """Where this process serves anything to everybody."""
    sockets = psutil.Process().net_connections("tcp")
    return {int(one.laddr.port) for one in sockets if one.laddr and one.laddr.ip in EVERYWHERE}


def metrics_port() -> int:
    """Serve the product's metrics, of an epoch that let one source go; where."""
    before = ports()
    metrics = Metrics("uc")
    metrics.serve(ANY_PORT)
    clock = Clock(sources={"north": 5}, released=("north",))
    record = record_of(declaration(4), generation=3).model_copy(update={"clock": clock})
    metrics.count_epoch(record, {"total": 1}, repeat=False)
    (port,) = ports() - before
    return port


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    told: Any = SimpleNamespace(settings=[], dialled=[], port=metrics_port(), directory=RunDirectory(tmp_path))
    (tmp_path / "logs").mkdir()

    class Told:
        def __init__(self, settings: Path, packages: str, log: Path) -> None:
            told.settings.append(PipelineSettings.model_validate_json(settings.read_bytes()))
            told.packages = packages

        def __call__(self, window: int) -> Certificate:
            return Certificate(1, window, 0, {"verdict": "complete"}, "")

    def dial(pod: str, port: int) -> socket.socket:
        told.dialled.append((pod, port))
        return socket.create_connection(("127.0.0.1", told.port))

    monkeypatch.setattr(inquired, "Complete", Told)
    monkeypatch.setattr(inquired, "ChainReader", lambda *_: SimpleNamespace(head=lambda: None))
    monkeypatch.setattr(inquiry, "LOOK_S", 10**6)
    told.stage = SimpleNamespace(endpoints=ENDPOINTS, cluster=SimpleNamespace(dial=dial))
    return told


def ask(world: Any, drivers: Drivers | None) -> tuple[asked.Metric, ...]:
    settings = PipelineSettings.model_validate({"pipeline": "uc_1", "topic": "events_uc_1", **INSIDE})
    with inquiry_in_pods(world.stage, world.directory, settings, cast("Any", drivers)) as asks:
        asks.look()
    return asked.read(world.directory.path).metrics


def test_the_command_reaches_the_servers_from_here_and_the_metric_is_that_of_the_drivers_pod(world: Any) -> None:
    (metric,) = ask(world, Drivers("uc-1-driver"))
    assert metric[1:] == (4, 1)
    assert set(world.dialled) == {("uc-1-driver", 7)}
    (settings,) = world.settings
    assert (settings.s3_endpoint, settings.kafka_bootstrap) == ("http://127.0.0.1:2", "127.0.0.1:1")
    assert (settings.pipeline, settings.topic, settings.s3_bucket) == ("uc_1", "events_uc_1", "bucket")


def test_the_command_finds_a_job_that_the_pods_have_as_a_file_beside_the_wheel(world: Any) -> None:
    ask(world, Drivers("uc-1-driver"))
    found = "import a_job_of_pods, effectively_once; print(a_job_of_pods.pipeline)"
    environment = {"PYTHONPATH": world.packages}
    assert subprocess.check_output([sys.executable, "-c", found], env=environment, text=True) == "1\n"


@pytest.mark.parametrize("drivers", [Drivers(None), None])
def test_where_no_driver_runs_no_metric_is_read(drivers: Drivers | None, world: Any) -> None:
    assert ask(world, drivers) == ()


def test_a_port_that_leads_nowhere_is_no_metric() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert read_metric_at(taken.getsockname()[1]) is None
