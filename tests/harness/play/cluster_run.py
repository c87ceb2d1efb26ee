"""One run on a cluster: a pipeline of its own in pods, struck as a programme says, the controls, and the verdict."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cluster.access import CHECKOUT
from infra.console import Console
from tests.harness.act import PARTITIONS
from tests.harness.adapters.events import Watch
from tests.harness.adapters.leaders import Leaders
from tests.harness.adapters.reassignment import reorder
from tests.harness.adapters.services import Services
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.controls.names import QUICK, NegativeControl
from tests.harness.evidence import PlannedControl
from tests.harness.faults.arsenal import Arsenal
from tests.harness.faults.cluster_platform import Platform
from tests.harness.manifest import code_of, manifest_of, planned_controls
from tests.harness.play.cluster_acts import BASELINE_PREFIX, MAIN_PREFIX, PATIENCE, SHARDS, ClusterActs
from tests.harness.play.recorded import run_recorded
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import PlannedFault
from tests.harness.schemas import USER_COUNTS, WITH_TABLE
from tests.harness.stack.cluster import BASELINE, ClusterStack
from tests.harness.stack.deployed import Found, Target
from tests.harness.stack.names import names
from tests.harness.stack.pods import on_cluster
from tests.harness.subject import Subject

if TYPE_CHECKING:
    # It brings Spark, and most runs have none.
    from tests.harness.definition.asked import Definition
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
        arsenal: makes the faults of the main pipeline, on its stack; None where they are of executors alone.
        table: what the pipeline writes to beside its other sinks; None: nothing.
        partitions: of the main pipeline's input topic.
        changes: values of its chart, laid over those of the deployed one.
        definition: of the pipeline; None: it is `user_counts`.
        services: reads servers of several copies while the main pipeline runs; None: nobody does.
    """

    claim: str
    subject: Subject
    planned: Sequence[PlannedFault]
    named: dict[str, str]
    baseline: Subject | None = None
    controls: Sequence[NegativeControl] = QUICK
    arsenal: Callable[[ClusterStack, SupervisedPods, Watch], Arsenal] | None = None
    table: ResultTable | None = None
    partitions: int = PARTITIONS
    changes: Mapping[str, Any] = field(default_factory=dict)
    definition: Definition | None = None
    services: Callable[[ClusterStack], Services | None] | None = None


@dataclass
class ClusterRun:
    """One run from start to verdict; whichever way `run` ends, the cluster is as it was before.

    Attributes:
        checkout: where `runs/` and the charts are.
        found: the cluster.
        target: its pipeline.
        programme: what is done.
        seed: what it was drawn from.
        console: tells what is under way.
        stop: set from outside to end early.
    """

    checkout: Path
    found: Found
    target: Target
    programme: Programme
    seed: int
    console: Console
    stop: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, found: Found, target: Target, programme: Programme, seed: int, console: Console) -> ClusterRun:
        """On this machine's cluster, below this checkout."""
        return cls(CHECKOUT, found, target, programme, seed, console)

    def run(self, says: str = "") -> Results:
        """Run it all and judge it; a run that broke off is judged too, by what there is (see `run_recorded`).

        Args:
            says: what is struck, for the console.
        """
        told = "; ".join(one for one in (self.programme.subject.says, says) if one)
        return run_recorded(self.checkout, self.seed, told, self.console, manifest=self._manifest, play=self._play)

    def _play(self, directory: RunDirectory) -> None:
        programme, arsenal = self.programme, self.programme.arsenal
        with on_cluster(
            self.found,
            self.target,
            self.console,
            directory,
            checkout=self.checkout,
            lent=programme.table.lent if programme.table is not None else None,
            patience=PATIENCE,
        ) as stack:
            acts = ClusterActs(stack, self.seed, self.stop, programme.table)
            if programme.baseline is not None:
                acts.baseline(programme.baseline, self._baseline(directory.path.name, programme.baseline))
            acts.main(
                programme.subject,
                programme.planned,
                (lambda drivers, watch: arsenal(stack, drivers, watch)) if arsenal else None,
                partitions=programme.partitions,
                changes=programme.changes,
                definition=programme.definition,
                services=None if programme.services is None else programme.services(stack),
            )
            if programme.controls:
                acts.controls(programme.controls)

    def _manifest(self, name: str) -> dict[str, Any]:
        programme = self.programme
        baseline = (PlannedControl(name=BASELINE, must="pass"),) if programme.baseline is not None else ()
        pipeline, topic = names(name, MAIN_PREFIX)
        if programme.definition is not None:
            of_pipeline = programme.definition.in_manifest(programme.subject)
            of_pipeline["named"] |= {"on": "cluster", **programme.named}
        else:
            extra = programme.changes.get("extraFiles", ())
            of_pipeline = {
                "claim": programme.claim,
                "shards": SHARDS,
                "schemas": USER_COUNTS if programme.table is None else WITH_TABLE,
                "code": code_of(self.checkout, *(self.checkout / "tests" / "harness" / one for one in extra)),
                "named": programme.named,
            }
        return manifest_of(
            name,
            seed=self.seed,
            subject=programme.subject,
            checkout=self.checkout,
            strikes=[one.strike for one in programme.planned],
            controls=(*baseline, *planned_controls(programme.controls)),
            **{**of_pipeline, "pipeline": pipeline, "topic": topic},
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


def leaders_of(stack: ClusterStack, platform: Platform, shards: int = SHARDS) -> Leaders | None:
    """Which brokers lead the partitions of a run's pipeline; None where there is one broker, or none of ours."""
    if platform.brokers < 2:
        return None
    pipeline, topic = names(stack.directory.path.name, MAIN_PREFIX)
    bootstrap, tools = stack.endpoints.kafka_bootstrap, stack.tools
    return Leaders(bootstrap, pipeline, topic, shards, partial(reorder, tools.java, tools.classpath, bootstrap))
