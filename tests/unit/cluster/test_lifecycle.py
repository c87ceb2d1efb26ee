"""`make up` refuses before it changes anything, and goes on from wherever it was; `make down` leaves others alone."""

from __future__ import annotations

import io
import json
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from images.builder import Builder
from infra.cluster import engine as engines
from infra.cluster import lifecycle, network
from infra.cluster.engine import Engine, EngineError
from infra.cluster.kind import Kind
from infra.cluster.lifecycle import Lifecycle
from infra.cluster.record import Record
from infra.cluster.state import StateDirectory
from infra.console import Console
from infra.toolchain.cache import Cache
from infra.toolchain.prepare import Toolchain
from tests.unit.cluster.fake_engine import FakeDocker
from tests.unit.toolchain.fake_programs import program

NO_TOOLCHAIN = cast(Toolchain, SimpleNamespace())


@dataclass
class FakeKind:
    """Containers and what was done with them."""

    containers: dict[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    images: dict[str, set[str]] = field(default_factory=dict)
    fails: bool = False
    engine: Engine | None = None

    def nodes(self) -> dict[str, str]:
        return self.containers

    def create(self, image: str, nodes: int, _console: Console) -> None:
        self.done.append(f"create {nodes} from {image}")
        self.containers = {f"node{number}": "running" for number in range(nodes)}
        if self.fails:
            raise EngineError("kubelet is not running")

    def delete(self) -> bool:
        self.done.append("delete")
        self.containers = {}
        return True

    def images_on(self, node: str) -> set[str]:
        return self.images[node]


@pytest.fixture
def ours(state: StateDirectory, console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lifecycle:
    """A life cycle whose ports are free, and whose network is there at once."""
    monkeypatch.setattr(lifecycle, "PORTS", {})
    monkeypatch.setattr(lifecycle, "API_PORT", 0)
    monkeypatch.setattr(network, "connect", lambda *_: None)
    return Lifecycle(console, state, Cache(tmp_path / "cache"))


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    return cast(Builder, SimpleNamespace(node=lambda: "node:1"))


def _cluster(ours: Lifecycle, kind: FakeKind, builder: Builder, nodes: int = 1) -> None:
    ours._cluster(cast(Kind, kind), builder, nodes)


def test_a_profile_without_a_cluster_of_its_own_is_refused_before_anything_is_done(
    ours: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lifecycle, "tools", lambda _: pytest.fail("built"))
    with pytest.raises(EngineError, match="'production' has no cluster of its own; those that have: laptop, ci, chaos"):
        ours.up(NO_TOOLCHAIN, "production")


def test_the_first_cluster_is_made_and_recorded_as_ready(ours: Lifecycle, builder: Builder) -> None:
    kind = FakeKind()
    _cluster(ours, kind, builder, 2)
    assert kind.done == ["create 2 from node:1"]
    assert Record.read(ours.state.record) == Record("ready", "node:1", 2)


def test_a_second_call_changes_nothing(ours: Lifecycle, builder: Builder) -> None:
    kind = FakeKind()
    _cluster(ours, kind, builder)
    _cluster(ours, kind, builder)
    assert kind.done == ["create 1 from node:1"]


def test_while_it_is_being_made_the_record_says_so(
    ours: Lifecycle, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(network, "connect", killed)
    kind = FakeKind()
    with pytest.raises(KeyboardInterrupt):
        _cluster(ours, kind, builder)
    assert Record.read(ours.state.record) == Record("creating", "node:1", 1)
    monkeypatch.setattr(network, "connect", lambda *_: None)
    _cluster(ours, kind, builder)
    assert kind.done == ["create 1 from node:1", "delete", "create 1 from node:1"]


def test_a_cluster_that_could_not_be_made_is_removed_with_its_record(ours: Lifecycle, builder: Builder) -> None:
    kind = FakeKind(fails=True)
    with pytest.raises(EngineError, match="kubelet is not running"):
        _cluster(ours, kind, builder)
    assert kind.done[-1] == "delete"
    assert not ours.state.record.exists()


def test_somebody_elses_cluster_is_neither_used_nor_deleted(ours: Lifecycle, builder: Builder) -> None:
    kind = FakeKind({"node0": "running"})
    with pytest.raises(EngineError, match="kind delete cluster --name effectively-once") as caught:
        _cluster(ours, kind, builder)
    assert str(ours.state.root) in str(caught.value)
    assert kind.done == []


def test_another_number_of_nodes_is_refused_with_the_way_out(ours: Lifecycle, builder: Builder) -> None:
    kind = FakeKind()
    _cluster(ours, kind, builder, 1)
    with pytest.raises(EngineError, match=r"has 1 node\(s\) and this profile needs 2: `make down` first"):
        _cluster(ours, kind, builder, 2)
    assert kind.done == ["create 1 from node:1"]


def test_a_new_cluster_starts_without_what_pulumi_knew_of_the_former_one(
    ours: Lifecycle, builder: Builder, tmp_path: Path
) -> None:
    settings = tmp_path / "checkout" / "Pulumi.laptop.yaml"
    settings.write_text("of the former cluster")
    kind = FakeKind()
    _cluster(ours, kind, builder)
    assert not settings.exists()
    settings.write_text("of this cluster")
    _cluster(ours, kind, builder)
    assert settings.read_text() == "of this cluster"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield one.getsockname()[1]


def test_a_port_that_is_taken_is_named_before_anything_is_made(
    ours: Lifecycle, builder: Builder, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "PORTS", {taken: 30092})
    kind = FakeKind()
    with pytest.raises(EngineError, match=rf"port {taken} on 127\.0\.0\.1 is taken.*sport = :{taken}"):
        _cluster(ours, kind, builder)
    assert kind.done == []
    assert not ours.state.record.exists()


def test_a_port_that_was_just_closed_is_free(ours: Lifecycle, taken: int) -> None:
    assert lifecycle._taken(taken)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        free = one.getsockname()[1]
    assert not lifecycle._taken(free)


@pytest.fixture
def little_room(machine: Engine, docker: FakeDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine on a disk with 3 GiB left."""
    docker.answers({"info*": f"echo {tmp_path}"})
    usage = shutil.disk_usage(tmp_path)._replace(free=3 * 1024**3)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage if Path(place) == tmp_path else pytest.fail("where?"))
    return machine


def test_a_disk_without_room_is_refused_with_what_is_free_and_where(
    ours: Lifecycle, little_room: Engine, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match=r"3\.0 GiB are free in .*, 14 are needed") as caught:
        ours._room(little_room)
    assert str(tmp_path) in str(caught.value)
    assert "EFFECTIVELY_ONCE_CACHE" in str(caught.value)


def test_a_cluster_that_is_there_has_taken_its_room_already(ours: Lifecycle, little_room: Engine) -> None:
    Record("ready", "node:1", 1).write(ours.state.record)
    ours._room(little_room)


def test_enough_room_is_no_refusal(
    ours: Lifecycle, little_room: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "DISK_NEEDED_GIB", 2.9)
    ours._room(little_room)


def test_images_that_any_node_lacks_are_loaded(ours: Lifecycle) -> None:
    kind = FakeKind({"a": "running", "b": "running"}, images={"a": {"spark:1", "old:1"}, "b": {"spark:1", "kafka:1"}})
    assert ours._lacking(cast(Kind, kind), {"spark": "spark:1", "kafka": "kafka:1"}) == ["kafka:1"]
    kind.images["a"].add("kafka:1")
    assert ours._lacking(cast(Kind, kind), {"spark": "spark:1", "kafka": "kafka:1"}) == []


@pytest.fixture
def programs(ours: Lifecycle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """What the toolchain finds; the definitions are one folder."""
    found = {name: program(tmp_path / "built", name, "") for name in ("kubectl", "pulumi")}
    (tmp_path / "crds").mkdir()
    monkeypatch.setattr(lifecycle, "find_programs", lambda *_: found)
    monkeypatch.setattr(lifecycle, "resource_definitions", lambda _: tmp_path / "crds")
    return found


def test_tools_are_linked_with_a_language_host_of_our_own_where_pulumi_has_none(
    ours: Lifecycle, programs: dict[str, Path], tmp_path: Path
) -> None:
    ours.tools()
    linked = {path.name: path.resolve() for path in ours.state.programs.iterdir()}
    assert set(linked) == {"kubectl", "pulumi", "pulumi-language-python"}
    assert linked["pulumi"] == programs["pulumi"]
    assert "infra.language_host" in linked["pulumi-language-python"].read_text()
    assert ours.state.resource_definitions.resolve() == tmp_path / "crds"
    assert ours.state.passphrase.is_file()
    ours.tools()
    assert {path.name: path.resolve() for path in ours.state.programs.iterdir()} == linked


def test_pulumis_own_language_host_is_preferred(ours: Lifecycle, programs: dict[str, Path], tmp_path: Path) -> None:
    program(tmp_path / "built", "pulumi-language-python", "")
    ours.tools()
    assert not (ours.state.programs / "pulumi-language-python").exists()


def test_newer_definitions_take_the_place_of_the_old_ones(
    ours: Lifecycle, programs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.tools()
    (tmp_path / "newer").mkdir()
    monkeypatch.setattr(lifecycle, "resource_definitions", lambda _: tmp_path / "newer")
    ours.tools()
    assert ours.state.resource_definitions.resolve() == tmp_path / "newer"


@pytest.fixture
def down(ours: Lifecycle, machine: Engine, monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    """An engine that runs, with a cluster of one node; stopping the engine is kept in `done`."""
    kind = FakeKind({"node0": "running"})
    program(ours.state.programs, "kind", "")
    monkeypatch.setattr(engines, "running", lambda: machine)
    monkeypatch.setattr(engines, "stop", lambda _: kind.done.append("stop"))
    monkeypatch.setattr(Lifecycle, "kind", lambda *_: kind)
    return kind


def test_down_removes_cluster_state_and_engine(ours: Lifecycle, down: FakeKind) -> None:
    Record("ready", "node:1", 1).write(ours.state.record)
    ours.state.kubeconfig.touch()
    ours.down()
    assert down.done == ["delete", "stop"]
    assert not ours.state.record.exists()
    assert not ours.state.kubeconfig.exists()


def test_down_removes_a_cluster_whose_creation_was_interrupted(ours: Lifecycle, down: FakeKind) -> None:
    Record("creating", "node:1", 2).write(ours.state.record)
    ours.down()
    assert down.done == ["delete", "stop"]


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


def test_forgetting_gives_up_a_state_that_no_passphrase_opens(ours: Lifecycle, down: FakeKind) -> None:
    stack = ours.state.backend / ".pulumi" / "stacks" / "effectively-once" / "laptop.json"
    stack.parent.mkdir(parents=True)
    stack.write_text("{}")
    ours.down(forget=True)
    assert not stack.exists()
    ours.state.make()
    ours.state.ensure_passphrase()
    assert ours.state.passphrase.is_file()


def test_the_references_of_the_images_are_written_with_the_wheels_digest(
    ours: Lifecycle, machine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Builder, "published", lambda self: {"spark": f"{self.prefix}spark:1"})
    toolchain = cast(Toolchain, SimpleNamespace(wheel=SimpleNamespace(sha256="abc")))
    assert ours.images(machine, toolchain) == {"spark": "spark:1"}
    assert json.loads(ours.state.images.read_text()) == {"spark": "spark:1", "wheel-digest": "abc"}


@pytest.mark.parametrize(
    ("push", "reference", "pushed"),
    [
        ("", "spark:1", []),
        ("registry.example/team", "registry.example/team/spark:1", ["registry.example/team/spark:1"]),
        ("registry.example/team/", "registry.example/team/spark:1", ["registry.example/team/spark:1"]),
    ],
)
def test_images_are_pushed_only_when_a_registry_is_named(
    *,
    push: str,
    reference: str,
    pushed: list[str],
    ours: Lifecycle,
    machine: Engine,
    said: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "ensure", lambda *_: machine)
    monkeypatch.setattr(Lifecycle, "tools", lambda _: None)
    monkeypatch.setattr(Lifecycle, "tools", lambda self: self.state.make())
    done: list[Any] = []
    monkeypatch.setattr(Builder, "published", lambda self: {"spark": f"{self.prefix}spark:1"})
    monkeypatch.setattr(Builder, "sizes", lambda _, tags: dict.fromkeys(tags, 300 * 2**20))
    monkeypatch.setattr(Builder, "push", lambda _, tags: done.extend(tags))
    toolchain = cast(Toolchain, SimpleNamespace(wheel=SimpleNamespace(sha256="abc")))
    ours.show_images(toolchain, push, "")
    assert done == pushed
    assert f"300 MiB  {reference}" in said.getvalue()
    assert json.loads(ours.state.images.read_text())["spark"] == reference
