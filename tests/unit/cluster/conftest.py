"""No test below reaches an engine, a socket or a settings file of this machine, or builds a tool."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from infra.cluster import engine, lifecycle, needs, network
from infra.cluster.engine import Engine
from infra.cluster.lifecycle import Lifecycle, node_image
from infra.cluster.state import StateDirectory
from infra.console import Console
from infra.toolchain.cache import Cache
from tests.unit.cluster.fake_engine import FakeDocker
from tests.unit.harness.hasty import hasty

__all__ = ["hasty"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RUN", tmp_path / "run")
    monkeypatch.setattr(engine, "_docker", lambda: None)
    monkeypatch.setattr(engine, "_system_path", lambda: f"{tmp_path / 'system'}")
    monkeypatch.setattr(engine, "engine_data", lambda: tmp_path / "cache" / "engine")
    monkeypatch.setattr(lifecycle, "CHECKOUT", tmp_path / "checkout")
    for build in ("find_programs", "resource_definitions"):
        monkeypatch.setattr(lifecycle, build, lambda *_: pytest.fail("a test of decisions builds nothing"))
    (tmp_path / "checkout").mkdir()
    for name in ("DOCKER_HOST", "NO_INSTALL", "KUBECONFIG", "EFFECTIVELY_ONCE_STATE", node_image.SETTING):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    made = StateDirectory(tmp_path / "state")
    made.make()
    return made


@pytest.fixture
def docker(tmp_path: Path) -> FakeDocker:
    return FakeDocker(tmp_path / "fake-docker")


@pytest.fixture
def machine(docker: FakeDocker) -> Engine:
    """An engine whose docker is the fake one."""
    return Engine(docker.path, None)


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def console(said: io.StringIO) -> Console:
    return Console(stream=said)


@pytest.fixture
def ours(state: StateDirectory, console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lifecycle:
    """A life cycle whose ports are free, whose network is there at once, and without a published node image."""
    monkeypatch.setattr(needs, "require_ports", lambda: None)
    monkeypatch.setattr(network, "connect", lambda *_, **__: None)
    monkeypatch.setattr(node_image, "find_published", lambda *_: None)
    return Lifecycle(console, state, Cache(tmp_path / "cache"))
