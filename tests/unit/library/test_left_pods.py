"""Pods of executors that have ended and stay are deleted by their driver, and no others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from effectively_once.driver import left_pods, pod_api
from effectively_once.driver.left_pods import LOOKS, LeftPods
from effectively_once.driver.pod_api import PodApi, PodApiError
from tests.unit.library.http_store import Handler, serving

PODS = "/api/v1/namespaces/pipelines/pods"
SELECTOR = "spark-app-selector=spark-7,spark-role=executor"


def pod(name: str, phase: str = "Succeeded", **metadata: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", **metadata}, "status": {"phase": phase}}


class Api(Handler):
    """Pods of a namespace, as the API has them; a delete with the uid of another pod is refused."""

    pods: ClassVar[dict[str, dict[str, Any]]] = {}
    selectors: ClassVar[list[str]] = []
    status: ClassVar[int] = 200

    def respond(self) -> None:
        at = urlsplit(self.path)
        if self.headers["Authorization"] != "Bearer t0ken":
            self.answer(401)
        elif self.status != 200:
            self.answer(self.status)
        elif self.command == "GET" and at.path == PODS:
            self.selectors.append(parse_qs(at.query)["labelSelector"][0])
            self.answer(200, json.dumps({"items": list(self.pods.values())}).encode())
        elif self.command == "DELETE":
            self._delete(at.path.removeprefix(f"{PODS}/"))

    def _delete(self, name: str) -> None:
        length = int(self.headers["Content-Length"])
        uid = json.loads(self.rfile.read(length))["preconditions"].get("uid")
        del self.headers["Content-Length"]
        if name not in self.pods:
            self.answer(404)
        elif uid is not None and self.pods[name]["metadata"]["uid"] != uid:
            self.answer(409)
        else:
            del self.pods[name]
            self.answer(200)

    do_DELETE = Handler._asked  # noqa: N815 - the name in the base class


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("t0ken\n")
    return tmp_path


@pytest.fixture
def left(account: Path) -> Iterator[LeftPods]:
    Api.pods, Api.selectors, Api.status = {}, [], 200
    with serving(Api) as url:
        yield LeftPods(PodApi(url, "pipelines", account), "spark-7")


def have(*pods: dict[str, Any]) -> None:
    Api.pods = {one["metadata"]["name"]: one for one in pods}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_and_stays_is_deleted_after_a_minute_of_looks(left: LeftPods, phase: str) -> None:
    """Spark has had its polls by then."""
    have(pod("exec-1", phase), pod("exec-2", "Running"))
    for _ in range(LOOKS - 1):
        assert left.look() == []
    assert left.look() == ["exec-1"]
    assert list(Api.pods) == ["exec-2"]
    assert {*Api.selectors} == {SELECTOR}, "of this driver alone"
    assert left.look() == []


@pytest.mark.parametrize(
    "other", [pod("x", "Running"), pod("x", "Pending"), pod("x", "Unknown"), pod("x", deletionTimestamp="2026-11-27")]
)
def test_a_pod_that_works_or_goes_already_is_left_alone(left: LeftPods, other: dict[str, Any]) -> None:
    have(other)
    for _ in range(3 * LOOKS):
        assert left.look() == []
    assert list(Api.pods) == ["x"]


def test_only_looks_in_a_row_count(left: LeftPods) -> None:
    for _ in range(LOOKS - 1):
        have(pod("x"))
        left.look()
    have()
    left.look()
    have(pod("x"))
    for _ in range(LOOKS - 1):
        assert left.look() == []
    assert left.look() == ["x"]


def test_another_pod_of_the_name_is_not_deleted(left: LeftPods, monkeypatch: pytest.MonkeyPatch) -> None:
    have(pod("x"))
    read = left._api.read

    def replaced(selector: str) -> list[dict[str, Any]]:
        found = read(selector)
        have(pod("x", uid="another"))
        return found

    monkeypatch.setattr(left._api, "read", replaced)
    left._looks = {"uid-x": LOOKS}
    assert left.look() == ["x"]
    assert list(Api.pods) == ["x"]
    left._api.delete("y", "uid-y")


@pytest.mark.parametrize("status", [401, 403, 500])
def test_an_api_that_refuses_is_told_once_and_asked_again(
    left: LeftPods, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(left_pods.log, "warning", lambda _, **more: said.append(str(more)), raising=False)
    have(pod("x"))
    Api.status = status
    with pytest.raises(PodApiError, match=f"HTTP {status}"):
        left.look()
    for _ in range(5):
        left._look_and_say()
    assert said == [f"{{'error': 'GET pods: HTTP {status}'}}"]
    Api.status = 200
    for _ in range(LOOKS):
        left._look_and_say()
    assert Api.pods == {}


def test_an_api_that_is_away_or_a_token_that_is_not_there_is_an_error_by_name(account: Path, tmp_path: Path) -> None:
    with pytest.raises(PodApiError, match="GET pods: NewConnectionError"):
        PodApi("http://127.0.0.1:9", "pipelines", account).read(SELECTOR)
    with pytest.raises(PodApiError, match="GET pods: FileNotFoundError"):
        PodApi("http://127.0.0.1:9", "pipelines", tmp_path / "none").read(SELECTOR)


class Session:
    """As much of a Spark session as is asked."""

    def __init__(self, **conf: str) -> None:
        context = SimpleNamespace(getConf=lambda: conf, applicationId="spark-7")
        self.sparkContext = context


MASTER, NAMESPACE = "spark.master", "spark.kubernetes.namespace"
IN_PODS = {MASTER: "k8s://https://kubernetes.default.svc", NAMESPACE: "pipelines"}


@pytest.mark.parametrize(
    ("host", "conf", "begins"),
    [
        ("10.0.0.1", IN_PODS, True),
        (None, IN_PODS, False),
        ("10.0.0.1", {**IN_PODS, left_pods.KEPT: "true"}, True),
        ("10.0.0.1", {**IN_PODS, left_pods.KEPT: "false"}, False),
        ("10.0.0.1", {MASTER: "spark://localhost:7077"}, False),
        ("10.0.0.1", {}, False),
    ],
    ids=["a pod", "no pod", "deletes", "keeps for a post-mortem", "no executors in pods", "no master"],
)
def test_it_begins_only_in_a_pod_whose_executors_are_to_be_deleted(
    host: str | None, conf: dict[str, str], begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(pod_api.HOST, raising=False)
    if host:
        monkeypatch.setenv(pod_api.HOST, host)
    begun: list[tuple[str, str]] = []
    monkeypatch.setattr(LeftPods, "start", lambda self, _: begun.append((self._selector, self._api._pods)))
    session: Any = Session(**conf)
    left_pods.watch(session, threading.Event())
    assert begun == ([(SELECTOR, f"https://10.0.0.1:443{PODS}")] if begins else [])


def test_it_ends_with_its_driver(left: LeftPods) -> None:
    stopping = threading.Event()
    stopping.set()
    left._run(stopping)
    assert Api.selectors == []
