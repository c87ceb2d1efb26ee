"""What is done to the networks of pods: the scripts that run on a node, on a /proc and a firewall of plain files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from ipaddress import AddressValueError
from pathlib import Path
from typing import Any

import pytest

from infra.cluster.engine import Engine, EngineError
from infra.cluster.kind import Kind
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.nodes import Nodes
from tests.harness.adapters.pod_network import (
    INPUT,
    OUTPUT,
    Address,
    Netns,
    PodNetwork,
    endpoint_addresses,
    mark_of,
    packets,
    rules,
    service_addresses,
)
from tests.unit.harness.sleepers import soon
from tests.unit.toolchain.fake_programs import program

NODE, POD, OTHER = 1, 7001, 7002
"""Numbers of namespaces."""
# Runs here what it is asked to run on a node.
DOCKER = """
echo "$*" >>"$STATE/docker"
[ "$1" = exec ] || exit 1
if [ "$2" = --detach ]; then
  shift 3
  [ -e "$STATE/later" ] && { NETNS='net:[1]' "$@" >/dev/null 2>&1 & }
  exit 0
fi
shift 2
[ "$1" = ctr ] && { printf 'TASK PID STATUS\\nc-pod 11 RUNNING\\nc-node 12 RUNNING\\nc-stale 13 RUNNING\\n'; exit 0; }
NETNS=${NETNS:-net:[1]} exec "$@"
"""
NSENTER = """
path=${1#--net=}
shift
inside=$(/usr/bin/readlink "$path") || exit 1
[ -e "$STATE/reused" ] && inside='net:[1]'
NETNS=$inside exec "$@"
"""
READLINK = '[ "$1" = /proc/self/ns/net ] && { echo "$NETNS"; exit 0; }\nexec /usr/bin/readlink "$@"'
# A chain is a file of a namespace, a rule a line of it: packets, bytes and what it says.
IPTABLES = """
echo "$NETNS $*" >>"$STATE/iptables"
[ "$1 $2" = "-w 5" ] || exit 2
shift 2
[ -e "$STATE/refuse" ] && { echo "iptables: no chain by that name" >&2; exit 1; }
case "$1" in
  -I) chain=$2; shift 2; file="$STATE/$NETNS.$chain"; touch "$file"
      { echo "0 0 $*"; cat "$file"; } >"$file.new"; mv "$file.new" "$file" ;;
  -D) sed -i "${3}d" "$STATE/$NETNS.$2" ;;
  -n) file="$STATE/$NETNS.$5"; touch "$file"
      echo "Chain $5 (policy ACCEPT 12 packets, 900 bytes)"
      echo "num      pkts      bytes target     prot opt in     out     source               destination"
      number=0
      while read -r many bytes rest; do
        number=$((number + 1)) said=${rest#*--comment }
        printf '%s      %10s %10s DROP       all  --  *      *       10.0.0.9    0.0.0.0/0   /* %s */\\n' \\
          "$number" "$many" "$bytes" "${said%% *}"
      done <"$file" ;;
  *) exit 3 ;;
esac
"""


class World:
    """A node that is this machine, with processes, namespaces and rules in files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.proc = folder / "state", folder / "proc"
        self.state.mkdir()
        tools = folder / "bin"
        for name, body in {"docker": DOCKER, "nsenter": NSENTER, "readlink": READLINK, "iptables": IPTABLES}.items():
            program(tools, name, body)
        monkeypatch.setenv("STATE", str(self.state))
        monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
        self.process(1, NODE, "init")
        self.process(11, POD, "c-pod")
        self.process(12, NODE, "c-node")
        self.process(13, OTHER, "c-another")
        kind = Kind(Path("kind"), Engine(tools / "docker", None), Path("kubeconfig"), Path("log"))
        self.network = PodNetwork(Nodes(kind, None), str(self.proc))  # type: ignore[arg-type]

    def process(self, pid: int, number: int, group: str) -> None:
        folder = self.proc / str(pid)
        (folder / "ns").mkdir(parents=True)
        (folder / "ns" / "net").symlink_to(f"net:[{number}]")
        (folder / "cgroup").write_text(f"0::/kubelet/kubepods/pod1/{group}\n")

    def end(self, pid: int) -> None:
        (self.proc / str(pid) / "ns" / "net").unlink()

    def chain(self, number: int, name: str) -> list[str]:
        file = self.state / f"net:[{number}].{name}"
        return file.read_text().splitlines() if file.exists() else []

    def hit(self, number: int, name: str, *counts: int) -> None:
        """Let the rules of a chain drop so many packets."""
        file, lines = self.state / f"net:[{number}].{name}", self.chain(number, name)
        changed = [f"{count} {count * 60} {line.split(' ', 2)[2]}" for count, line in zip(counts, lines, strict=True)]
        file.write_text("".join(f"{line}\n" for line in changed))

    @property
    def asked(self) -> list[str]:
        """What iptables was asked for, with the namespace it ran in."""
        file = self.state / "iptables"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


PEER = [Address("10.96.0.12"), Address("10.244.1.7")]
MARK = mark_of("r-20261122-1", 3)
WANTED = rules(PEER, (INPUT, OUTPUT), MARK)
BOTH = pytest.mark.parametrize("number", [POD, NODE], ids=["of a pod", "of a node"])


def find_netns(world: World, number: int) -> Netns:
    return world.network.of("n", "c-pod") if number == POD else world.network.of_node("n")


def test_a_rule_drops_what_comes_from_a_peer_or_goes_to_it_and_names_the_run() -> None:
    assert rules(PEER, (INPUT, OUTPUT), "m-1") == [
        "-I INPUT -s 10.96.0.12 -m comment --comment m-1 -j DROP",
        "-I INPUT -s 10.244.1.7 -m comment --comment m-1 -j DROP",
        "-I OUTPUT -d 10.96.0.12 -m comment --comment m-1 -j DROP",
        "-I OUTPUT -d 10.244.1.7 -m comment --comment m-1 -j DROP",
    ]
    assert rules([Address("10.96.0.1", 443)], (INPUT,), "m-1") == [
        "-I INPUT -s 10.96.0.1 -p tcp --sport 443 -m comment --comment m-1 -j DROP"
    ]
    assert rules([Address("10.96.0.1", 443)], (OUTPUT,), "m-1") == [
        "-I OUTPUT -d 10.96.0.1 -p tcp --dport 443 -m comment --comment m-1 -j DROP"
    ]
    assert mark_of("R_2026/11", 3) == "effectively-once-cut-r-2026-11-3"


@pytest.mark.parametrize("text", ["10.0.0.1 -j ACCEPT", "0.0.0.0/0", "fd00::1", "", "$(reboot)"])
def test_what_is_no_address_gets_into_no_rule(text: str) -> None:
    with pytest.raises(AddressValueError):
        Address(text)


def test_a_pods_network_is_that_of_its_containers_process(world: World) -> None:
    assert world.network.of("n", "c-pod") == Netns("n", POD)


@pytest.mark.parametrize(
    ("container", "why"),
    [("c-node", "the network of the node"), ("c-stale", "process 13 is gone"), ("c-none", "does not run")],
)
def test_who_has_the_nodes_network_or_another_process_by_now_is_not_cut_off(
    world: World, container: str, why: str
) -> None:
    with pytest.raises(NoProcessError, match=why):
        world.network.of("n", container)


@BOTH
def test_rules_are_made_in_the_namespace_that_is_meant_counted_and_removed(world: World, number: int) -> None:
    netns = find_netns(world, number)
    world.network.drop(netns, WANTED, MARK, 600)
    for chain, option in ((INPUT, "-s"), (OUTPUT, "-d")):
        last_first = [f"0 0 {option} {one.ip} -m comment --comment {MARK} -j DROP" for one in PEER[::-1]]
        assert world.chain(number, chain) == last_first
    world.hit(number, INPUT, 2, 3)
    world.hit(number, OUTPUT, 4, 0)
    assert world.network.count(netns, MARK) == {INPUT: 5, OUTPUT: 4}
    assert world.network.remove(netns, MARK) == {INPUT: 5, OUTPUT: 4}
    assert world.chain(number, INPUT) == world.chain(number, OUTPUT) == []
    assert world.network.remove(netns, MARK) == {}
    assert {line.split()[0] for line in world.asked} == {f"net:[{number}]"}, "nowhere else"


def test_rules_of_others_stay_and_are_not_counted(world: World) -> None:
    netns = world.network.of("n", "c-pod")
    other = rules(PEER[:1], (INPUT,), mark_of("r-1", 31))
    mine = rules(PEER, (INPUT,), mark_of("r-1", 3))
    for wanted, mark in ((other, mark_of("r-1", 31)), (mine, mark_of("r-1", 3)), (other, mark_of("r-1", 31))):
        world.network.drop(netns, wanted, mark, 600)
    world.hit(POD, INPUT, 100, 1, 1, 100)
    assert world.network.remove(netns, mark_of("r-1", 3)) == {INPUT: 2}
    assert [line.split()[0] for line in world.chain(POD, INPUT)] == ["100", "100"]


def test_a_namespace_is_found_after_the_container_was_started_again(world: World) -> None:
    netns = world.network.of("n", "c-pod")
    world.network.drop(netns, WANTED, MARK, 600)
    world.end(11)
    world.process(21, POD, "its sandbox")
    world.hit(POD, INPUT, 7, 0)
    assert world.network.remove(netns, MARK) == {INPUT: 7, OUTPUT: 0}
    assert world.chain(POD, INPUT) == []


def test_a_node_with_the_network_of_this_machine_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETNS", str(Path("/proc/self/ns/net").readlink()))
    with pytest.raises(NoProcessError, match="node n has the network of this machine"):
        world.network.of_node("n")
    assert world.asked == []


@pytest.mark.parametrize(
    ("number", "change", "why"),
    [
        (POD, lambda it: it.end(11), f"network {POD} on node n cannot be cut: gone"),
        # Between the search and the entry the process may have ended, and its number belong to one of the node.
        (POD, lambda it: (it.state / "reused").touch(), "cannot be cut: gone"),
        (NODE, lambda _: None, "cannot be cut: own"),
    ],
    ids=["the pod is gone", "its number was given out anew on the way", "the node's own, whoever asks for it"],
)
def test_nothing_is_done_in_another_namespace(
    world: World, number: int, change: Callable[[World], object], why: str
) -> None:
    netns = world.network.of("n", "c-pod") if number == POD else Netns("n", NODE)
    change(world)
    with pytest.raises(NoProcessError, match=why):
        world.network.drop(netns, WANTED, MARK, 600)
    assert (world.network.count(netns, MARK), world.network.remove(netns, MARK)) == (None, None)
    assert world.asked == []


def test_a_rule_that_is_refused_is_an_error_that_says_why(world: World) -> None:
    netns = world.network.of("n", "c-pod")
    (world.state / "refuse").touch()
    with pytest.raises(EngineError, match="no chain by that name"):
        world.network.drop(netns, WANTED, MARK, 600)
    with pytest.raises(EngineError, match="no chain by that name"):
        world.network.remove(netns, MARK)


@BOTH
def test_the_node_removes_what_nobody_does(world: World, number: int) -> None:
    (world.state / "later").touch()
    world.network.drop(find_netns(world, number), WANTED, MARK, 0.5)
    assert len(world.chain(number, INPUT)) == len(PEER)
    soon("the rules to be gone", lambda: not world.chain(number, INPUT) and not world.chain(number, OUTPUT))


def test_what_a_killed_run_left_is_removed_from_node_and_pods_and_nothing_else(world: World) -> None:
    def leave(netns: Netns, chain: str, run: str) -> None:
        world.network.drop(netns, rules(PEER[:1], (chain,), mark_of(run, 12)), mark_of(run, 12), 600)

    world.process(14, POD, "another of the pod")
    leave(Netns("n", POD), INPUT, "r-7")
    leave(Netns("n", OTHER), INPUT, "r-7")
    leave(Netns("n", POD), OUTPUT, "r-8-9")
    leave(world.network.of_node("n"), INPUT, "r-9")
    foreign = "5 300 -s 10.0.0.1 -m comment --comment kube-proxy -j DROP"
    for number in (POD, NODE):
        with (world.state / f"net:[{number}].{INPUT}").open("a") as rules_there:
            rules_there.write(f"{foreign}\n")
    assert world.network.sweep("n") == {"r-7": 2, "r-8-9": 1, "r-9": 1}
    assert world.chain(POD, INPUT) == world.chain(NODE, INPUT) == [foreign]
    assert world.chain(POD, OUTPUT) == world.chain(OTHER, INPUT) == []
    assert world.network.sweep("n") == {}


def test_packets_are_counted_by_chain() -> None:
    listed = "INPUT 1 12 720 DROP all\nINPUT 2 3 90 DROP all\nOUTPUT 1 0 0 DROP tcp\ncounted"
    assert packets(listed) == {INPUT: 15, OUTPUT: 0}
    assert packets("counted") == {}


def test_who_asks_by_the_name_of_a_service_and_who_by_that_of_a_pod_are_both_cut_off() -> None:
    pod = {"metadata": {"labels": {"app": "kafka", "component": "broker"}}, "status": {"podIP": "10.244.1.7"}}

    def service(ip: str | None, **selector: str) -> dict[str, Any]:
        return {"spec": {"clusterIP": ip, "selector": selector}}

    services = [
        service("10.96.0.12", app="kafka"),
        service("10.96.0.13", app="kafka", component="broker"),
        service("None", app="kafka"),
        service(None, app="kafka"),
        service("10.96.0.14", app="minio"),
        service("10.96.0.15"),
        service("10.96.0.16", app="kafka", component="controller"),
        {"spec": {}},
    ]
    found = [one.ip for one in service_addresses(pod, services)]
    assert found == ["10.244.1.7", "10.96.0.12", "10.96.0.13"]
    assert service_addresses({"metadata": {}, "status": {}}, services) == []


def test_of_the_api_server_its_port_is_meant_before_the_service_and_behind_it() -> None:
    service = {"spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 443}]}}
    slices = [{"endpoints": [{"addresses": ["172.20.0.2"]}, {"addresses": None}], "ports": [{"port": 6443}]}]
    assert endpoint_addresses(service, slices) == [Address("10.96.0.1", 443), Address("172.20.0.2", 6443)]


def test_no_script_is_torn_by_its_quotes(world: World) -> None:
    """A shell reads every one of them to its end."""
    from tests.harness.adapters import pod_network as scripts  # noqa: PLC0415

    for name in ("ENTER", "FIND", "SWEEP", "DROP", "COUNT", "REMOVE"):
        text = getattr(scripts, name)
        text = text.format(proc="/proc", node=0) if "{proc}" in text else text
        subprocess.run(["sh", "-n", "-c", text], check=True)
