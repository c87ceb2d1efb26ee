"""What is done inside kind's nodes: on real processes where they can be had, else by the words that reach docker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from infra.cluster.api import Reader
from infra.cluster.engine import Engine, EngineError
from infra.cluster.kind import Kind
from infra.cluster.record import Record
from infra.console import Console
from infra.embedded.process import Child
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.nodes import CONTROL_PLANE, Nodes
from tests.unit.cluster.fake_engine import FakeDocker
from tests.unit.harness.sleepers import sleeper, soon, state_of
from tests.unit.toolchain.fake_programs import program

# Runs here what it is asked to run in a node.
HERE = """
[ "$1" = exec ] || exit 1
if [ "$2" = --detach ]; then shift 3; setsid "$@" >/dev/null 2>&1 & exit 0; fi
shift 2
exec "$@"
"""
TASKS = """TASK PID STATUS
aaaa 812 RUNNING
bbbb 813 STOPPED
"""


def node(name: str, address: str, pods: str, **labels: str) -> dict[str, Any]:
    """A node as the API tells it."""
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        "spec": {"podCIDR": pods},
    }


NODES = {
    "items": [
        node("one", "172.20.0.2", "10.244.0.0/24", **{CONTROL_PLANE: ""}),
        node("two", "172.20.0.3", "10.244.1.0/24"),
    ]
}


class FakeApi:
    """Answers by path; what it was asked."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, dict[str, dict[str, str]]()

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked[path] = query
        return self.answers[path.rpartition("/")[2]]


def nodes_on(docker: Path, *, published: bool = False, notes: str = "/run", **answers: dict[str, Any]) -> Nodes:
    kind = Kind(Path("kind"), Engine(docker, None), Path("kubeconfig"), Path("log"))
    return Nodes(kind, FakeApi(nodes=NODES, **answers), published, notes)  # type: ignore[arg-type]


@pytest.mark.parametrize("record", [None, Record("ready", "image", 1)])
@pytest.mark.parametrize("engine", [None, Engine(Path("docker"), None)])
def test_nodes_are_those_of_a_cluster_made_here_whose_engine_runs(
    record: Record | None, engine: Engine | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "tests.harness.adapters.nodes."
    monkeypatch.setattr(f"{where}Record.read", lambda _: record)
    monkeypatch.setattr(f"{where}engines.running", lambda: engine)
    asked: list[object] = []
    lifecycle = SimpleNamespace(kind=asked.append)
    monkeypatch.setattr("infra.cluster.lifecycle.Lifecycle.here", lambda _: lifecycle)
    found = Nodes.here(cast("Reader", None), cast("Console", None))
    assert (found is not None) is (record is not None and engine is not None)
    assert asked == [engine] * (found is not None)


@pytest.fixture
def here(tmp_path: Path) -> Nodes:
    program(tmp_path / "here", "docker", HERE)
    return nodes_on(tmp_path / "here" / "docker", notes=str(tmp_path))


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Child]]:
    made = [sleeper(tmp_path, name=name) for name in ("a", "b")]
    yield made
    for one in made:
        one.kill()


def groups_of(children: list[Child]) -> dict[int, str]:
    """Control group of each, in the place of its container's id."""
    return {one.pid: Path(f"/proc/{one.pid}/cgroup").read_text().splitlines()[0].partition(":")[2] for one in children}


def stands(child: Child) -> bool:
    return bool(state_of(child.pid) == psutil.STATUS_STOPPED)


def test_processes_stand_still_together_and_go_on(here: Nodes, two: list[Child]) -> None:
    here.stop("node", groups_of(two), 10)
    assert all(map(stands, two))
    here.resume("node", groups_of(two))
    here.resume("node", groups_of(two))
    assert not any(map(stands, two))


def test_the_node_itself_continues_what_nobody_does(here: Nodes, two: list[Child]) -> None:
    here.stop("node", groups_of(two), 0.6)
    assert all(map(stands, two))
    soon("them to go on", lambda: not any(map(stands, two)))


def test_what_was_continued_is_not_continued_again_in_the_next_fault(here: Nodes, two: list[Child]) -> None:
    groups = groups_of(two)
    here.stop("node", groups, 0.9)
    here.resume("node", groups)
    here.stop("node", groups, 10)
    began = time.monotonic()
    while time.monotonic() < began + 1.5:
        assert all(map(stands, two))
        time.sleep(0.05)
    here.resume("node", groups)


def test_a_number_that_belongs_to_another_container_is_not_stopped(here: Nodes, two: list[Child]) -> None:
    with pytest.raises(NoProcessError, match=f"gone {two[1].pid}"):
        here.stop("node", {**groups_of(two), two[1].pid: "0123456789abcdef"}, 1)
    assert not any(map(stands, two)), "all or none"


def test_what_has_ended_is_continued_without_complaint(here: Nodes, two: list[Child]) -> None:
    groups = groups_of(two)
    here.stop("node", groups, 10)
    two[0].kill()
    here.resume("node", groups)
    assert not stands(two[1])


def test_the_process_of_a_container_is_the_one_of_the_runtime(docker: FakeDocker) -> None:
    docker.answers({'"exec n ctr"*ls': f"printf '{TASKS}'"})
    nodes = nodes_on(docker.path)
    assert nodes.process("n", "aaaa") == 812
    for other in ("bbbb", "cccc"):
        with pytest.raises(NoProcessError, match=f"container {other} does not run"):
            nodes.process("n", other)


def test_workers_are_the_nodes_without_a_control_plane(docker: FakeDocker) -> None:
    assert nodes_on(docker.path).workers() == ["two"]


def test_pods_on_a_node_are_those_that_have_not_ended(docker: FakeDocker) -> None:
    pods = {
        "items": [
            {
                "metadata": {"name": name, "uid": "u"},
                "spec": {"containers": [{"name": "c"}]},
                "status": {"phase": phase},
            }
            for name, phase in (("a", "Running"), ("b", "Failed"), ("c", "Pending"), ("d", "Succeeded"))
        ]
    }
    nodes = nodes_on(docker.path, pods=pods)
    assert [one.name for one in nodes.pods_on("two", "x=y")] == ["a", "c"]
    assert nodes.reader.asked["/api/v1/pods"] == {"labelSelector": "x=y", "fieldSelector": "spec.nodeName=two"}  # type: ignore[attr-defined]


def test_a_node_that_is_back_finds_the_pods_of_the_others(docker: FakeDocker) -> None:
    docker.answers({'"exec two hostname"*': "echo '172.20.0.3 10.244.1.1'"})
    nodes = nodes_on(docker.path)
    nodes.crash("two")
    nodes.start("two")
    assert [one for one in docker.calls if "hostname" not in one] == [
        "kill two",
        "start two",
        "exec two ip route replace 10.244.0.0/24 via 172.20.0.2",
        "exec two iptables -I STRAY -d 10.244.0.0/24 -j RETURN",
    ]


def test_a_node_that_comes_back_with_another_address_is_no_node_of_that_cluster(docker: FakeDocker) -> None:
    docker.answers({'"exec two hostname"*': "echo '172.20.0.4'"})
    with pytest.raises(EngineError, match=r"without its address 172\.20\.0\.3"):
        nodes_on(docker.path).start("two")


def test_kinds_own_image_lays_its_network_itself(docker: FakeDocker) -> None:
    nodes_on(docker.path, published=True).start("two")
    assert docker.calls == ["start two"]
