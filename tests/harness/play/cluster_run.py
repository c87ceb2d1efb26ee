"""One run on a cluster: a pipeline of its own in pods, struck as a programme says, the controls, and the verdict."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cluster.access import CHECKOUT, Access, load_access
from infra.cluster.state import state_directory
from infra.console import Console
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jdk import find_jdk
from tests.harness.act import PARTITIONS
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.events import Watch
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.reassignment import reorder
from tests.harness.adapters.rendering import Chart
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.adapters.tenancy import Tenancy
from tests.harness.controls.names import QUICK, NegativeControl
from tests.harness.evidence import PlannedControl
from tests.harness.faults.arsenal import Arsenal
from tests.harness.faults.cluster_platform import Platform
from tests.harness.manifest import code_of, manifest_of, planned_controls
from tests.harness.play.deployed import Deployed, NotDeployedError, Target
from tests.harness.play.recorded import run_recorded
from tests.harness.play.stage import BASELINE, BASELINE_PREFIX, MAIN_PREFIX, SHARDS, BrokerTools, Stage, names
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import PlannedFault
from tests.harness.schemas import USER_COUNTS, WITH_TABLE
from tests.harness.subject import Subject

if TYPE_CHECKING:
    # It brings Spark, and most runs have none.
    from tests.harness.play.result_table import ResultTable

BASELINE_CLAIM = "Without a fault every output is exact."


@dataclass(frozen=True)
class Programme:
    """What a run does.

    Attributes:
        claim: the sentence that its report shows.
        subject: what is sent.
        planned: the faults, in their order.
        named: settings that no verdict depends on, for the manifest.
        baseline: what a run without fault sends, which comes first; None: there is none.
        controls: the negative controls that are played after it.
        arsenal: makes the faults of a stage's pipeline; None where they are of executors alone.
        table: what the pipeline writes to beside its other sinks; None: nothing.
        partitions: of the main pipeline's input topic.
        changes: values of its chart, laid over those of the deployed one.
    """

    claim: str
    subject: Subject
    planned: Sequence[PlannedFault]
    named: dict[str, str]
    baseline: Subject | None = None
    controls: Sequence[NegativeControl] = QUICK
    arsenal: Callable[[Stage, SupervisedPods, Watch], Arsenal] | None = None
    table: ResultTable | None = None
    partitions: int = PARTITIONS
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What a run on this machine's cluster needs.

    Attributes:
        deployed: the stack.
        tools: of the broker.
        helm: renders the chart.
    """

    deployed: Access
    tools: BrokerTools
    helm: Path

    @classmethod
    def here(cls, console: Console) -> Found:
        """Find it, on the cluster that this machine's state directory or KUBECONFIG names.

        Raises:
            NotDeployedError: there is no helm.
            ToolchainError: Java or the broker's jars are not to be had.
            AccessError and other errors of the cluster: it cannot be reached.
        """
        state = state_directory()
        environment = state.process_environment()
        helm = shutil.which("helm", path=environment["PATH"])
        if helm is None:
            raise NotDeployedError("there is no `helm` on PATH or among the project's tools: run `make tools`")
        with console.step("broker jars (Maven)"):
            jars = resolve_jars(Cache(cache_root()), "kafka")
        return cls(load_access(environment, state.root), BrokerTools(find_jdk().java, jars), Path(helm))

    def target(self) -> Target:
        """The deployed pipeline. Raises NotDeployedError."""
        return Target.of(self.deployed.pulumi("stack", "output", "--json"))


@dataclass
class ClusterRun:
    """One run from start to verdict; whichever way `run` ends, the cluster is as it was before.

    Attributes:
        checkout: where `runs/` and the charts are.
        deployed: the stack.
        target: its pipeline.
        programme: what is done.
        seed: what it was drawn from.
        console: tells what is under way.
        tools: of the broker.
        helm: renders the chart.
        stop: set from outside to end early.
    """

    checkout: Path
    deployed: Deployed
    target: Target
    programme: Programme
    seed: int
    console: Console
    tools: BrokerTools
    helm: Path
    stop: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, found: Found, target: Target, programme: Programme, seed: int, console: Console) -> ClusterRun:
        """On this machine's cluster, below this checkout."""
        return cls(CHECKOUT, found.deployed, target, programme, seed, console, found.tools, found.helm)

    def run(self, says: str = "") -> Results:
        """Run it all and judge it; a run that broke off is judged too, by what there is (see `run_recorded`).

        Args:
            says: what is struck, for the console.
        """
        told = "; ".join(one for one in (self.programme.subject.says, says) if one)
        return run_recorded(self.checkout, self.seed, told, self.console, manifest=self._manifest, play=self._play)

    def _play(self, directory: RunDirectory) -> None:
        programme, endpoints = self.programme, self.deployed.endpoints()
        os.environ["AWS_ACCESS_KEY_ID"] = endpoints.s3_access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = endpoints.s3_secret_key
        cluster = Cluster(self.deployed.kubeconfig, self.deployed.context, self.target.namespace)
        stage = Stage(
            directory,
            endpoints,
            cluster,
            Chart(self.helm, self.checkout / "charts" / "streaming-pipeline"),
            self.target,
            self.tools,
            self.seed,
            console=self.console,
            stop=self.stop,
            table=programme.table,
        )
        arsenal = programme.arsenal
        lent: AbstractContextManager[None] = (
            programme.table.lent(cluster, stage.run) if programme.table is not None else nullcontext()
        )
        with Tenancy(cluster, stage.run, self.console.say), lent:
            try:
                if programme.baseline is not None:
                    stage.baseline(programme.baseline, self._baseline(directory.path.name, programme.baseline))
                stage.main(
                    programme.subject,
                    programme.planned,
                    (lambda drivers, watch: arsenal(stage, drivers, watch)) if arsenal else None,
                    partitions=programme.partitions,
                    changes=programme.changes,
                )
                if programme.controls:
                    stage.controls(programme.controls)
            finally:
                stage.tidy()

    def _manifest(self, name: str) -> dict[str, Any]:
        programme = self.programme
        baseline = (PlannedControl(name=BASELINE, must="pass"),) if programme.baseline is not None else ()
        pipeline, topic = names(name, MAIN_PREFIX)
        extra = programme.changes.get("extraFiles", ())
        return manifest_of(
            name,
            programme.claim,
            self.seed,
            programme.subject,
            checkout=self.checkout,
            pipeline=pipeline,
            topic=topic,
            shards=SHARDS,
            strikes=[one.strike for one in programme.planned],
            controls=(*baseline, *planned_controls(programme.controls)),
            named=programme.named,
            schemas=USER_COUNTS if programme.table is None else WITH_TABLE,
            code=code_of(self.checkout, *(self.checkout / "tests" / "harness" / one for one in extra)),
        )

    def _baseline(self, name: str, subject: Subject) -> dict[str, Any]:
        """The manifest of the baseline of a run of that name."""
        pipeline, topic = names(name, BASELINE_PREFIX)
        return manifest_of(
            f"{name}/{BASELINE}",
            BASELINE_CLAIM,
            self.seed + 1,
            subject,
            checkout=self.checkout,
            pipeline=pipeline,
            topic=topic,
            shards=SHARDS,
            strikes=(),
            named=self.programme.named,
        )


def leaders_of(stage: Stage, platform: Platform) -> Leaders | None:
    """Which brokers lead the partitions of a run's pipeline; None where there is one broker, or none of ours."""
    if platform.brokers < 2:
        return None
    pipeline, topic = names(stage.directory.path.name, MAIN_PREFIX)
    bootstrap, tools = stage.endpoints.kafka_bootstrap, stage.tools
    return Leaders(bootstrap, pipeline, topic, SHARDS, partial(reorder, tools.java, tools.classpath, bootstrap))
