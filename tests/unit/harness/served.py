"""The cluster of one pod that serves, whose container is a process of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.embedded.ports import free_ports
from tests.harness.adapters.service_pod import PORT
from tests.unit.harness.sleepers import soon


class Served:
    """What a service's adapter asks of a cluster.

    Args:
        folder: the container's.
        name: of the pod.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name, (self.port,) = folder, name, free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None
        self.done: list[str] = []

    def run(self, container: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Start the container's command on this machine's Python, with a port of ours."""
        assert container["command"] == ["/usr/bin/tini", "--", "python3"]
        words = [word.replace("0.0.0.0", "127.0.0.1") for word in container["args"]]  # noqa: S104
        words[words.index("--port") + 1] = str(self.port)
        self.process = subprocess.Popen([sys.executable, *words], cwd=self.folder, env={**os.environ, **env})

    def pods(self, selector: str) -> list[dict[str, Any]]:
        self.done.append(selector)
        return [{"status": {"podIP": "10.0.0.7"}}]

    def dial(self, pod: str, port: int) -> Any:
        assert (pod, port) == (self.name, PORT)
        return socket.create_connection(("127.0.0.1", self.port))

    def wait_for(self, what: str, holds: Any, _timeout_s: float, _seen: Any) -> None:
        soon(what, holds)

    def delete_labelled(self, selector: str) -> None:
        self.done.append(f"delete {selector}")
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)
