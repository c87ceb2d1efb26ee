"""The cluster's configuration, and what is made of docker's and kind's answers."""

from __future__ import annotations

import io
import ipaddress
import json
from pathlib import Path

import pytest
import yaml

from infra.cluster.engine import Engine, EngineError
from infra.cluster.firewall import BRIDGE
from infra.cluster.kind import API_PORT, NAME, POD_RANGE, PORTS, SERVICE_RANGE, Kind, configuration, pod_network
from infra.console import Console
from infra.embedded.ports import LOWEST, below_ephemeral
from infra.settings.exposure import NODE_PORTS, OUTSIDE
from infra.versions import COREDNS, ETCD
from tests.unit.cluster.fake_engine import FakeDocker
from tests.unit.toolchain.fake_programs import program


def _patches(node: dict[str, object]) -> dict[str, dict[str, object]]:
    patches = node["kubeadmConfigPatches"]
    assert isinstance(patches, list)
    return {one["kind"]: one for one in map(yaml.safe_load, patches)}


@pytest.mark.parametrize("nodes", [1, 2])
def test_there_are_as_many_nodes_as_asked_for_and_one_control_plane(nodes: int) -> None:
    roles = [node["role"] for node in configuration(nodes)["nodes"]]
    assert roles == ["control-plane", *["worker"] * (nodes - 1)]


def test_nothing_is_published_but_on_loopback() -> None:
    made = configuration(2)
    assert made["networking"]["apiServerAddress"] == "127.0.0.1"
    assert made["networking"]["apiServerPort"] == API_PORT
    first, second = made["nodes"]
    assert {one["listenAddress"] for one in first["extraPortMappings"]} == {"127.0.0.1"}
    assert {one["hostPort"]: one["containerPort"] for one in first["extraPortMappings"]} == PORTS
    assert "extraPortMappings" not in second


def test_published_ports_are_those_that_the_settings_of_the_platform_name() -> None:
    published = {OUTSIDE[name] + node: NODE_PORTS[name] + node for name in OUTSIDE for node in range(3)}
    assert {port: published[port] for port in PORTS} == PORTS
    assert {*OUTSIDE.values(), OUTSIDE["kafka"] + 1, OUTSIDE["kafka"] + 2} == {*PORTS}
    assert all(30000 <= inside <= 32767 for inside in PORTS.values())


def test_published_ports_are_in_the_way_of_no_outgoing_connection_and_no_embedded_stack() -> None:
    assert all(1024 <= outside < LOWEST for outside in (API_PORT, *PORTS))
    assert below_ephemeral("32768 60999").stop > LOWEST


def test_pods_and_services_have_ranges_of_their_own() -> None:
    networking = configuration(1)["networking"]
    assert (networking["podSubnet"], networking["serviceSubnet"]) == (POD_RANGE, SERVICE_RANGE)
    assert not ipaddress.ip_network(POD_RANGE).overlaps(ipaddress.ip_network(SERVICE_RANGE))


def test_our_node_image_brings_its_images_and_its_pod_network() -> None:
    made = configuration(2)
    assert made["networking"]["disableDefaultCNI"] is True
    first, second = map(_patches, made["nodes"])
    cluster = first["ClusterConfiguration"]
    assert "apiVersion" not in cluster
    assert str(cluster["imageRepository"]).endswith(".local")
    assert cluster["etcd"] == {"local": {"imageTag": ETCD}}
    assert cluster["dns"] == {"imageTag": f"v{COREDNS}"}
    assert set(second) == {"KubeletConfiguration"}
    assert first["KubeletConfiguration"] == second["KubeletConfiguration"]
    assert first["KubeletConfiguration"]["cgroupDriver"] == "cgroupfs", "as containerd of the image does"


def test_kinds_own_node_image_keeps_its_network_images_and_groups_of_processes() -> None:
    made = configuration(1, published=True)
    assert made["networking"]["disableDefaultCNI"] is False
    patches = _patches(made["nodes"][0])
    assert set(patches) == {"KubeletConfiguration"}
    assert "cgroupDriver" not in patches["KubeletConfiguration"], "kind's is the one of systemd, by default too"
    assert patches["KubeletConfiguration"]["failCgroupV1"] is False


def test_the_control_plane_takes_pods_also_where_there_are_workers() -> None:
    assert _patches(configuration(2)["nodes"][0])["InitConfiguration"]["nodeRegistration"] == {"taints": []}
    # kind opens a single node itself, and fails when it finds nothing to do.
    assert "InitConfiguration" not in _patches(configuration(1)["nodes"][0])


def test_the_pod_network_of_a_node_gives_addresses_of_its_own_range() -> None:
    made = json.loads(pod_network("10.244.1.0/24"))
    bridge, _ = made["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]
    # Linux cuts names of interfaces at 15 characters.
    assert len(bridge["bridge"]) <= 15
    assert bridge["bridge"] != BRIDGE
    assert len(BRIDGE) <= 15


@pytest.fixture
def kind(machine: Engine, tmp_path: Path) -> Kind:
    body = f'echo "$*" >>{tmp_path / "kind-calls"}; echo "$KIND_EXPERIMENTAL_DOCKER_NETWORK $KUBECONFIG" '
    said = program(tmp_path / "bin", "kind", f"{body} >{tmp_path / 'kind-env'}; cat >{tmp_path / 'kind-in'}")
    return Kind(said, machine, tmp_path / "kubeconfig", tmp_path / "kind.log")


def test_nodes_are_read_with_their_states(kind: Kind, docker: FakeDocker) -> None:
    docker.answers({"ps*": f"echo '{NAME}-control-plane running'; echo '{NAME}-worker exited'"})
    assert kind.nodes() == {f"{NAME}-control-plane": "running", f"{NAME}-worker": "exited"}
    assert f"label=io.x-k8s.kind.cluster={NAME}" in docker.calls[-1]
    assert "--all" in docker.calls[-1]


@pytest.mark.parametrize("published", [False, True])
def test_a_cluster_is_made_on_a_network_of_its_own_from_the_image(
    kind: Kind, docker: FakeDocker, console: Console, tmp_path: Path, *, published: bool
) -> None:
    kind.create("node:1", 2, console, published=published)
    assert any(f"bridge.name={BRIDGE}" in call and call.startswith("network create") for call in docker.calls)
    (call,) = (tmp_path / "kind-calls").read_text().splitlines()
    assert call.startswith(f"create cluster --name {NAME} --image node:1 --config -")
    assert yaml.safe_load((tmp_path / "kind-in").read_text()) == configuration(2, published=published)
    assert (tmp_path / "kind-env").read_text() == f"{NAME} {tmp_path / 'kubeconfig'}\n"


def test_a_network_that_is_there_is_made_anew_with_our_bridge(kind: Kind, docker: FakeDocker, console: Console) -> None:
    docker.answers({"network?ls*": f"echo {NAME}"})
    kind.create("node:1", 1, console)
    removed = docker.calls.index(f"network rm {NAME}")
    assert any(call.startswith("network create") for call in docker.calls[removed:])


def test_a_cluster_that_cannot_be_made_is_reported_with_the_end_of_kinds_log(
    kind: Kind, console: Console, tmp_path: Path
) -> None:
    program(tmp_path / "bin", "kind", "echo 'ERROR: kubelet is not running'; exit 1")
    with pytest.raises(EngineError, match="kubelet is not running") as caught:
        kind.create("node:1", 1, console)
    assert str(kind.log) in str(caught.value)


def test_deleting_takes_cluster_network_and_kubeconfig(kind: Kind, docker: FakeDocker, tmp_path: Path) -> None:
    docker.answers({"ps*": f"echo '{NAME}-control-plane running'", "network?ls*": f"echo {NAME}"})
    kind.kubeconfig.write_text("secret")
    assert kind.delete()
    assert f"delete cluster --name {NAME}" in (tmp_path / "kind-calls").read_text()
    assert docker.calls[-1] == f"network rm {NAME}"
    assert not kind.kubeconfig.exists()


def test_deleting_what_is_not_there_is_no_failure(kind: Kind, docker: FakeDocker) -> None:
    assert not kind.delete()
    assert not [call for call in docker.calls if call.startswith("network rm")]


def test_a_refused_deletion_is_reported_and_the_kubeconfig_stays(kind: Kind, tmp_path: Path) -> None:
    program(tmp_path / "bin", "kind", "echo 'device busy' >&2; exit 1")
    kind.kubeconfig.touch()
    with pytest.raises(EngineError, match="device busy"):
        kind.delete()
    assert kind.kubeconfig.exists()


LISTED = "echo docker.io/library/effectively-once-spark:1; echo effectively-once.local/pause:3; echo reg.example/x:2"


def test_images_on_a_node_have_the_names_that_the_engine_gives_them(kind: Kind, docker: FakeDocker) -> None:
    docker.answers({"*images?ls*": LISTED})
    assert kind.images_on("node") == {"effectively-once-spark:1", "effectively-once.local/pause:3", "reg.example/x:2"}


def test_only_images_that_a_node_lacks_are_brought_to_it(
    kind: Kind, docker: FakeDocker, console: Console, said: io.StringIO, tmp_path: Path
) -> None:
    docker.answers(
        {
            "ps*": "echo 'one running'; echo 'two running'",
            "*one*images?ls*": LISTED,
            "*two*images?ls*": "echo docker.io/library/effectively-once-kafka:1; " + LISTED,
            "save*": "echo layers",
            "*one*import*": f"cat >{tmp_path / 'one'}",
            "*two*import*": "exit 9",
        }
    )
    kind.load(["effectively-once-spark:1", "effectively-once-kafka:1"], console)
    assert [call for call in docker.calls if call.startswith("save")] == ["save effectively-once-kafka:1"]
    assert (tmp_path / "one").read_text() == "layers\n"
    assert "load 1 images into one" in said.getvalue()
    assert "two" not in said.getvalue()
    assert len([call for call in docker.calls if "images ls" in call]) == 2


@pytest.mark.parametrize(
    "failing", [{"*import*": "cat >/dev/null; echo 'no space left' >&2; exit 1"}, {"save*": "exit 1"}]
)
def test_images_that_did_not_arrive_are_reported(
    kind: Kind, docker: FakeDocker, console: Console, failing: dict[str, str]
) -> None:
    docker.answers({"ps*": "echo 'one running'", **failing, "*import*": failing.get("*import*", "cat >/dev/null")})
    with pytest.raises(EngineError, match="not loaded into one"):
        kind.load(["effectively-once-kafka:1"], console)


def test_a_saver_whose_reader_died_does_not_hang(kind: Kind, docker: FakeDocker, console: Console) -> None:
    docker.answers({"ps*": "echo 'one running'", "save*": "exec yes", "*import*": "echo 'gone' >&2; exit 1"})
    with pytest.raises(EngineError, match="gone"):
        kind.load(["effectively-once-kafka:1"], console)
