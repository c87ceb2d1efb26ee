"""Pods of a cluster: pipelines of the Spark operator beside the deployed ones, which are suspended meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.object_store import BucketAddress
from infra.console import Console
from infra.embedded.job import RunError
from infra.embedded.spark import EXECUTORS
from infra.embedded.stack import Endpoints
from infra.toolchain.prepare import CHECKOUT
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError
from tests.harness.adapters.events import Watch
from tests.harness.adapters.job_home import PROGRAM
from tests.harness.adapters.pod_database import PodDatabase
from tests.harness.adapters.pod_hold import ENVIRONMENT, PodHold
from tests.harness.adapters.pod_log import DRIVER, EXECUTOR, PodLog
from tests.harness.adapters.pod_login import PodLogin
from tests.harness.adapters.rendering import RUN_LABEL, Chart, of_run, values_for
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.adapters.topics import Topics
from tests.harness.adapters.witness import PodWitness
from tests.harness.history import History
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.deployed import BrokerTools, Target
from tests.harness.stack.names import identity, kubernetes_name, names
from tests.harness.stack.processes import Asked, Processes, Role, write_settings
from tests.harness.stack.stack import Patience

PATIENCE = Patience(driver_s=240.0, replaced_s=120.0, take_over_s=180.0)
# Epochs are bounded by the pacing; this bounds what a restarted driver takes at once.
EPOCH_ROWS_MAX = 24_000
CREATE_S = 240.0
BASELINE = "baseline"
"""The run without a fault that a run may begin with; its folder is below this one's."""


@dataclass
class ClusterStack:
    """Pods of a cluster, and servers that are there; whatever runs here belongs to one run.

    Attributes:
        directory: of the run, whose name is in that of everything.
        endpoints: how this process reaches the servers.
        cluster: where the pods are.
        chart: of a pipeline.
        target: the deployed pipeline, whose image and resources are taken.
        tools: of the broker.
        console: tells what is under way.
        patience: how long things may take here.
        lent: the result store; None where the run needs none.
        login: of its pods.
    """

    directory: RunDirectory
    endpoints: Endpoints
    cluster: Cluster
    chart: Chart
    target: Target
    tools: BrokerTools
    console: Console
    patience: Patience = PATIENCE
    lent: PodDatabase | None = None
    login: PodLogin = field(default_factory=PodLogin)
    broker_data: None = field(default=None, init=False)
    _followers: list[PodLog] = field(default_factory=list, init=False)
    _pipelines: dict[str, PipelineSettings] = field(default_factory=dict, init=False)

    @property
    def run(self) -> str:
        """Value of the label that everything of this run has."""
        return kubernetes_name(identity(self.directory.path.name, "r"))

    @property
    def replication(self) -> int:
        """See Stack."""
        return int(self.target.values.get("source", {}).get("replication", 1))

    @property
    def database(self) -> PodDatabase:
        """See Stack."""
        assert self.lent is not None, "whoever uses it has asked for it"
        return self.lent

    @property
    def topics(self) -> Topics:
        """Makes and deletes topics."""
        return Topics(self.endpoints.kafka_bootstrap, self.replication)

    def witness(self, history: History) -> PodWitness:
        """See Stack."""
        return PodWitness(history, lambda: self.cluster.reader.get("/api/v1/pods")["items"])

    def pipeline(self, name: str) -> str:
        """See Stack: the first letters of its words, and the digits of the run."""
        pipeline, _ = names(self.directory.path.name, "".join(word[0] for word in name.split("_")))
        return pipeline

    def settings(self, role: Role) -> PipelineSettings:
        """See Stack."""
        database = {"database": self.lent.inside} if self.lent is not None else {}
        return self.settings_of("", {**database, **role.settings})

    def settings_of(self, prefix: str, own: Mapping[str, Any] | None = None) -> PipelineSettings:
        """Settings of a pipeline of this run: the deployed one's addresses, names by the prefix, and its own."""
        pipeline, topic = names(self.directory.path.name, prefix)
        mine = {"pipeline": pipeline, "topic": topic, "epoch_rows_max": EPOCH_ROWS_MAX, "dense_offsets": True}
        settings = PipelineSettings.model_validate({**self.target.values["settings"], **mine, **(own or {})})
        self._pipelines[settings.pipeline] = settings
        return settings

    def values(self, settings: PipelineSettings, **more: Any) -> dict[str, Any]:
        """Values of the chart for a pipeline of this run; `more` as of `values_for`."""
        name, whole = kubernetes_name(settings.pipeline), settings.model_dump(mode="json")
        return {
            **values_for(self.target.values, name, whole, **more),
            **self.login.values(self.run, self.target.values),
        }

    def prepare(
        self, directory: RunDirectory, history: History, module: str, roles: Sequence[Role], **asked: Unpack[Asked]
    ) -> Processes:
        """See Stack."""
        watch = Watch(directory.path.absolute() / "work" / "events.jsonl", history)
        memory_mib, files = asked.get("memory_mib"), asked.get("files", ())
        executors = {"count": asked.get("executors", EXECUTORS), **({"memoryMib": memory_mib} if memory_mib else {})}
        values = {
            "module": None if module == PROGRAM else module,
            "environment": {**ENVIRONMENT, **asked.get("environment", {})},
            "extraFiles": {path.replace("/", "."): (CHECKOUT / path).read_text(encoding="utf-8") for path in files},
            "executors": {**self.target.values.get("executors", {}), **executors},
            **asked.get("chart", {}),
        }
        drivers, paths = [], []
        for role in roles:
            settings = self.settings(role)
            named = kubernetes_name(settings.pipeline) + ("" if role.name == "driver" else f"-{role.name}")
            own = {**self.values(settings), **values, **self._of(role), "name": named}
            log = self.follow(own, watch.path, directory.logs)
            say = self.console.say
            drivers.append(SupervisedPods(self.cluster, self.chart, own, self.run, log, say, history=history))
            whole = settings.model_dump(mode="json")
            write_settings(directory, role, {**whole, **role.own})
            path = directory.path.absolute() / "work" / f"{named}.json"
            directory.write_json(path, whole)
            paths.append(path)
        hold = PodHold(self.cluster, [one.log for one in drivers], (EXECUTOR, DRIVER))
        return Processes(tuple(drivers), tuple(paths), tuple(roles), watch, hold, None)

    def create(self, directory: RunDirectory, role: Role, partitions: int) -> None:
        """See Stack."""
        settings = self.settings(role)
        directory.write_json(directory.path / "settings-create.json", settings.model_dump(mode="json"))
        try:
            self.make(settings, partitions, **self._of(role))
        except ClusterTimeoutError as error:
            raise RunError(str(error)) from error

    def make(self, settings: PipelineSettings, partitions: int, /, **changes: Any) -> None:
        """Have the chart's own job make what a pipeline of this run lacks.

        Args:
            settings: its own, of `settings_of`.
            partitions: of its source.
            changes: values of the chart.

        Raises:
            ClusterTimeoutError: the job did not succeed.
        """
        values = self.values(settings) | changes
        values["source"] = {**values.get("source", {}), "create": True, "partitions": partitions}
        objects = of_run(self.chart.render(values, self.cluster.namespace), self.run, self.cluster.namespace, jobs=True)
        (job,) = (one["metadata"]["name"] for one in objects if one["kind"] == "Job")
        self.cluster.apply([one for one in objects if one["kind"] != "SparkApplication"])
        self.cluster.wait_for(
            f"job {job}, which makes topics and tables of {settings.pipeline},",
            lambda: bool(self.cluster.job(job).get("succeeded")),
            CREATE_S,
            lambda: self.cluster.job(job),
        )

    def follow(self, values: Mapping[str, Any], events: Path, logs: Path, *, labelled: bool = True) -> PodLog:
        """Follow what the pods of a chart's values announce, to the end of the run.

        Args:
            values: of the chart.
            events: file that announcements are appended to.
            logs: folder of the pods' logs.
            labelled: whether the pods have the run's label; those that the stack deployed do not.
        """
        label = f"{RUN_LABEL}={self.run}," if labelled else ""
        selector = f"{label}sparkoperator.k8s.io/app-name={values['name']}"
        log = PodLog(self.cluster.reader, self.cluster.namespace, selector, events, logs)
        log.start()
        self._followers.append(log)
        return log

    def tidy(self) -> None:
        """End following, and delete the run's topics and objects; the cluster's objects are the tenancy's to delete."""
        for follower in self._followers:
            follower.stop()
        for run in (self.directory, self.directory.control(BASELINE)):
            shutil.rmtree(run.path / "work", ignore_errors=True)
        self.cluster.delete_labelled(f"{RUN_LABEL}={self.run}")
        prefixes = tuple(name for one in self._pipelines.values() for name in (f"{one.pipeline}.", one.topic))
        if prefixes:
            self.topics.delete(prefixes)
        for one in self._pipelines.values():
            address = BucketAddress(self.endpoints.s3_endpoint, one.s3_bucket)
            ChainReader(address, one.pipeline, one.topic).delete_objects()

    def _of(self, role: Role) -> dict[str, Any]:
        """Values of the chart that settings bring along."""
        secret = self.lent.values(self.run) if self.lent is not None else {}
        return {**secret, "jobSettings": dict(role.own)}
