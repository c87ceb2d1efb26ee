"""What a cluster needs: each fact alone can make its check fail, and says how to mend it."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.check import GIB
from infra.cluster import engine, needs
from infra.cluster.engine import Engine, EngineError
from infra.cluster.kind import API_PORT
from infra.cluster.needs import ClusterFacts
from infra.cluster.record import Record
from infra.cluster.state import StateDirectory
from infra.console import Console
from tests.unit.cluster.fake_engine import FakeDocker

GOOD = ClusterFacts(
    engine="20.10.24",
    debootstrap=True,
    openssl=True,
    memory_total_bytes=10 * GIB,
    disk_free_bytes=14 * GIB,
    disk_at="/d",
)
BARE = replace(GOOD, engine=None, debootstrap=False, openssl=False)


@pytest.mark.parametrize("facts", [GOOD, BARE, replace(GOOD, refusal="not root")])
def test_a_machine_that_just_suffices_passes_everything(facts: ClusterFacts) -> None:
    assert [one.name for one in needs.checks(facts) if not one.ok] == []


@pytest.mark.parametrize(
    ("facts", "name", "fix"),
    [
        (replace(GOOD, trouble="the container engine here is 19.3"), "container engine", "19.3"),
        (replace(GOOD, engine=None, refusal="run as root"), "container engine", "as root"),
        (replace(GOOD, debootstrap=False, refusal="run as root"), "mmdebstrap", "as root"),
        (replace(GOOD, openssl=False, refusal="run as root"), "OpenSSL", "as root"),
        (replace(GOOD, memory_total_bytes=10 * GIB - 1), "memory of the machine", "larger"),
        (replace(GOOD, disk_free_bytes=14 * GIB - 1), "disk free in /d", "EFFECTIVELY_ONCE_CACHE"),
        (replace(GOOD, ports_taken=(12080,)), "published ports", "ss -tanp"),
    ],
)
def test_one_missing_thing_makes_exactly_its_own_check_fail(facts: ClusterFacts, name: str, fix: str) -> None:
    failed = [one for one in needs.checks(facts) if not one.ok]
    assert [one.name for one in failed] == [name]
    assert fix in failed[0].fix


def test_a_cluster_that_is_up_has_taken_ports_and_disk_rightly() -> None:
    facts = replace(GOOD, own_cluster=True, disk_free_bytes=0, ports_taken=(API_PORT,))
    assert [one.name for one in needs.checks(facts) if not one.ok] == []


def test_an_engine_that_is_too_old_is_told_not_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_old() -> Any:
        raise EngineError("the container engine here is 19.3")

    monkeypatch.setattr(engine, "running", too_old)
    facts = needs.gather(StateDirectory(tmp_path))
    assert facts.trouble == "the container engine here is 19.3"
    assert facts.engine is None
    assert facts.disk_free_bytes > 0


def test_openssl_is_installed_where_that_is_allowed_and_asked_for_otherwise(
    monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    installed: list[tuple[str, ...]] = []
    monkeypatch.setattr(engine, "install_packages", lambda packages, *_: installed.append(packages))
    needs.ensure_openssl(console)
    assert installed == [], "it is there"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(engine, "why_not_here", lambda what: f"{what} is needed, it is not here")
    with pytest.raises(EngineError, match=r"OpenSSL, which makes the servers' certificates, is needed"):
        needs.ensure_openssl(console)
    assert installed == []
    monkeypatch.setattr(engine, "why_not_here", lambda _: None)
    needs.ensure_openssl(console)
    assert installed == [("openssl",)]


@contextmanager
def listening() -> Iterator[tuple[str, int]]:
    """Address of somebody who listens for the time of the block."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield one.getsockname()


def test_a_port_is_taken_that_somebody_listens_on_or_has_an_outgoing_connection_from() -> None:
    with listening() as at:
        assert needs.port_taken(at[1])
        with socket.create_connection(at) as one:
            assert needs.port_taken(one.getsockname()[1])
    with listening() as (_, port):
        pass
    assert not needs.port_taken(port)


def test_a_port_that_is_taken_is_refused_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as (_, port):
        monkeypatch.setattr(needs, "API_PORT", 0)
        monkeypatch.setattr(needs, "PORTS", {port: 30092})
        with pytest.raises(EngineError, match=rf"port {port} on 127\.0\.0\.1 is taken.*sport = :{port}"):
            needs.require_ports()
    needs.require_ports()


@pytest.fixture
def little_room(machine: Engine, docker: FakeDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine on a disk with 3 GiB left."""
    docker.answers({"info*": f"echo {tmp_path}"})
    monkeypatch.setattr(needs, "free_bytes", lambda place: 3 * GIB if place == tmp_path else pytest.fail("where?"))
    return machine


def test_a_disk_without_room_is_refused_with_what_is_free_and_where_unless_the_cluster_is_there(
    state: StateDirectory, little_room: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineError, match=r"3\.0 GiB are free in .*, 14 are needed") as caught:
        needs.require_room(little_room, state)
    assert str(tmp_path) in str(caught.value)
    assert "EFFECTIVELY_ONCE_CACHE" in str(caught.value)
    with monkeypatch.context() as patched:
        patched.setattr(needs, "DISK_NEEDED_GIB", 2.9)
        needs.require_room(little_room, state)
    Record("ready", "node:1", 1).write(state.record)
    needs.require_room(little_room, state)  # that cluster has taken its room already
