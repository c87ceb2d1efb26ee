"""Prometheus and Alertmanager of a cluster, reached by a tunnel to their pods: policies let nobody else in."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import urllib3

from infra.embedded.ports import HOST
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.tunnel import Far, Tunnel
from tests.harness.alerts import answers
from tests.harness.alerts.answers import Active, AnswerError, Target

PODS = "app.kubernetes.io/name=monitoring,app.kubernetes.io/component="
PROMETHEUS, ALERTMANAGER = ("prometheus", 9090), ("alertmanager", 9093)
ANSWER_S = 20.0


class Watcher:
    """Both, while the block lasts; `cluster` is the platform's namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self._tunnels = {name: Tunnel(_dialler(cluster, name, port)) for name, port in (PROMETHEUS, ALERTMANAGER)}
        self._http = urllib3.PoolManager(retries=urllib3.Retry(2, backoff_factor=1.0), timeout=ANSWER_S)

    def __enter__(self) -> Self:
        """Listen."""
        for tunnel in self._tunnels.values():
            tunnel.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, with every connection."""
        self._http.clear()
        for tunnel in self._tunnels.values():
            tunnel.stop()

    def active(self) -> list[Active]:
        """Return the alerts whose rules hold. Raises AnswerError."""
        return answers.list_active(self._ask("alerts"))

    def targets(self) -> list[Target]:
        """Return whom it asks. Raises AnswerError."""
        return answers.list_targets(self._ask("targets", state="active"))

    def health(self) -> dict[str, str]:
        """Return what is wrong with each alert's rule. Raises AnswerError."""
        return answers.read_health(self._ask("rules"))

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of each series of an expression now. Raises AnswerError."""
        return answers.read_rows(self._ask("query", query=expression))

    def received(self) -> dict[str, str]:
        """Return what Alertmanager has, by alert. Raises AnswerError."""
        return answers.list_received(self._get(ALERTMANAGER[0], "/api/v2/alerts"))

    def _ask(self, what: str, **query: str) -> Any:
        path = f"/api/v1/{what}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        return answers.read_data(self._get(PROMETHEUS[0], path), query.get("query", what))

    def _get(self, name: str, path: str) -> bytes:
        tunnel = self._tunnels[name]
        try:
            return bytes(self._http.request("GET", f"http://{HOST}:{tunnel.port}{path}").data)
        except urllib3.exceptions.HTTPError as error:
            raise AnswerError(f"{name} does not answer: {tunnel.trouble or error}; `make status` shows it") from error


def _dialler(cluster: Cluster, name: str, port: int) -> Callable[[], Far]:
    def dial() -> Far:
        pods = cluster.pods(PODS + name)
        if not pods:
            raise AnswerError(f"there is no pod of {name}")
        return cluster.dial(pods[0]["metadata"]["name"], port)

    return dial
