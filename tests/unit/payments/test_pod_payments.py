"""The payment service as a pod: its files alone are enough to run it, and its journal is told."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import urllib3

from infra.embedded.ports import free_ports
from tests.harness.adapters import pod_payments
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.harness.adapters.pod_payments import DATA, PodPayments, objects
from tests.harness.adapters.service_pod import PORT
from tests.harness.payments.journal import entries
from tests.harness.payments.mischief import Mischief
from tests.unit.harness.sleepers import soon

QUIET = Mischief(7)


class World:
    """The cluster of one pod, whose container is a process of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, (self.port,) = folder, free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None
        self.done: list[str] = []

    def apply(self, made: list[dict[str, Any]]) -> None:
        files, pod = made
        (container,) = pod["spec"]["containers"]
        (items,) = (one["configMap"]["items"] for one in pod["spec"]["volumes"] if "configMap" in one)
        for item in items:
            path = self.folder / "service" / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files["data"][item["key"]])
        whole: list[str] = [*container["command"], *container["args"]]
        assert whole[:3] == ["/usr/bin/tini", "--", "python3"]
        words = [word.replace(DATA, str(self.folder)).replace("0.0.0.0", "127.0.0.1") for word in whole[3:]]  # noqa: S104
        words[words.index("--port") + 1] = str(self.port)
        # Packages are this Python's own; of the checkout there is nothing but the files of the pod.
        env = {**os.environ, "PYTHONPATH": str(self.folder / "service"), "PYTHONSAFEPATH": "1"}
        self.process = subprocess.Popen([sys.executable, *words], cwd=self.folder, env=env)

    def pods(self, selector: str) -> list[dict[str, Any]]:
        self.done.append(selector)
        return [{"status": {"podIP": "10.0.0.7"}}]

    def dial(self, pod: str, port: int) -> Any:
        assert (pod, port) == ("r-7-plain", PORT)
        return socket.create_connection(("127.0.0.1", self.port))

    def wait_for(self, what: str, holds: Any, _timeout_s: float, _seen: Any) -> None:
        soon(what, holds)

    def delete_labelled(self, selector: str) -> None:
        self.done.append(f"delete {selector}")
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def payments(world: World, tmp_path: Path) -> PodPayments:
    journal = tmp_path / "kept" / "journal.jsonl"
    return PodPayments(cast("Cluster", world), "r-7-plain", "r-7", "image:1", journal, 2, QUIET)


def test_its_files_are_all_that_it_needs_and_its_journal_is_kept(world: World, tmp_path: Path) -> None:
    service = payments(world, tmp_path)
    service.journal.parent.mkdir()
    try:
        service.start()
        assert service.inside == f"http://10.0.0.7:{PORT}"
        body = b'{"card": "card-0001", "amount": 5, "transaction": "t"}'
        with urllib3.PoolManager(retries=False, timeout=10) as http:
            assert http.request("POST", f"{service.address}/charge", body=body).status == 200
        service.keep()
        (entry,) = entries(service.journal)
        assert (entry.outcome, entry.balance) == ("charged", 5)
    finally:
        service.stop()
    assert world.done[-1] == "delete effectively-once/run=r-7,app.kubernetes.io/name=r-7-plain"


def test_a_service_that_does_not_answer_is_named(world: World, tmp_path: Path) -> None:
    service = payments(world, tmp_path)
    service.service._tunnel.start()
    try:
        with pytest.raises(ClusterTimeoutError, match="pod r-7-plain does not answer"):
            service.keep()
    finally:
        service.service._tunnel.stop()


def test_the_pod_may_do_nothing_but_serve() -> None:
    _, pod = objects("r-7-plain", {"x": "y"}, "image:1", 2, QUIET)
    spec = pod["spec"]
    (container,) = spec["containers"]
    assert container["image"] == "image:1"
    assert (spec["automountServiceAccountToken"], spec["securityContext"]["runAsNonRoot"]) == (False, True)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {one["mountPath"] for one in container["volumeMounts"]} == {pod_payments.AT, DATA}
