"""The presenter as a pod: what it is started with is what the presenter takes, and its answers come through."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.experiments.fraud.pod_presenter import PodPresenter, presenter_pod
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.unit.harness.served import Served

NOWHERE = "postgresql://127.0.0.1:1/results"
CREDENTIALS = {"PGUSER": "u", "PGPASSWORD": "p"}


class World(Served):
    """A cluster that knows one Secret."""

    def apply(self, made: list[dict[str, Any]]) -> None:
        (pod,) = made
        (container,) = pod["spec"]["containers"]
        secrets = CREDENTIALS if container["envFrom"] == [{"secretRef": {"name": "r-7-result-store"}}] else {}
        self.run(container, {**secrets, "PYTHONPATH": str(CHECKOUT / "pipelines" / "src")})


def presenting(folder: Path) -> tuple[World, PodPresenter]:
    world = World(folder, "r-7-presenter")
    return world, PodPresenter(
        cast("Cluster", world), "r-7-presenter", "r-7", "image:1", NOWHERE, "r-7-result-store", False
    )


def test_it_says_that_its_store_is_away_and_what_is_no_id(tmp_path: Path) -> None:
    world, presenter = presenting(tmp_path)
    service = presenter.service
    made = presenter_pod(
        presenter.name, service.labels, presenter.image, presenter.database, presenter.secret, verified=False
    )
    try:
        service.start([made], lambda: presenter.ask("t1")[0] == 503)
        assert presenter.ask("t1")[1]["error"] == "store_down"
        assert presenter.ask("no%20id")[0] == 400
    finally:
        presenter.stop()
    assert world.done[-1:] == ["delete effectively-once/run=r-7,app.kubernetes.io/name=r-7-presenter"]


def test_it_has_started_once_it_answers_what_the_store_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, presenter = presenting(tmp_path)
    asked = [503, 503, 404]
    monkeypatch.setattr(PodPresenter, "ask", lambda _self, _id: (asked.pop(0), {}))
    try:
        presenter.start()
    finally:
        presenter.stop()
    assert asked == []


def test_one_that_does_not_answer_is_named(tmp_path: Path) -> None:
    _, presenter = presenting(tmp_path)
    presenter.service._tunnel.start()
    try:
        with pytest.raises(ClusterTimeoutError, match="pod r-7-presenter does not answer"):
            presenter.ask("t1")
    finally:
        presenter.service._tunnel.stop()


def test_the_pod_knows_the_credentials_by_their_secret_alone() -> None:
    pod = presenter_pod("p", {"x": "y"}, "image:1", NOWHERE, "secret", verified=False)
    (container,) = pod["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "secret"}}]
    assert "PGPASSWORD" not in str(pod)
    assert (pod["metadata"]["labels"], container["image"]) == ({"x": "y"}, "image:1")
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not pod["spec"]["automountServiceAccountToken"]


def test_it_believes_the_authority_of_a_secured_store_alone() -> None:
    pod = presenter_pod("p", {"x": "y"}, "image:1", NOWHERE, "secret", verified=True)
    (container,), (volume,) = pod["spec"]["containers"], pod["spec"]["volumes"]
    told = {one["name"]: one["value"] for one in container["env"]}
    assert told["PGSSLMODE"] == "verify-full"
    (mounted,) = container["volumeMounts"]
    assert (mounted["name"], told["PGSSLROOTCERT"]) == (volume["name"], f"{mounted['mountPath']}/ca.crt")
    # The login is in the same Secret, and in no file.
    assert volume["secret"] == {"secretName": "secret", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    plain = presenter_pod("p", {"x": "y"}, "image:1", NOWHERE, "secret", verified=False)
    assert (plain["spec"]["volumes"], "PGSSLMODE" in str(plain)) == ([], False)
