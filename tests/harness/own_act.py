"""The act of a run with a declared pipeline: its own processes, its own sinks, its own records and no others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.embedded.job import RunError
from infra.embedded.process import Child
from infra.embedded.spark import SparkHome
from infra.toolchain.prepare import CHECKOUT
from tests.harness.act import PARTITIONS, Act
from tests.harness.adapters.concurrent_reader import ConcurrentReader
from tests.harness.checkers.declared import Declaration
from tests.harness.collector import KAFKA_SINKS, Collector
from tests.harness.workload.record import Planned
from tests.harness.workload.sender import Sender

PROGRAM = "effectively_once"
COMMAND_S = 300.0
NO_FILES = "no_files"
"""Stands for the sink of files that a concurrent reader follows, of a pipeline that has none."""


@dataclass(frozen=True)
class OwnHome(SparkHome):
    """Starts what a settings file names, with the job's own wheel beside the library's.

    Attributes:
        environment: where its code is found (infra.embedded.job.Job.environment).
    """

    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, name: str, module: str, arguments: list[str], env: Mapping[str, str] | None = None) -> Child:
        """Start `effectively_once run SETTINGS`, and another module as it is."""
        words = ["run", *arguments] if module == PROGRAM else arguments
        return super().start(name, module, words, {**(env or {}), **self.environment})

    def create(self, settings: Path, partitions: int = PARTITIONS, whole: Path | None = None) -> None:
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
        """Run the job's transform over the records of a file (tests.harness.own_given). Raises RunError."""
        path = f"{self.environment['PYTHONPATH']}:{CHECKOUT}"
        words = ["transform", job, str(source.absolute()), str(given.absolute())]
        env = {**self.environment, "PYTHONPATH": path}
        self._done(super().start("transform", "tests.harness.own_given", words, env))

    def _done(self, child: Child) -> None:
        try:
            if not child.wait(COMMAND_S) or child.status():
                raise RunError(child.post_mortem())
        finally:
            child.stop()


class OwnAct(Act):
    """The act with the sinks of a declaration; nothing is sent but the records of the file."""

    _make: Callable[[Path], None] = staticmethod(lambda _: None)

    def declare(
        self, declaration: Declaration, kafka_sinks: Sequence[str], collector: Collector, make: Callable[[Path], None]
    ) -> None:
        """Say whose sinks these are, before `go`.

        Args:
            declaration: what is judged.
            kafka_sinks: all topics of the pipeline.
            collector: reads its sinks.
            make: makes what a settings file needs beside topics.
        """
        self.collector, self._make = collector, make
        others = [f"{self.pipeline}.{sink}" for sink in kafka_sinks if sink not in KAFKA_SINKS]
        self._others = dict.fromkeys(others, self.shards)
        topics = {sink: f"{self.pipeline}.{sink}" for sink in declaration.topics}
        self.reader = ConcurrentReader(
            self.directory,
            self.topics,
            self._chain(),
            topics,
            partitions=self.shards,
            object_sink=(*declaration.manifests, NO_FILES)[0],
        )

    def go(self) -> None:
        """See Act."""
        if self._others:
            self.topics.create(self._others, {f"{name}.progress": self.shards for name in self._others})
        super().go()

    def _main_act(self, sender: Sender) -> None:
        self._make(self.settings_path)
        super()._main_act(sender)

    def _closers(self, sender: Sender) -> Iterator[Planned]:
        """None: nothing is sent but the records of the file."""
        return iter(())

    _settlers = _closers


def python_of(environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Command and path of a Python that can import a job and this checkout."""
    return [sys.executable, "-m", "tests.harness.own_given"], {"PYTHONPATH": f"{environment['PYTHONPATH']}:{CHECKOUT}"}
