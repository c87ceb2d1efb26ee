"""Faults of servers in pods: what is asked of the cluster, what counts as back, and what is undone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import DELETE_NOW, SIGKILL, NoProcessError
from tests.harness.adapters.server_pods import ServerPods, server_pod
from tests.harness.faults import cluster_server
from tests.harness.faults.cluster_server import NO_GRACE_S, EndedServerPod
from tests.harness.faults.cluster_stop import StoppedServerPod
from tests.harness.faults.healing import SPARE_S, Healing
from tests.unit.cluster.fake_platform import FakePlatform, server
from tests.unit.harness.test_armed import FakeSession

CHARTS = Path(__file__).parents[3] / "charts"
KILLED = {"exitCode": 137, "reason": "Error"}
AGAIN = server(cid="c2", restarts=1, ended=KILLED)
STRUCK = "kafka-0@aaaa-1/c1"


class World:
    """A broker in a pod, a fault's owner, and what was said."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.platform = FakePlatform(*(pods or (server(),)))
        self.server = ServerPods(cast("Cluster", self.platform), "broker", "app=kafka", "java", max(1, len(pods)))
        self.said: list[str] = []
        self.healing = Healing(self.said.append)
        self.ended = self.healing.ended
        self.opened: list[FakeSession] = []

    def sessions(self, *lines: str, then: list[dict[str, Any]] | None = None, silent: bool = False) -> None:
        """Answer so in every session; at its second answer the pods are `then`."""
        platform = self.platform

        class Session(FakeSession):
            def readline_stdout(self, timeout: float | None = None) -> str:
                if then is not None and self.said:
                    platform.there = then
                return super().readline_stdout(timeout)

        def opened(_: str) -> FakeSession:
            self.opened.append(Session(*lines, silent=silent))
            return self.opened[-1]

        platform.sessions = opened

    def ending(self, kind: str, **named: Any) -> EndedServerPod:
        return EndedServerPod(self.server, kind, healing=self.healing, **named)

    def stopping(self, seconds: float = 0.2) -> StoppedServerPod:
        return StoppedServerPod(self.server, seconds, healing=self.healing)


def test_a_killed_server_is_back_when_another_container_of_its_pod_serves() -> None:
    world = World()
    world.sessions("armed 7", "kill 7", then=[AGAIN])
    fault = world.ending(SIGKILL)
    fault.arm()
    ((who, at),) = fault.strike({})
    assert who == STRUCK
    assert at > 0
    assert world.healing.owed == ["see the broker ready again"]
    fault.endure()
    fault.heal()
    assert world.healing.owed == []
    assert fault.after() == ["kafka-0@aaaa-1/c2"]
    assert fault.evidence() == {"restarts": 1, "node": "worker", "ended_as": "exit code 137 (Error)"}
    assert all(one.closed for one in world.opened)


@pytest.mark.parametrize("there", [[server()], [server(cid="c2", ready=False)], []])
def test_as_long_as_no_other_container_serves_it_is_not_back(there: list[dict[str, Any]]) -> None:
    world = World()
    world.sessions("armed 7", "kill 7", then=there)
    fault = world.ending(SIGKILL)
    fault.arm()
    fault.strike({})
    with world.platform.gives_up("kafka-0 of the broker to be ready again"):
        fault.endure()
    assert fault.after() == []


def test_an_api_that_does_not_answer_tells_nothing_and_the_wait_goes_on() -> None:
    world = World()
    world.sessions("armed 7", "kill 7", then=[AGAIN])
    fault = world.ending(SIGKILL)
    fault.arm()
    fault.strike({})
    world.platform.silent = True
    threading.Timer(0.2, lambda: setattr(world.platform, "silent", False)).start()
    fault.endure()
    assert fault.after() == ["kafka-0@aaaa-1/c2"]


def test_where_the_answer_is_lost_the_fall_of_the_container_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_server, "FALL_S", 0.2)
    world = World()
    world.sessions("armed 7", "", then=[server(ready=False)])
    fault = world.ending(SIGKILL)
    assert fault.strike({})[0][0] == STRUCK
    world.platform.there = [server()]
    world.sessions("armed 7", "")
    with pytest.raises(NoProcessError, match="did not fall"):
        world.ending(SIGKILL).strike({})


@pytest.mark.parametrize(("grace", "asked"), [({}, 1), ({"grace_s": NO_GRACE_S}, 0)])
def test_a_pod_is_deleted_by_its_uid_and_a_store_leaves_its_volume_first(grace: dict[str, int], asked: int) -> None:
    world = World()
    fault = world.ending(DELETE_NOW, **grace)
    world.platform.on_delete = lambda: setattr(world.platform, "there", [server(uid="bbbb-2", cid="c2")])
    fault.arm()
    assert fault.strike({})[0][0] == STRUCK
    fault.endure()
    assert world.platform.done == [("delete", "kafka-0", "aaaa-1", asked)]
    assert fault.after() == ["kafka-0@bbbb-2/c2"]


def test_the_successor_of_a_deployments_pod_has_another_name() -> None:
    world = World(server("spark-operator-1"))
    fault = world.ending(DELETE_NOW)
    world.platform.on_delete = lambda: setattr(world.platform, "there", [server("spark-operator-2", uid="b", cid="d")])
    fault.strike({})
    fault.endure()
    assert fault.after() == ["spark-operator-2@b/d"]


def test_of_three_brokers_the_shard_decides_and_all_have_to_be_back() -> None:
    pods = [server(f"kafka-{number}", uid=f"u{number}", cid=f"c{number}") for number in range(3)]
    world = World(*pods)
    back = server("kafka-1", uid="u1", cid="d1")
    world.sessions("armed 7", "kill 7", then=[pods[0], back])
    fault = world.ending(SIGKILL)
    fault.arm()
    assert fault.strike({"shard": 4})[0][0] == "kafka-1@u1/c1"
    with world.platform.gives_up():
        fault.endure()
    world.platform.there = [pods[0], back, pods[2]]
    fault.endure()
    assert fault.after() == ["kafka-1@u1/d1"]


@pytest.mark.parametrize(
    ("there", "silent", "why"),
    [
        ([], False, "0 of 1 pods of the broker are ready"),
        ([server(ready=False)], False, "0 of 1 pods of the broker are ready"),
        ([server()], True, "no answer"),
    ],
    ids=["no pod", "none that is ready", "the API does not answer"],
)
def test_who_does_not_serve_is_missed(there: list[dict[str, Any]], silent: bool, why: str) -> None:
    world = World()
    world.platform.there, world.platform.silent = there, silent
    for fault in (world.ending(SIGKILL), world.ending(DELETE_NOW), world.stopping()):
        with pytest.raises(NoProcessError, match=why):
            fault.strike({})
    assert world.healing.owed == []


def test_a_run_that_ends_waits_for_nothing_and_still_sees_the_server_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_server, "LEFT_S", 0.2)
    world = World()
    world.sessions("armed 7", "kill 7", then=[])
    fault = world.ending(SIGKILL)
    fault.strike({})
    world.ended.set()
    fault.endure()
    assert fault.after() == []
    world.healing.close(torn_down=False)
    assert len(world.said) == 1
    assert world.said[0].startswith("✗ could not see the broker ready again")


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="sigstop"):
        World().ending("sigstop")


def test_a_stopped_server_is_the_same_container_and_tells_for_how_long() -> None:
    world = World()
    world.sessions("armed 7", "stop 7", "go on 7")
    fault = world.stopping(0.2)
    fault.arm()
    assert fault.strike({})[0][0] == STRUCK
    assert world.healing.owed == ["continue the broker in kafka-0"]
    fault.endure()
    fault.heal()
    fault.heal()
    assert fault.after() == [STRUCK]
    assert 0.2 <= fault.evidence()["stopped_s"] < 5
    assert world.opened[0].said == "go \ngo\n"
    assert world.healing.owed == []


def test_a_pod_that_is_gone_meanwhile_leaves_nothing_to_continue() -> None:
    world = World()
    world.sessions("armed 7", "stop 7")
    fault = world.stopping(0)
    fault.strike({})
    world.platform.sessions = lambda _: None
    world.platform.there = [server(uid="bbbb-2", cid="c2")]
    fault.heal()
    assert fault.after() == ["kafka-0@bbbb-2/c2"]


def test_what_stands_still_goes_on_by_itself_only_after_it_was_to_be_continued() -> None:
    world = World()
    scripts: list[str] = []

    def session(script: str) -> FakeSession:
        scripts.append(script)
        return FakeSession("armed 7", "stop 7")

    world.platform.sessions = session
    world.stopping(12.5).strike({})
    assert f"sleep {round(12.5 + SPARE_S + 0.5)};" in scripts[0]


def test_a_pod_is_told_by_its_container_and_how_the_former_one_ended() -> None:
    one = server_pod(server(cid="0123456789abcdef", restarts=2, ended={"exitCode": 137, "reason": "OOMKilled"}))
    assert one.who == "kafka-0@aaaa-1/0123456789ab"
    assert (one.ready, one.restarts, one.ended_as) == (True, 2, "exit code 137 (OOMKilled)")
    fresh = server_pod({"metadata": {"name": "a", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}})
    assert (fresh.ready, fresh.who, fresh.ended_as) == (False, "a@u/", "")


@pytest.mark.parametrize(
    ("what", "chart"),
    [("broker", "kafka"), ("object store", "minio"), ("result store", "postgres"), ("operator", "spark-operator")],
)
def test_servers_are_found_by_what_their_charts_say(what: str, chart: str) -> None:
    templates = "".join(path.read_text() for path in (CHARTS / chart / "templates").iterdir())
    names = ServerPods.of(cast("Cluster", FakePlatform()), what).selector
    for label in names.split(","):
        name, _, value = label.partition("=")
        assert f"{name}: {value}\n" in templates or f'"component" "{value}"' in templates
    assert f"- name: {chart}\n" in templates, "its container comes first in the pod"


def test_a_pod_that_is_being_deleted_is_none() -> None:
    leaving = server()
    leaving["metadata"]["deletionTimestamp"] = "2026-11-22T00:00:00Z"
    world = World()
    world.platform.there = [leaving]
    assert world.server.pods() == []
