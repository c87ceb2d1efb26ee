"""`make acceptance SUITE=upgrade`: a pipeline of its own in the deployed stack, changed under load, and the verdict."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from effectively_once.pipeline.settings import digest
from effectively_once.store.object_store import BucketAddress
from infra.cluster.access import CHECKOUT
from infra.cluster.lifecycle import Lifecycle
from infra.cluster.login import logged_in
from infra.cluster.record import Record
from infra.cluster.state import state_directory
from infra.console import Console
from infra.embedded.stack import Endpoints
from infra.settings.security import Security
from infra.toolchain.prepare import prepare
from tests.harness.act import AWAY_S, PARTITIONS, Act
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.events import Watch
from tests.harness.adapters.transactions import open_transactions
from tests.harness.controls.names import QUICK
from tests.harness.faults.cluster_platform import Platform
from tests.harness.history import History
from tests.harness.manifest import manifest_of, planned_controls
from tests.harness.play.cluster_acts import PATIENCE, SHARDS, ClusterActs
from tests.harness.play.recorded import run_recorded
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.cluster import EPOCH_ROWS_MAX, ClusterStack
from tests.harness.stack.deployed import Found, Target
from tests.harness.stack.names import kubernetes_name, names
from tests.harness.stack.pods import on_cluster
from tests.harness.subject import Subject, seeded
from tests.harness.upgrade import deployment
from tests.harness.upgrade.changes import (
    LATENESS,
    NOT_PLAYED,
    ROWS,
    USUAL_S,
    Change,
    Facts,
    NoChangeError,
    Step,
    choose,
    count_steps,
    sort_out,
)
from tests.harness.upgrade.deployment import COPY, Deployment, read_config, read_security_of
from tests.harness.upgrade.drivers import DeployedPods
from tests.harness.upgrade.kept import Kept
from tests.harness.upgrade.look import Look, read_servers
from tests.harness.upgrade.play import EVERY_S, Changes
from tests.harness.upgrade.table import markdown

SUITE, PREFIX, EXECUTORS = "upgrade", "up", 2
CLAIM = (
    "On Kubernetes every event in time is counted exactly once per user and minute while the pipeline and what it "
    "stands on are changed under load: no sink misses, doubles, invents or alters a record, and each change is gone on "
    "after within its bound."
)
PORTION_ROWS, PORTION_S = 300, 20
"""Records of one portion, and seconds of event time in it."""
MORE = 60
"""Portions more than changes usually take: some two thirds of them are sent in the end, as fast as they are taken."""


def subject_of(seed: int, steps: int) -> Subject:
    """Return what is sent: for each change portions for as long as one usually takes."""
    portions = MORE + steps * math.ceil(USUAL_S / EVERY_S)
    minutes = math.ceil(portions * PORTION_S / 60)
    return seeded(seed, PORTION_ROWS * portions, minutes, PORTION_ROWS)


def settings_of(name: str, topic: str, subject: Subject) -> dict[str, str]:
    """Return the stack's settings of the run's pipeline, by their paths."""
    own = {
        "identity": name,
        "topic": topic,
        "job": "effectively_once_jobs.user_counts",
        "partitions": str(PARTITIONS),
        "shards": str(SHARDS),
        "window_ms": str(subject.window_ms),
        LATENESS: str(subject.lateness_ms),
        ROWS: str(EPOCH_ROWS_MAX),
        "executors.count": str(EXECUTORS),
        "announce": "true",
    }
    return {f"pipelines.{name}.{key}": value for key, value in own.items()}


def refuse_unmade(record: Record | None) -> None:
    """Refuse a machine on which `make up` made no cluster. Raises NoChangeError."""
    if record is None:
        raise NoChangeError(
            "SUITE=upgrade changes settings, images and the stack that `make up` made on this machine, and there is "
            "none: run `make up`, and name no KUBECONFIG of yours"
        )


def refuse_without_login(security: Security) -> None:
    """Refuse a stack whose broker asks who it is, and knows nobody who runs campaigns. Raises NoChangeError."""
    if security.kafka and not security.campaigns:
        raise NoChangeError(
            "security.kafka is on, and a run has no login to send its records with: `pulumi config set --path "
            "security.campaigns true`, then `make up`"
        )


def on_this_machine(seed: int, console: Console, changes: str | None) -> Results:
    """Change a pipeline on the cluster that `make up` made on this machine while records flow, and judge it.

    Args:
        seed: draws what is sent.
        console: tells what is under way.
        changes: names with commas between; None: all that can be made here.

    Raises:
        NoChangeError: there is no such change, or it cannot be made here; nothing was touched.
        KeptError: a run broke off, and what it has left cannot be put back.
        NotDeployedError: there is no pipeline whose image could be taken, or no helm; nothing was touched.
        PulumiError, ToolchainError, AccessError and other errors of the cluster.
    """
    chosen = choose(changes)
    # Before anything is looked for.
    refuse_unmade(Record.read(state_directory().record))
    with Found.alone(f"make acceptance SUITE={SUITE}", console) as found:
        return Upgrade.of(found, seed, console, chosen, named=changes is not None).run()


@dataclass
class Upgrade:
    """One run.

    Attributes:
        found: the stack.
        seed: draws what is sent.
        console: tells what is under way.
        lifecycle: of the cluster.
        kept: the stack's settings of before.
        changes: what is made.
        facts: the stack before.
        left_out: why other changes are not made.
        others: pipelines that are suspended meanwhile.
    """

    found: Found
    seed: int
    console: Console
    lifecycle: Lifecycle
    kept: Kept
    platform: Platform
    changes: Sequence[Change]
    facts: Facts
    left_out: Mapping[str, str]
    others: Sequence[str]
    stop: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, found: Found, seed: int, console: Console, chosen: Sequence[Change], *, named: bool) -> Upgrade:
        """Find out what can be changed, after a run that broke off has been undone. Raises as `on_this_machine`."""
        lifecycle = Lifecycle.here(console)
        stack = lifecycle.stack()
        stack.adopt_settings()
        kept = Kept(stack.config_file, lifecycle.state.root / COPY)
        if kept.is_there:
            deployment.put_back(lifecycle, stack, kept, console)
        given = read_config(stack.config_file.read_text())
        refuse_unmade(Record.read(lifecycle.state.record))
        refuse_without_login(security := read_security_of(given))
        deployed = found.deployed
        platform = Platform.of(deployed.kubeconfig, deployed.context, deployed.platform, None)
        servers = {role: read_servers(one.cluster.pods(one.selector)) for role, one in platform.servers.items()}
        before = {ROWS: EPOCH_ROWS_MAX, LATENESS: 0, "shards": SHARDS}
        facts = Facts("", security, EXECUTORS, before, lambda _: "", Look(servers=servers))
        changes, left_out = sort_out(chosen, facts, named=named)
        for name, why in {**left_out, **(NOT_PLAYED if not named else {})}.items():
            console.say(f"… left out: {name}. {why}")
        return cls(
            found, seed, console, lifecycle, kept, platform, changes, facts, left_out, [*deployed.platform.pipelines]
        )

    @property
    def steps(self) -> list[Step]:
        """The updates, as far as they are known before the pipeline is there."""
        return [step for one in self.changes for step in one.steps(self.facts)]

    def run(self) -> Results:
        """Play and judge; whatever comes, the stack is as it was afterwards."""
        subject, count = subject_of(self.seed, len(self.steps)), count_steps(self.steps)
        told = f"{subject.says}; changes: {', '.join(f'{name} {times}' for name, times in count.items())}"
        manifest = partial(self._manifest, subject=subject, count=count)
        play = partial(self._play, subject=subject)
        results = run_recorded(CHECKOUT, self.seed, told, self.console, manifest=manifest, play=play)
        (CHECKOUT / "runs" / "latest" / "changes.md").write_text(markdown(results.changes))
        self.console.say(f"\n{markdown(results.changes)}")
        return results

    def _manifest(self, run: str, *, subject: Subject, count: Mapping[str, int]) -> dict[str, Any]:
        pipeline, topic = names(run, PREFIX)
        return manifest_of(
            run,
            CLAIM,
            self.seed,
            subject,
            checkout=CHECKOUT,
            pipeline=pipeline,
            topic=topic,
            shards=SHARDS,
            strikes=(),
            controls=planned_controls(QUICK),
            named={"suite": SUITE, "changes": ",".join(count), "left_out": ",".join(self.left_out)},
            changes=count,
        )

    def _play(self, directory: RunDirectory, *, subject: Subject) -> None:
        # The reader of the chain keeps whom it believes: it is made where the logins are.
        with logged_in(self.found.deployed) as endpoints:
            self._play_on(self._deployment(directory, endpoints), directory, subject)

    def _play_on(self, made: Deployment, directory: RunDirectory, subject: Subject) -> None:
        try:
            made.make_room(self.others)
            target = self.found.target()
            with on_cluster(self.found, target, self.console, directory, patience=PATIENCE) as stack:
                try:
                    self._act(stack, made, subject)
                    ClusterActs(stack, self.seed, self.stop).controls(QUICK)
                finally:
                    # While the run's objects are still there: whose driver goes on would write to what is deleted.
                    made.put_back()
        finally:
            made.put_back()

    def _deployment(self, directory: RunDirectory, endpoints: Endpoints) -> Deployment:
        deployed = self.found.deployed
        name, topic = names(directory.path.name, PREFIX)
        namespace = deployed.platform.namespaces.pipelines
        return Deployment(
            self.lifecycle,
            prepare(self.console),
            self.lifecycle.stack(),
            self.kept,
            name,
            self.console,
            lambda: Target.of(deployed.pulumi("stack", "output", "--json"), name).values,
            Cluster(deployed.kubeconfig, deployed.context, namespace),
            self.platform.servers,
            ChainReader(BucketAddress(endpoints.s3_endpoint, endpoints.s3_bucket), name, topic, AWAY_S),
            directory,
        )

    def _act(self, stack: ClusterStack, made: Deployment, subject: Subject) -> None:
        directory, tools, bootstrap = stack.directory, stack.tools, stack.endpoints.kafka_bootstrap
        own = {"shards": SHARDS, "window_ms": subject.window_ms, "lateness_ms": subject.lateness_ms}
        settings = stack.settings_of(PREFIX, own)
        name = kubernetes_name(settings.pipeline)
        prefix = f"{settings.pipeline}."
        with History(directory.history_path) as history:
            watch = Watch(directory.path / "work" / "events.jsonl", history)
            made.watch = watch
            log = stack.follow({"name": name}, watch.path, directory.logs, labelled=False)
            steps: list[Step] = []

            def deploy(path: Path) -> None:
                made.set(settings_of(settings.pipeline, settings.topic, subject))
                made.update()
                read = made.read_settings()
                assert made.keep_settings(read) == path.name, "the first settings are those that drivers begin with"
                facts = replace(self.facts, name=settings.pipeline, settings=read, digest=digest, look=made.look())
                steps.extend(step for one in self.changes for step in one.steps(facts))

            drivers = DeployedPods(
                stack.cluster,
                stack.chart,
                {**stack.target.values, "name": name},
                stack.run,
                log,
                self.console.say,
                history=history,
                deploy=deploy,
                deployed=made.ask,
            )
            changes = Changes(steps, made, watch, history, say=self.console.say, give_up=drivers.give_up)
            drivers.changing = changes.is_alive
            Act(
                directory,
                history,
                stack,
                subject,
                settings=settings,
                drivers=drivers,
                watch=watch,
                console=self.console,
                stop=self.stop,
                faults=(),
                open_transactions=lambda: [
                    one for one in open_transactions(tools.java, tools.classpath, bootstrap) if one.startswith(prefix)
                ],
                partitions=PARTITIONS,
                meanwhile=changes,
            ).go()
            history.end()
