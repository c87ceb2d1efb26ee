"""The payment service as a pod: its files alone are enough to run it, and its journal is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import urllib3

from tests.experiments.card_ledger import pod_payments
from tests.experiments.card_ledger.payments.journal import entries
from tests.experiments.card_ledger.payments.mischief import Mischief
from tests.experiments.card_ledger.pod_payments import DATA, PodPayments, objects
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.harness.adapters.service_pod import PORT
from tests.unit.harness.served import Served

QUIET = Mischief(7)


class World(Served):
    """A cluster whose container finds nothing of the checkout but the files of its pod."""

    def apply(self, made: list[dict[str, Any]]) -> None:
        files, pod = made
        (container,) = pod["spec"]["containers"]
        (items,) = (one["configMap"]["items"] for one in pod["spec"]["volumes"] if "configMap" in one)
        for item in items:
            path = self.folder / "service" / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files["data"][item["key"]])
        args = [word.replace(DATA, str(self.folder)) for word in container["args"]]
        # Packages are this Python's own.
        env = {"PYTHONPATH": str(self.folder / "service"), "PYTHONSAFEPATH": "1"}
        self.run({**container, "args": args}, env)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "r-7-plain")


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
