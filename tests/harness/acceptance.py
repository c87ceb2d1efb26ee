"""The acceptance run: a pipeline in pods, its executors struck, the controls, and the verdict of the demo's judge."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.cluster.access import CHECKOUT, load_access
from infra.cluster.state import state_directory
from infra.console import Console
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jdk import find_jdk
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.rendering import Chart
from tests.harness.adapters.tenancy import Tenancy
from tests.harness.deployed import Deployed, NotDeployedError, Target
from tests.harness.evidence import PlannedControl, PlannedFaults
from tests.harness.manifest import NEGATIVE_CONTROLS, manifest_of
from tests.harness.recorded import run_recorded
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import Strike
from tests.harness.stage import BASELINE, BASELINE_PREFIX, MAIN_PREFIX, SHARDS, BrokerTools, Stage, names
from tests.harness.subject import Subject, seeded
from tests.harness.suites import PORTION_MINUTES, ROWS_PER_MINUTE, Suite, counted, suite_named

__all__ = ["Acceptance", "NotDeployedError", "on_this_machine"]

CLAIM = (
    "On Kubernetes every event in time is counted exactly once per user and minute, whichever executor pods are "
    "killed or deleted: no sink misses, doubles, invents or alters a record, and no reader sees one change."
)
BASELINE_CLAIM, BASELINE_MINUTES = "Without a fault every output is exact.", 12


@dataclass
class Acceptance:
    """One acceptance run from start to verdict; whichever way `run` ends, the cluster is as it was before.

    Attributes:
        checkout: where `runs/` and the charts are.
        deployed: the stack.
        suite: what is done.
        seed: draws what is sent and struck.
        console: tells what is under way.
        tools: of the broker.
        helm: renders the chart.
        stop: set from outside to end early.
    """

    checkout: Path
    deployed: Deployed
    suite: Suite
    seed: int
    console: Console
    tools: BrokerTools
    helm: Path
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Results:
        """Run it all and judge it; a run that broke off is judged too, by what there is (see `run_recorded`).

        Raises:
            NotDeployedError: before anything is touched.
        """
        target = Target.of(self.deployed.pulumi("stack", "output", "--json"))
        strikes = self.suite.drawn(self.seed)
        subject = subject_of(self.seed, self.suite.minutes(len(strikes)), portioned=True)
        return run_recorded(
            self.checkout, self.seed, subject.says, self.console,
            manifest=lambda name: self._manifest(name, subject, strikes),
            play=lambda directory: self._play(directory, target, subject, strikes),
        )  # fmt: skip

    def _play(self, directory: RunDirectory, target: Target, subject: Subject, strikes: tuple[Strike, ...]) -> None:
        endpoints = self.deployed.endpoints()
        os.environ["AWS_ACCESS_KEY_ID"] = endpoints.s3_access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = endpoints.s3_secret_key
        cluster = Cluster(self.deployed.kubeconfig, self.deployed.context, target.namespace)
        chart = Chart(self.helm, self.checkout / "charts" / "streaming-pipeline")
        stage = Stage(
            directory, endpoints, cluster, chart, target, self.tools, self.seed, console=self.console, stop=self.stop
        )
        with Tenancy(cluster, stage.run, self.console.say):
            try:
                if self.suite.baseline:
                    stage.baseline(*self._baseline(directory.path.name))
                stage.main(subject, strikes)
                stage.controls()
            finally:
                stage.tidy()

    def _manifest(self, name: str, subject: Subject, strikes: Sequence[Strike]) -> dict[str, Any]:
        baseline = (PlannedControl(name=BASELINE, must="pass"),) if self.suite.baseline else ()
        pipeline, topic = names(name, MAIN_PREFIX)
        return manifest_of(
            name, CLAIM, self.seed, subject, checkout=self.checkout, pipeline=pipeline, topic=topic, shards=SHARDS,
            faults_planned=len(strikes), faults=[PlannedFaults.model_validate(one) for one in counted(strikes)],
            controls=(*baseline, *NEGATIVE_CONTROLS), named={"suite": self.suite.name},
        )  # fmt: skip

    def _baseline(self, name: str) -> tuple[Subject, dict[str, Any]]:
        """What the baseline of a run of that name sends, and its manifest."""
        seed = self.seed + 1
        subject = subject_of(seed, BASELINE_MINUTES, portioned=False)
        pipeline, topic = names(name, BASELINE_PREFIX)
        return subject, manifest_of(
            f"{name}/{BASELINE}", BASELINE_CLAIM, seed, subject, checkout=self.checkout, pipeline=pipeline, topic=topic,
            shards=SHARDS, faults_planned=0, faults=(), named={"suite": self.suite.name},
        )  # fmt: skip


def on_this_machine(suite: str, seed: int, console: Console) -> Results:
    """Run a suite on the cluster that this machine's state directory or KUBECONFIG names, and judge it.

    Args:
        suite: `smoke` or `all`.
        seed: draws what is sent and struck.
        console: tells what is under way.

    Raises:
        NoSuiteError: there is no such suite; nothing was touched.
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        ToolchainError: Java or the broker's jars are not to be had.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    state = state_directory()
    environment = state.process_environment()
    helm = shutil.which("helm", path=environment["PATH"])
    if helm is None:
        raise NotDeployedError("there is no `helm` on PATH or among the project's tools: run `make tools`")
    with console.step("broker jars (Maven)"):
        jars = resolve_jars(Cache(cache_root()), "kafka")
    deployed = load_access(environment, state.root)
    tools = BrokerTools(find_jdk().java, jars)
    return Acceptance(CHECKOUT, deployed, suite_named(suite), seed, console, tools, Path(helm)).run()


def subject_of(seed: int, minutes: int, *, portioned: bool) -> Subject:
    """What is sent in some minutes of event time."""
    portion = ROWS_PER_MINUTE * PORTION_MINUTES if portioned else 0
    return seeded(seed, ROWS_PER_MINUTE * minutes, minutes, portion)
