"""kubectl on the cluster of our own, for the few things that are done before Pulumi has anything to say."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from infra.cluster.engine import EngineError


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a kubeconfig."""

    program: Path
    kubeconfig: Path

    def run(self, *words: str) -> str:
        """Run it and return its output.

        Raises EngineError with what it said.
        """
        ended = self._call(*words)
        if ended.returncode:
            raise EngineError(f"kubectl {' '.join(words[:3])}: {ended.stderr.strip()}")
        return ended.stdout

    def wait(self, what: str, timeout_s: float, *words: str) -> None:
        """Run one of kubectl's own waits; on failure the error shows the pods that are not well.

        Raises EngineError when the time is up.
        """
        ended = self._call(*words, f"--timeout={timeout_s:.0f}s")
        if ended.returncode:
            pods = self._call("get", "pods", "--all-namespaces", "--output", "wide").stdout
            raise EngineError(f"{what}: {ended.stderr.strip() or ended.stdout.strip()}\n{pods}")

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, "--kubeconfig", self.kubeconfig, *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
