"""`make up` refuses before it changes anything, and goes on from wherever it was; `make down` leaves others alone."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.cluster import engine as engines
from infra.cluster import lifecycle, needs, network
from infra.cluster.engine import Engine, EngineError
from infra.cluster.kind import Kind
from infra.cluster.lifecycle import BROKERS, NODES, Lifecycle, node_image
from infra.cluster.pulumi import Stack
from infra.cluster.record import Record
from infra.images.builder import Builder
from infra.settings.profiles import PROFILES
from infra.toolchain.prepare import Toolchain
from infra.toolchain.programs import DEPLOYING
from tests.unit.cluster.fake_kind import FakeKind, refusing
from tests.unit.toolchain.fake_programs import program

NO_TOOLCHAIN = cast(Toolchain, SimpleNamespace())


BUILDER = cast(Builder, SimpleNamespace(node=lambda: "node:1"))
NO_BUILDER = cast(Builder, SimpleNamespace(node=lambda: pytest.fail("built")))


def _cluster(ours: Lifecycle, kind: FakeKind, nodes: int = 1, brokers: int = 1, builder: Builder = BUILDER) -> None:
    ours._cluster(cast(Kind, kind), builder, nodes, brokers)


def test_a_profile_without_a_cluster_of_its_own_is_refused_before_anything_is_done(
    ours: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lifecycle, "tools", lambda _: pytest.fail("built"))
    with pytest.raises(
        EngineError, match="'production' has no cluster of its own; those that have: laptop, ci, chaos, brokers"
    ):
        ours.up(NO_TOOLCHAIN, "production")


def test_the_first_cluster_is_made_and_recorded_as_ready(ours: Lifecycle) -> None:
    kind = FakeKind()
    _cluster(ours, kind, 2)
    assert kind.done == ["create 2 from node:1"]
    assert Record.read(ours.state.record) == Record("ready", "node:1", 2)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """A published image is to be had, and ours must not be built; how the network was connected."""
    connected: dict[str, bool] = {}
    monkeypatch.setattr(node_image, "find_published", lambda *_: "kindest/node:1")
    monkeypatch.setattr(network, "connect", lambda *_, **how: connected.update(how))
    return connected


def test_a_published_node_image_is_used_as_it_is_and_none_is_built(ours: Lifecycle, published: dict[str, bool]) -> None:
    kind = FakeKind()
    _cluster(ours, kind, builder=NO_BUILDER)
    assert kind.done == ["create 1 from kindest/node:1, published"]
    assert published == {"published": True}
    assert Record.read(ours.state.record) == Record("ready", "kindest/node:1", 1, published=True)


def test_a_published_node_image_that_does_not_start_is_an_error_with_the_way_out(
    ours: Lifecycle, published: dict[str, bool], said: io.StringIO
) -> None:
    with pytest.raises(EngineError, match="kubelet is not running"):
        _cluster(ours, FakeKind(fails=True), builder=NO_BUILDER)
    assert f"{node_image.SETTING}=own" in said.getvalue()
    assert not ours.state.record.exists()


@pytest.mark.parametrize("first", ["kindest/node:1", None])
def test_a_cluster_stays_with_its_node_image_whatever_the_answer_is_later(
    first: str | None, ours: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = FakeKind()
    monkeypatch.setattr(node_image, "find_published", lambda *_: first)
    _cluster(ours, kind)
    made, record = list(kind.done), Record.read(ours.state.record)
    monkeypatch.setattr(node_image, "find_published", lambda *_: pytest.fail("a cluster that is there asks nobody"))
    _cluster(ours, kind)
    assert (kind.done, Record.read(ours.state.record)) == (made, record)


def test_a_node_image_that_was_asked_for_in_vain_is_refused_before_anything_is_changed(
    ours: Lifecycle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "checkout" / "Pulumi.laptop.yaml"
    settings.touch()
    Record("creating", "node:1", 1).write(ours.state.record)
    kind = FakeKind({"node0": "running"})
    monkeypatch.setattr(node_image, "find_published", refusing("cannot be used"))
    with pytest.raises(EngineError, match="cannot be used"):
        _cluster(ours, kind)
    assert kind.done == []
    assert settings.exists()


def test_while_it_is_being_made_the_record_says_so(ours: Lifecycle, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(network, "connect", killed)
    kind = FakeKind()
    with pytest.raises(KeyboardInterrupt):
        _cluster(ours, kind)
    assert Record.read(ours.state.record) == Record("creating", "node:1", 1)
    monkeypatch.setattr(network, "connect", lambda *_, **__: None)
    _cluster(ours, kind)
    assert kind.done == ["create 1 from node:1", "delete", "create 1 from node:1"]


def test_a_cluster_that_could_not_be_made_is_removed_with_its_record(ours: Lifecycle) -> None:
    kind = FakeKind(fails=True)
    with pytest.raises(EngineError, match="kubelet is not running"):
        _cluster(ours, kind)
    assert kind.done[-1] == "delete"
    assert not ours.state.record.exists()


def test_somebody_elses_cluster_is_neither_used_nor_deleted(ours: Lifecycle) -> None:
    kind = FakeKind({"node0": "running"})
    with pytest.raises(EngineError, match="kind delete cluster --name effectively-once") as caught:
        _cluster(ours, kind)
    assert str(ours.state.root) in str(caught.value)
    assert kind.done == []


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        ((1, 1), (2, 1), r"has 1 node\(s\) and this profile needs 2: `make down` first"),
        ((1, 3), (1, 1), r"with 3 Kafka broker\(s\) and this profile has 1.*`make down` first"),
    ],
)
def test_another_shape_is_refused_with_the_way_out(
    ours: Lifecycle, first: tuple[int, int], then: tuple[int, int], says: str
) -> None:
    kind = FakeKind()
    _cluster(ours, kind, *first)
    _cluster(ours, kind, *first)
    with pytest.raises(EngineError, match=says):
        _cluster(ours, kind, *then)
    assert kind.done == ["create 1 from node:1"]


def test_every_profile_has_the_brokers_that_its_cluster_is_made_for() -> None:
    assert {name: PROFILES[name]["kafka"].get("nodes", 1) for name in NODES} == {
        name: BROKERS.get(name, 1) for name in NODES
    }


def test_a_new_cluster_starts_without_what_pulumi_knew_of_the_former_one(ours: Lifecycle, tmp_path: Path) -> None:
    settings = tmp_path / "checkout" / "Pulumi.laptop.yaml"
    settings.write_text("of the former cluster")
    kind = FakeKind()
    _cluster(ours, kind)
    assert not settings.exists()
    settings.write_text("of this cluster")
    _cluster(ours, kind)
    assert settings.read_text() == "of this cluster"


def test_a_port_that_is_taken_is_named_before_anything_is_made(
    ours: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "require_ports", refusing("port 12092 on 127.0.0.1 is taken"))
    kind = FakeKind()
    with pytest.raises(EngineError, match="port 12092"):
        _cluster(ours, kind)
    assert kind.done == []
    assert not ours.state.record.exists()


@pytest.mark.parametrize(("asked", "set_before"), [(False, False), (True, False), (False, True)])
def test_up_goes_through_its_steps_with_one_builder(
    ours: Lifecycle, machine: Engine, monkeypatch: pytest.MonkeyPatch, *, asked: bool, set_before: bool
) -> None:
    """That of what watches is built where it is asked for, now or by the stack's settings."""
    kind = FakeKind()
    did = kind.done.append
    toolchain = cast(Toolchain, SimpleNamespace(wheel=SimpleNamespace(sha256="abc")))
    one = iter([SimpleNamespace(build_all=lambda: {"spark": "spark:1"}, node=lambda: "node:1", toolchain=toolchain)])
    built: dict[str, bool] = {}

    def builder(*_: object, **how: bool) -> object:
        built.update(how)
        return next(one)

    monkeypatch.setattr(lifecycle, "Builder", builder)
    monkeypatch.setattr(Stack, "is_watched", lambda _: set_before)
    monkeypatch.setattr(Lifecycle, "tools", lambda _: did("tools"))
    monkeypatch.setattr(Lifecycle, "kind", lambda *_: kind)
    monkeypatch.setattr(engines, "ensure", lambda *_: machine)
    monkeypatch.setattr(needs, "require_room", lambda *_: did("room"))
    monkeypatch.setattr(Stack, "select", lambda _, profile, *, monitoring: did(f"select {profile} {monitoring}"))
    monkeypatch.setattr(Stack, "up", lambda *_: did("pulumi up"))
    ours.up(toolchain, "chaos", monitoring=asked)
    selected = f"select chaos {asked}"
    assert kind.done == ["tools", "room", "create 2 from node:1", "load spark:1", selected, "pulumi up"]
    assert built == {"monitoring": asked or set_before}


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


@pytest.mark.parametrize(
    ("push", "reference", "pushed"),
    [
        ("", "spark:1", []),
        ("registry.example/team", "registry.example/team/spark:1@sha256:0a", ["registry.example/team/spark:1"]),
        ("registry.example/team/", "registry.example/team/spark:1@sha256:0a", ["registry.example/team/spark:1"]),
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
    needed: list[object] = []

    def tools(self: Lifecycle, names: object) -> None:
        self.state.make()
        needed.append(names)

    monkeypatch.setattr(Lifecycle, "tools", tools)
    done: list[Any] = []
    monkeypatch.setattr(Builder, "build_all", lambda self: {"spark": f"{self.prefix}spark:1"})
    monkeypatch.setattr(Builder, "sizes", lambda _, tags: dict.fromkeys(tags, 300 * 2**20))

    def put(_: Builder, tags: Iterable[str]) -> dict[str, str]:
        done.extend(tags)
        return {tag: f"{tag}@sha256:0a" for tag in tags}

    monkeypatch.setattr(Builder, "push", put)
    toolchain = cast(Toolchain, SimpleNamespace(wheel=SimpleNamespace(sha256="abc")))
    ours.show_images(toolchain, push, "")
    assert done == pushed
    assert needed == [DEPLOYING], "images for another cluster build nothing that makes one here"
    assert f"300 MiB  {reference}" in said.getvalue()
    written = ours.state.pushed_images if push else ours.state.images
    assert json.loads(written.read_text()) == {"spark": reference}
    # What the cluster of this machine runs does not change what others pull, nor the other way round.
    assert ours.state.images.exists() != bool(push)


def test_images_that_did_not_reach_the_registry_are_not_what_is_deployed(
    ours: Lifecycle, machine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Builder, "build_all", lambda _: {"spark": "registry.example/spark:1"})
    monkeypatch.setattr(Builder, "push", refusing("was not pushed"))
    with pytest.raises(EngineError, match="was not pushed"):
        ours.images(Builder(machine, ours.cache, NO_TOOLCHAIN, ours.console), push=True)
    assert not ours.state.pushed_images.exists()
