"""Every node gets its own range, the way to every other node's pods, and a deadline with evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.cluster import network
from infra.cluster.engine import Engine, EngineError
from infra.cluster.kind import Kind
from infra.cluster.kubectl import Kubectl
from infra.cluster.network import Node, connect, routes
from infra.console import Console
from tests.unit.cluster.fake_engine import FakeDocker
from tests.unit.toolchain.fake_programs import program

NODES = {
    "control-plane": Node("172.18.0.2", "10.244.0.0/24"),
    "worker": Node("172.18.0.3", "10.244.1.0/24"),
    "worker2": Node("172.18.0.4", "10.244.2.0/24"),
}


def test_a_node_has_a_way_to_every_other_nodes_pods_and_none_to_its_own() -> None:
    assert routes("worker", NODES) == [
        ["ip", "route", "replace", "10.244.0.0/24", "via", "172.18.0.2"],
        ["iptables", "-I", "STRAY", "-d", "10.244.0.0/24", "-j", "RETURN"],
        ["ip", "route", "replace", "10.244.2.0/24", "via", "172.18.0.4"],
        ["iptables", "-I", "STRAY", "-d", "10.244.2.0/24", "-j", "RETURN"],
    ]


def test_a_single_node_needs_no_route() -> None:
    assert routes("control-plane", {"control-plane": NODES["control-plane"]}) == []


def test_the_chain_that_lets_pods_through_is_the_one_that_the_node_makes() -> None:
    script = Path(network.__file__).parents[2] / "images" / "node" / "scripts" / "node-blackhole"
    chain = routes("worker", NODES)[1][2]
    assert f"iptables -N {chain}" in script.read_text()


def _item(name: str, address: str, pods: str | None) -> dict[str, Any]:
    spec = {"podCIDR": pods} if pods else {}
    addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
    return {"metadata": {"name": name}, "spec": spec, "status": {"addresses": addresses}}


@pytest.fixture
def kind(machine: Engine, tmp_path: Path) -> Kind:
    return Kind(tmp_path / "kind", machine, tmp_path / "kubeconfig", tmp_path / "kind.log")


def _kubectl(tmp_path: Path, items: list[dict[str, Any]], waiting: str = "exit 0") -> Kubectl:
    (tmp_path / "nodes.json").write_text(json.dumps({"items": items}))
    cases = f'*get?nodes*) cat {tmp_path / "nodes.json"} ;; *get?pods*) echo "coredns Pending" ;; *) {waiting} ;;'
    script = f'echo "$*" >>{tmp_path / "kubectl-calls"}; case "$*" in {cases} esac'
    return Kubectl(program(tmp_path / "bin", "kubectl", script), tmp_path / "kubeconfig")


def test_every_node_is_given_its_network_before_readiness_is_waited_for(
    kind: Kind, docker: FakeDocker, console: Console, tmp_path: Path
) -> None:
    docker.answers({"ps*": "echo 'one running'; echo 'two running'", "*/dev/stdin*": f"cat >>{tmp_path / 'written'}"})
    items = [_item("one", "172.18.0.2", "10.244.0.0/24"), _item("two", "172.18.0.3", "10.244.1.0/24")]
    connect(kind, _kubectl(tmp_path, items), console)
    written = (tmp_path / "written").read_text()
    assert "10.244.0.0/24" in written
    assert "10.244.1.0/24" in written
    assert f"exec -i one cp /dev/stdin {network.CONFLIST}" in docker.calls
    assert "exec two ip route replace 10.244.0.0/24 via 172.18.0.2" in docker.calls
    waited = (tmp_path / "kubectl-calls").read_text().splitlines()[1:]
    assert [word for call in waited for word in ("condition=Ready", "deployment/coredns") if word in call] == [
        "condition=Ready",
        "deployment/coredns",
    ]
    assert all("--timeout=" in call for call in waited)


def test_nodes_that_bring_a_network_are_only_waited_for(
    kind: Kind, docker: FakeDocker, console: Console, tmp_path: Path
) -> None:
    connect(kind, _kubectl(tmp_path, []), console, published=True)
    assert docker.calls == []
    waited = (tmp_path / "kubectl-calls").read_text()
    assert "condition=Ready" in waited
    assert "deployment/coredns" in waited
    failing = _kubectl(tmp_path, [], "echo 'timed out waiting' >&2; exit 1")
    with pytest.raises(EngineError, match="nodes ready: timed out waiting"):
        connect(kind, failing, console, published=True)


@pytest.mark.parametrize(
    "items",
    [[_item("one", "172.18.0.2", "10.244.0.0/24")], [_item(name, "172.18.0.2", None) for name in ("one", "two")]],
    ids=["a node is missing", "a node has no range"],
)
def test_nodes_that_never_get_a_range_are_reported_as_they_are(
    *,
    items: list[dict[str, Any]],
    kind: Kind,
    docker: FakeDocker,
    console: Console,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "RANGES_S", 0.0)
    docker.answers({"ps*": "echo 'one running'; echo 'two running'"})
    with pytest.raises(EngineError, match="no range for pods") as caught:
        connect(kind, _kubectl(tmp_path, items), console)
    assert "172.18.0.2" in str(caught.value)


def test_nodes_that_do_not_become_ready_are_reported_with_the_pods(
    kind: Kind, docker: FakeDocker, console: Console, tmp_path: Path
) -> None:
    docker.answers({"ps*": "echo 'one running'"})
    kubectl = _kubectl(tmp_path, [_item("one", "172.18.0.2", "10.244.0.0/24")], "echo 'timed out waiting' >&2; exit 1")
    with pytest.raises(EngineError, match=r"(?s)nodes ready: timed out waiting.*coredns Pending"):
        connect(kind, kubectl, console)


def test_a_refused_command_is_reported_with_what_kubectl_said(tmp_path: Path) -> None:
    kubectl = Kubectl(program(tmp_path, "kubectl", "echo 'connection refused' >&2; exit 1"), tmp_path / "kubeconfig")
    with pytest.raises(EngineError, match=r"^kubectl get nodes --output: connection refused$"):
        kubectl.run("get", "nodes", "--output", "json")


def test_kubectl_uses_the_kubeconfig_it_was_given(tmp_path: Path) -> None:
    kubectl = Kubectl(program(tmp_path, "kubectl", 'echo "$1 $2"'), tmp_path / "kubeconfig")
    assert kubectl.run("get", "nodes") == f"--kubeconfig {tmp_path / 'kubeconfig'}\n"
