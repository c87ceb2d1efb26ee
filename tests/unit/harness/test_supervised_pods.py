"""Drivers that the operator follows up: the newest counts; only one that ends unasked again and again is the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from effectively_once.errors import SinkError
from tests.harness.adapters.armed import STOP_ALL
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.harness.adapters.drivers import DELETE_NOW, SIGKILL, NoProcessError
from tests.harness.adapters.pod_log import DRIVER
from tests.harness.adapters.supervised_pods import GIVE_UP, NEXT_S, SupervisedPods
from tests.harness.faults.fault import now_ms
from tests.harness.history import History, read_history
from tests.harness.refusals import ENOUGH
from tests.unit.harness.fake_cluster import RUNS, UIDS, Object, ended, pod
from tests.unit.harness.test_armed import FakeSession
from tests.unit.harness.test_pods import OnCluster

NAME = "uc-1-driver"


class Supervised(OnCluster):
    """Supervised drivers on a fake cluster, of which the first one runs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.said: list[str] = []
        self.history = History(folder / "history.jsonl")
        self.drivers = SupervisedPods(*self.given, self.said.append, history=self.history)
        self.cluster.sessions[NAME] = lambda _: FakeSession("armed 12", "kill 12")
        self.start()

    def start(self) -> None:
        self.drivers.start("driver", self.settings)
        self.cluster.there["uc-1"] = {"status": {"applicationState": {"state": "RUNNING"}}}

    def driver(self, uid: str, state: Object | None = RUNS) -> None:
        self.log.set(pod(NAME, UIDS[uid], DRIVER, state=state))

    def read_states(self) -> list[dict[str, Any]]:
        if not self.history.path.stat().st_size:
            return []
        return [{name: one[name] for name in ("state", "pid")} for one in read_history(self.history.path)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(tmp_path)
    made.driver("a")
    yield made
    made.history.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("tests.harness.adapters.supervised_pods.time.monotonic", lambda: now[0])
    return now


def test_the_newest_driver_is_the_driver(world: Supervised) -> None:
    world.driver("a", ended(137))
    world.driver("b", {"waiting": {"reason": "ContainerCreating"}})
    assert world.drivers.driver == f"{NAME}@00000001"
    assert world.drivers.alive() is None


def test_a_killed_driver_is_no_news_and_the_run_goes_on(world: Supervised) -> None:
    world.drivers.arm_driver(SIGKILL)
    who, at = world.drivers.kill_driver(SIGKILL)
    world.driver("a", ended(137))
    assert (who, at > 0) == (f"{NAME}@{UIDS['a']}", True)
    assert world.drivers.alive() is None
    assert world.read_states() == [{"state": "killed", "pid": f"{NAME}@00000000"}]
    assert world.said == []
    assert [one for one in world.cluster.done if one[0] == "enter"] == [("enter", NAME, "spark-kubernetes-driver")]


def test_a_drivers_pod_is_deleted_by_its_uid_and_nobody_enters_it(world: Supervised) -> None:
    world.drivers.arm_driver(DELETE_NOW)
    assert world.drivers.kill_driver(DELETE_NOW)[0] == f"{NAME}@{UIDS['a']}"
    assert world.cluster.done[-1] == ("delete pod", NAME, UIDS["a"], 0)
    assert not [one for one in world.cluster.done if one[0] == "enter"]


@pytest.mark.parametrize(("state", "struck"), [(ended(137), True), (ended(137, "OOMKilled"), False), (RUNS, False)])
def test_a_kill_whose_answer_is_lost_counts_when_the_container_fell(
    world: Supervised, state: Object, struck: bool
) -> None:
    class Unanswered(FakeSession):
        def write_stdin(self, data: str) -> None:
            world.driver("a", state)

    world.cluster.sessions[NAME] = lambda _: Unanswered("armed 12")
    world.drivers.arm_driver(SIGKILL)
    if struck:
        assert world.drivers.kill_driver(SIGKILL)[0] == f"{NAME}@{UIDS['a']}"
        return
    with pytest.raises(NoProcessError, match="did not fall"):
        world.drivers.kill_driver(SIGKILL)
    assert world.read_states() == []


def test_where_no_driver_runs_none_is_struck_and_arming_waits_for_one(world: Supervised) -> None:
    world.driver("a", ended(137))
    with pytest.raises(NoProcessError, match="no driver of uc-1 runs"):
        world.drivers.kill_driver(SIGKILL)
    with pytest.raises(ClusterTimeoutError, match="a driver of uc-1"):
        world.drivers.arm_driver(SIGKILL)


def test_a_stop_that_nobody_confirms_is_none(world: Supervised) -> None:
    world.cluster.sessions[NAME] = lambda _: FakeSession("armed 12", "")
    world.drivers.arm_driver(SIGKILL, STOP_ALL)
    with pytest.raises(NoProcessError, match="stands still"):
        world.drivers.stop_driver(world.drivers.running(), STOP_ALL)


def test_a_driver_without_a_jvm_yet_is_tried_again(world: Supervised) -> None:
    sessions = [FakeSession("no JVM"), FakeSession("armed 12", "kill 12")]
    world.cluster.sessions[NAME] = lambda _: sessions.pop(0)
    world.drivers.arm_driver(SIGKILL)
    assert sessions == []


def test_a_driver_that_ends_by_itself_is_told_of_once_and_followed(world: Supervised) -> None:
    world.driver("a", ended(70))
    assert world.drivers.alive() is None
    assert world.drivers.alive() is None
    assert world.read_states() == [{"state": "ended", "pid": f"{NAME}@00000000"}]
    assert world.said == [f"… driver {NAME}@00000000 ended that was not struck (exit code 70): it fell"]


def test_drivers_that_do_not_stay_are_the_end_with_the_last_words(world: Supervised, clock: list[float]) -> None:
    for number, uid in enumerate("abcde", 1):
        assert world.drivers.alive() is None, f"{number - 1} of {GIVE_UP}"
        world.driver(uid, ended(70))
        clock[0] += 20.0
    words = world.drivers.alive() or ""
    assert words.startswith(f"{GIVE_UP} drivers ended")
    assert "exit code 70" in words


def test_ends_that_are_far_apart_are_not_counted_together(world: Supervised, clock: list[float]) -> None:
    for uid in "abcdefgh":
        world.driver(uid, ended(70))
        assert world.drivers.alive() is None
        clock[0] += 100.0


def test_drivers_that_a_sink_refuses_are_given_up_before_others(
    world: Supervised, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    says = f"{SinkError.__name__}: a repeat of epoch 2 decided otherwise"
    monkeypatch.setattr(world.log, "last_words", lambda _: says)
    world.drivers.under = "a stall of the broker"
    for uid in "ab":
        assert world.drivers.alive() is None
        world.driver(uid, ended(76))
        clock[0] += 200.0
    assert world.drivers.alive() == f"{ENOUGH} drivers ended as a sink refused their rows; {says}"


def test_a_driver_that_nobody_follows_is_the_end(world: Supervised, clock: list[float]) -> None:
    world.drivers.kill_driver(DELETE_NOW)
    world.driver("a", ended(137))
    assert world.drivers.alive() is None
    clock[0] += NEXT_S + 1.0
    world.cluster.there["uc-1"] = {"status": {"applicationState": {"state": "PENDING_RERUN", "errorMessage": "stuck"}}}
    words = world.drivers.alive() or ""
    assert "is PENDING_RERUN: stuck" in words


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_driver_that_is_to_end_is_not_waited_for(world: Supervised, way: str) -> None:
    if way == "stop":
        world.cluster.on_patch = lambda *_: world.driver("a", ended(0))
    else:
        world.cluster.sessions[NAME] = lambda _: world.driver("a", ended(137)) or FakeSession()  # type: ignore[func-returns-value]
    getattr(world.drivers, way)()
    assert world.drivers.alive() == "no driver was started, or it was stopped"
    assert world.said == []


def test_the_end_of_a_driver_that_is_to_end_is_no_news_and_another_can_be_started(world: Supervised) -> None:
    """The run asks all the time, also while it waits for that end."""
    asked: list[str | None] = []

    def ends(*_: object) -> None:
        world.driver("a", ended(0))
        asked.append(world.drivers.alive())

    world.cluster.on_patch = ends
    world.drivers.stop()
    assert "exit code 0" in (asked[0] or "")
    assert world.said == []
    world.start()
    assert (world.drivers.alive(), world.drivers.driver) == (None, None)
    world.driver("b")
    assert world.drivers.driver == f"{NAME}@00000001"


class Core:
    """An API whose answer comes when the pod is gone already."""

    gone_at = 0

    def delete_namespaced_pod(self, name: str, namespace: str, body: Any) -> None:
        self.gone_at = now_ms()
        while now_ms() == self.gone_at:
            pass


def test_a_pod_that_ends_before_the_answer_was_struck_before_it_ended() -> None:
    cluster: Any = object.__new__(Cluster)
    cluster.namespace, cluster._core = "n", Core()
    assert 0 < cluster.delete_pod("uc-1-driver", "a-1", 0) <= cluster._core.gone_at
