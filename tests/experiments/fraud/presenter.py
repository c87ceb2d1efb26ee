"""The presenter beside the embedded stack: started, asked, and what it answered written down."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import urllib3

from infra.embedded.ports import HOST
from infra.embedded.process import Child, wait_for
from infra.embedded.server import Server

START_TIMEOUT_S = 30.0
MODULE = "effectively_once_jobs.fraud.presenter"


class Presenter(Server):
    """One presenter of a result store.

    Args:
        database: its address; credentials are in the environment.
        log: of the process.
        environment: where its code is found.
    """

    name = "presenter"

    def __init__(self, database: str, log: Path, environment: Mapping[str, str]) -> None:
        super().__init__(log)
        self._database, self._environment, self._port = database, environment, 0
        self._http = urllib3.PoolManager(retries=False, timeout=10.0)

    def start(self) -> None:
        """Start, and return when it answers. Raises ServerError."""
        self._start_on(1, self._at)

    def ask(self, id_: str) -> tuple[int, Any]:
        """Status and document of its answer about a transaction."""
        found = self._http.request("GET", f"http://{HOST}:{self._port}/decisions/{id_}")
        return found.status, orjson.loads(found.data)

    def _at(self, ports: list[int], _attempt: int) -> None:
        (self._port,) = ports

    def _launch(self) -> None:
        argv = [sys.executable, "-m", MODULE, "--port", str(self._port), "--database", self._database]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        child = Child(self.name, argv, self._log, cwd=self._log.parent, env=self._environment)
        self._child = child
        wait_for("the presenter", START_TIMEOUT_S, lambda: self.ask("nobody")[0] == 404, child)
