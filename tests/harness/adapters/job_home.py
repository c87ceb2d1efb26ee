"""Starts a pipeline that settings name, with its own code beside the library's: its drivers, and what they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.embedded.job import RunError
from infra.embedded.process import Child
from infra.embedded.spark import SparkHome
from infra.toolchain.prepare import CHECKOUT

PROGRAM = "effectively_once"
COMMAND_S = 300.0


@dataclass(frozen=True)
class JobHome(SparkHome):
    """Starts what a settings file names, with the job's own wheel beside the library's.

    Attributes:
        environment: where its code is found (infra.embedded.job.Job.environment).
    """

    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, name: str, module: str, arguments: list[str], env: Mapping[str, str] | None = None) -> Child:
        """Start `effectively_once run SETTINGS`, and another module as it is."""
        words = ["run", *arguments] if module == PROGRAM else arguments
        return super().start(name, module, words, {**(env or {}), **self.environment})

    def create(self, settings: Path, partitions: int, whole: Path | None = None) -> None:
        """Make what is not there of topics and tables, as a deployment does.

        Args:
            settings: the library's.
            partitions: of the source.
            whole: what the job's program reads, where that is another file.

        Raises:
            RunError: it cannot be made.
        """
        words = ["create", str(settings), "--source-partitions", str(partitions)]
        words += ["--whole", str(whole)] if whole is not None else []
        self._done(super().start("create", PROGRAM, words, self.environment))

    def transform(self, job: str, source: Path, given: Path) -> None:
        """Run the job's transform over the records of a file (tests.harness.definition.declared). Raises RunError."""
        path = f"{self.environment['PYTHONPATH']}:{CHECKOUT}"
        words = ["transform", job, str(source.absolute()), str(given.absolute())]
        env = {**self.environment, "PYTHONPATH": path}
        self._done(super().start("transform", "tests.harness.definition.declared", words, env))

    def _done(self, child: Child) -> None:
        try:
            if not child.wait(COMMAND_S) or child.status():
                raise RunError(child.post_mortem())
        finally:
            child.stop()
