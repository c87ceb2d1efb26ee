"""`make down` removes what is ours, whatever state it is in, and leaves the rest alone."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from infra.cluster import engine as engines
from infra.cluster.engine import Engine, EngineError
from infra.cluster.lifecycle import Lifecycle
from infra.cluster.record import Record
from tests.unit.cluster.fake_kind import FakeKind, refusing
from tests.unit.toolchain.fake_programs import program


@pytest.fixture
def down(ours: Lifecycle, machine: Engine, monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    """An engine that runs, with a cluster of one node; stopping the engine is kept in `done`."""
    kind = FakeKind({"node0": "running"})
    program(ours.state.programs, "kind", "")
    monkeypatch.setattr(engines, "running", lambda: machine)
    monkeypatch.setattr(engines, "stop", lambda _: kind.done.append("stop"))
    monkeypatch.setattr(Lifecycle, "kind", lambda *_: kind)
    return kind


@pytest.mark.parametrize("record", [Record("ready", "node:1", 1), Record("creating", "node:1", 2)])
def test_down_removes_cluster_state_and_engine_though_its_creation_was_interrupted(
    ours: Lifecycle, down: FakeKind, record: Record
) -> None:
    record.write(ours.state.record)
    ours.state.kubeconfig.touch()
    ours.down()
    assert down.done == ["delete", "stop"]
    assert not ours.state.record.exists()
    assert not ours.state.kubeconfig.exists()


def test_down_leaves_somebody_elses_cluster_alone_unless_told_to_forget(ours: Lifecycle, down: FakeKind) -> None:
    with pytest.raises(EngineError, match="was not made with the state in"):
        ours.down()
    assert down.done == []
    ours.down(forget=True)
    assert down.done == ["delete", "stop"]


def test_down_without_an_engine_still_drops_what_is_known(
    ours: Lifecycle, down: FakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "running", lambda: None)
    Record("ready", "node:1", 1).write(ours.state.record)
    ours.down()
    assert down.done == ["stop"]
    assert not ours.state.record.exists()


def test_down_on_a_machine_whose_engine_is_too_old_says_so_and_leaves_no_state(
    ours: Lifecycle, down: FakeKind, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "running", refusing("the container engine here is 19.3, 20.10 or newer is needed"))
    Record("ready", "node:1", 1).write(ours.state.record)
    stack = _stack(ours)
    ours.down()
    assert down.done == ["stop"]
    assert not ours.state.record.exists()
    assert not stack.exists()
    assert "engine here is 19.3, 20.10 or newer is needed" in said.getvalue()
    assert "kind delete cluster --name effectively-once" in said.getvalue()


def test_down_without_the_program_that_deletes_a_cluster_leaves_the_cluster_and_what_is_known_of_it(
    ours: Lifecycle, down: FakeKind
) -> None:
    Record("ready", "node:1", 1).write(ours.state.record)
    stack = _stack(ours)
    (ours.state.programs / "kind").unlink()
    with pytest.raises(EngineError, match="was the cache deleted"):
        ours.down()
    assert down.done == []
    assert ours.state.record.exists()
    assert stack.exists()
    down.containers = {}
    ours.down()
    assert down.done == ["stop"]
    assert not stack.exists()


def _stack(ours: Lifecycle, name: str = "effectively-once/laptop") -> Path:
    """A stack in the backend."""
    file = ours.state.backend / ".pulumi" / "stacks" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    return file


def test_forgetting_gives_up_a_state_that_no_passphrase_opens(ours: Lifecycle, down: FakeKind) -> None:
    stack = _stack(ours)
    ours.state.passphrase.touch()
    ours.down(forget=True)
    assert not stack.exists()
    assert not ours.state.passphrase.exists()
    ours.state.make()
    ours.state.ensure_passphrase()
    assert ours.state.passphrase.is_file()


@pytest.mark.parametrize("name", ["effectively-once/team", "other/laptop"])
def test_forgetting_leaves_other_stacks_of_the_backend_and_their_passphrase(
    name: str, ours: Lifecycle, down: FakeKind, said: io.StringIO
) -> None:
    stack, other = _stack(ours), _stack(ours, name)
    ours.state.passphrase.write_text("opens both")
    ours.down(forget=True)
    assert not stack.exists()
    assert other.read_text() == "{}"
    assert ours.state.passphrase.read_text() == "opens both"
    assert name in said.getvalue()


def test_without_forgetting_the_passphrase_stays(ours: Lifecycle, down: FakeKind) -> None:
    Record("ready", "node:1", 1).write(ours.state.record)
    ours.state.ensure_passphrase()
    ours.down()
    assert ours.state.passphrase.is_file()
