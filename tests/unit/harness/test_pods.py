"""Drivers as pods: what is asked of the cluster, and what the states of pods come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.adapters.cluster import ClusterTimeoutError
from tests.harness.adapters.drivers import DELETE_GRACEFULLY, DELETE_NOW, SIGKILL, NoProcessError
from tests.harness.adapters.pod_log import DRIVER, EXECUTOR, Pod, pod_of
from tests.harness.adapters.pods import PodDrivers
from tests.harness.adapters.rendering import RUN_LABEL, of_run
from tests.unit.harness.fake_cluster import RUNS, UIDS, FakeCluster, Object, ended, pod
from tests.unit.harness.test_armed import FakeSession

CALL = {"pod": "exec-1", "pod_uid": UIDS["b"], "step": "ids_decided"}


class FakeLog:
    """Pods as a test sets them."""

    trouble = ""

    def __init__(self) -> None:
        self.known: dict[str, Pod] = {}

    def set(self, *objects: Object) -> None:
        self.known |= {one["metadata"]["uid"]: pod_of(one) for one in objects}

    def pods(self, role: str) -> list[Pod]:
        return sorted((one for one in self.known.values() if one.role == role), key=lambda one: one.created)

    def pod(self, uid: str) -> Pod | None:
        return self.known.get(uid)

    def last_words(self, uid: str) -> str:
        return "it fell"

    def wait_ended(self, uid: str, timeout_s: float) -> bool:
        found = self.known.get(uid)
        return found is not None and found.ended


class FakeChart:
    """A chart of one object and the job of its topics."""

    def render(self, values: Any, namespace: str) -> list[Object]:
        assert values["settings"] == {"pipeline": "uc_1"}
        return [{"kind": kind, "metadata": {"name": values["name"]}} for kind in ("SparkApplication", "Job")]


class OnCluster:
    """A fake cluster and its log, and what drivers of a run on it are made of."""

    def __init__(self, folder: Path) -> None:
        self.cluster, self.log = FakeCluster(), FakeLog()
        self.settings = folder / "settings.json"
        self.settings.write_text('{"pipeline": "uc_1"}')
        values = {"name": "uc-1", "executors": {"count": 2}}
        self.given: tuple[Any, Any, dict[str, Any], str, Any] = (self.cluster, FakeChart(), values, "r-1", self.log)


class Played(OnCluster):
    """Pod drivers on it, with a driver and two executors that run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.drivers = PodDrivers(*self.given)
        self.cluster.sessions = {name: lambda _: FakeSession("armed 12", "kill 12") for name in ("exec-1", "exec-2")}

    def start(self) -> None:
        self.drivers.start("driver", self.settings)
        self.cluster.there["uc-1"] = {"status": {"applicationState": {"state": "RUNNING"}}}
        self.log.set(
            pod("uc-1-driver", UIDS["a"], DRIVER, state=RUNS),
            pod("exec-1", UIDS["b"], state=RUNS),
            pod("exec-2", UIDS["c"], state=RUNS),
        )


@pytest.fixture
def played(tmp_path: Path) -> Played:
    one = Played(tmp_path)
    one.start()
    return one


def test_a_start_clears_the_former_one_and_makes_no_topics(played: Played) -> None:
    assert played.cluster.done == [("delete", "uc-1"), ("apply", ["SparkApplication"])]
    assert played.drivers.alive() is None
    assert played.drivers.driver == "uc-1-driver@00000000"


def test_a_start_waits_until_the_pods_of_the_former_are_gone(played: Played) -> None:
    played.cluster.pods_there = [pod("uc-1-driver", UIDS["a"], DRIVER, state=RUNS)]
    with pytest.raises(ClusterTimeoutError, match="end of the pods of uc-1"):
        played.drivers.start("driver", played.settings)


def test_a_driver_that_ended_has_last_words_also_when_the_operator_started_another(played: Played) -> None:
    played.log.set(
        pod("uc-1-driver", UIDS["a"], DRIVER, state=ended(70)), pod("uc-1-driver", UIDS["d"], DRIVER, state=RUNS)
    )
    words = played.drivers.alive() or ""
    assert "exit code 70" in words and "it fell" in words


@pytest.mark.parametrize("state", ["FAILED", "SUBMISSION_FAILED"])
def test_an_application_that_fails_before_there_is_a_driver_is_noticed(played: Played, state: str) -> None:
    played.log.known = {}
    played.cluster.there["uc-1"] = {"status": {"applicationState": {"state": state, "errorMessage": "no image"}}}
    assert "no image" in (played.drivers.alive() or "")


def test_a_driver_that_is_about_to_come_is_waited_for(played: Played) -> None:
    played.log.known = {}
    assert played.drivers.alive() is None
    assert played.drivers.driver is None


def test_a_stop_suspends_and_tells_the_code_of_the_container(played: Played) -> None:
    assert played.drivers.stop() is None, "it does not stop, and has no code"
    played.cluster.on_patch = lambda *_: played.log.set(pod("uc-1-driver", UIDS["a"], DRIVER, state=ended(0)))
    assert played.drivers.stop() == 0
    assert ("patch", "uc-1", True) in played.cluster.done
    assert played.drivers.alive() is not None


def test_what_was_stopped_is_not_stopped_again_though_others_had_its_name_since(played: Played) -> None:
    played.cluster.on_patch = lambda *_: played.log.set(pod("uc-1-driver", UIDS["a"], DRIVER, state=ended(0)))
    played.drivers.stop()
    played.log.set(pod("uc-1-driver", UIDS["d"], DRIVER, state=ended(0)))
    done = [*played.cluster.done]
    assert played.drivers.stop() is None
    assert played.cluster.done == done


def test_a_driver_of_an_earlier_start_is_not_the_driver(played: Played) -> None:
    played.log.set(pod("uc-1-driver", UIDS["a"], DRIVER, state=ended(0)))
    played.drivers.start("driver", played.settings)
    played.cluster.there["uc-1"] = {}
    assert played.drivers.alive() is None
    played.log.set(pod("uc-1-driver", UIDS["d"], DRIVER, state=RUNS))
    assert played.drivers.driver == "uc-1-driver@00000003"


def test_the_executor_that_announced_is_killed_by_its_armed_session(played: Played) -> None:
    played.drivers.arm(SIGKILL)
    entered = [one for one in played.cluster.done if one[0] == "enter"]
    who, at = played.drivers.kill_executor(CALL, SIGKILL)
    assert who == f"exec-1@{UIDS['b']}"
    assert at > 0
    assert [one for one in played.cluster.done if one[0] == "enter"] == entered


@pytest.mark.parametrize(("kind", "grace_s"), [(DELETE_NOW, 0), (DELETE_GRACEFULLY, None)])
def test_a_pod_is_deleted_by_its_uid(played: Played, kind: str, grace_s: int | None) -> None:
    played.drivers.arm(kind)
    assert played.drivers.kill_executor(CALL, kind)[0] == f"exec-1@{UIDS['b']}"
    assert played.cluster.done[-1] == ("delete pod", "exec-1", UIDS["b"], grace_s)
    assert not [one for one in played.cluster.done if one[0] == "enter"]


@pytest.mark.parametrize("call", [{**CALL, "pod_uid": UIDS["g"]}, {**CALL, "pod_uid": UIDS["a"]}])
def test_who_is_no_running_executor_is_not_struck(played: Played, call: dict[str, str]) -> None:
    with pytest.raises(NoProcessError):
        played.drivers.kill_executor(call, DELETE_NOW)


@pytest.mark.parametrize("kind", [SIGKILL, DELETE_NOW])
def test_every_executor_is_struck(played: Played, kind: str) -> None:
    played.drivers.arm(kind)
    assert [who for who, _ in played.drivers.kill_executors(kind)] == [f"exec-1@{UIDS['b']}", f"exec-2@{UIDS['c']}"]


def test_one_that_has_just_ended_is_left_out(played: Played) -> None:
    played.cluster.sessions["exec-2"] = lambda _: FakeSession("armed 12", "")
    played.drivers.arm(SIGKILL)
    assert [who for who, _ in played.drivers.kill_executors(SIGKILL)] == [f"exec-1@{UIDS['b']}"]


class Unanswered(FakeSession):
    """A session whose container ends at the word, before the shell's answer has left."""

    def __init__(self, log: FakeLog, state: Object) -> None:
        super().__init__("armed 12")
        self.log, self.state = log, state

    def write_stdin(self, data: str) -> None:
        self.log.set(pod("exec-1", UIDS["b"], state=self.state))


@pytest.mark.parametrize(
    ("state", "struck"), [(ended(137), True), (ended(137, "OOMKilled"), False), (ended(1), False), (RUNS, False)]
)
def test_where_the_answer_is_lost_the_containers_end_tells(played: Played, state: Object, struck: bool) -> None:
    played.cluster.sessions["exec-1"] = lambda _: Unanswered(played.log, state)
    played.drivers.arm(SIGKILL)
    victims = [who for who, _ in played.drivers.kill_executors(SIGKILL)]
    assert (f"exec-1@{UIDS['b']}" in victims) is struck
    assert f"exec-2@{UIDS['c']}" in victims
    if state is RUNS:
        played.drivers.arm(SIGKILL)
        with pytest.raises(NoProcessError, match="did not fall"):
            played.drivers.kill_executor(CALL, SIGKILL)


def test_arming_waits_for_every_executor(played: Played) -> None:
    played.log.set(pod("exec-2", UIDS["c"], state={"waiting": {}}))
    with pytest.raises(ClusterTimeoutError, match="2 executors"):
        played.drivers.arm(SIGKILL)


def test_an_executor_is_gone_when_its_container_has_ended(played: Played) -> None:
    who = f"exec-1@{UIDS['b']}"
    assert not played.drivers.gone(who)
    played.log.set(pod("exec-1", UIDS["b"], state=RUNS, deleting=True))
    assert not played.drivers.gone(who)
    assert who not in played.drivers.executors()
    played.log.set(pod("exec-1", UIDS["b"], state=ended(137)))
    assert played.drivers.gone(who)
    assert [one.role for one in played.log.pods(EXECUTOR)] == [EXECUTOR] * 2


def test_objects_of_a_run_carry_its_label_and_namespace() -> None:
    labels: dict[str, str] = {"a": "b"}
    objects: list[Object] = [
        {"kind": "ConfigMap", "metadata": {"name": "x", "labels": labels}},
        {"kind": "Role", "metadata": {"name": "y", "labels": None}},
    ]
    marked = of_run(objects, "r-1", "ns")
    assert [one["metadata"]["labels"] for one in marked] == [{"a": "b", RUN_LABEL: "r-1"}, {RUN_LABEL: "r-1"}]
    assert {one["metadata"]["namespace"] for one in marked} == {"ns"}
    assert labels == {"a": "b"}


def test_a_gate_whose_answer_got_lost_is_opened_again(played: Played) -> None:
    """What a shell says just before its end is sometimes lost: a control would wait for ever, or break the run off."""
    sessions = [FakeSession(), FakeSession("open\n")]
    played.cluster.sessions["uc-1-driver"] = lambda _: sessions.pop(0)
    played.drivers.open_gate("appending")
    assert sessions == []


def test_a_gate_that_does_not_open_is_told_with_the_last_answer(played: Played) -> None:
    given = [FakeSession("touch: read-only\n") for _ in range(5)]
    sessions = list(given)
    played.cluster.sessions["uc-1-driver"] = lambda _: sessions.pop(0)
    with pytest.raises(NoProcessError, match=r"the gate of appending cannot be opened in uc-1-driver@.*read-only"):
        played.drivers.open_gate("appending")
    assert len(sessions) == 2
    assert all(session.closed for session in given[:3])
