"""The pipelines of one acceptance run on the cluster: what is started there, and deleted again."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effectively_once.pipeline.settings import PipelineSettings
from effectively_once.store.object_store import BucketAddress
from infra.console import Console
from infra.embedded.stack import Endpoints
from tests.harness.act import PARTITIONS, Act
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_hold import ENVIRONMENT
from tests.harness.adapters.pod_log import PodLog
from tests.harness.adapters.pods import PodDrivers
from tests.harness.adapters.rendering import RUN_LABEL, Chart, of_run, values_for
from tests.harness.adapters.supervised_pods import SupervisedPods
from tests.harness.adapters.topics import Topics
from tests.harness.adapters.transactions import open_transactions
from tests.harness.adapters.witness import PodWitness
from tests.harness.collector import USER_COUNTS, Outputs
from tests.harness.controls.names import NegativeControl
from tests.harness.controls.run import run_controls
from tests.harness.faults.arsenal import Arsenal
from tests.harness.history import History
from tests.harness.place import Patience, Place
from tests.harness.play.deployed import Target
from tests.harness.play.inquired_in_pods import inquiry_in_pods
from tests.harness.run_directory import RunDirectory
from tests.harness.schedule import PlannedFault
from tests.harness.stall_sorts import NEIGHBOURS
from tests.harness.subject import Subject

if TYPE_CHECKING:
    # It brings Spark, and most runs have none.
    from tests.harness.definition.asked import Definition
    from tests.harness.play.result_table import ResultTable

BASELINE, SHARDS = "baseline", 2
MAIN_PREFIX, BASELINE_PREFIX, CONTROLS_PREFIX = "uc", "ub", "nc"
CONTROL_MODULE, CONTROL_SCRIPT = "negative_controls", Path(__file__).parents[1] / "controls" / "job.py"
PATIENCE = Patience(driver_s=180.0, replaced_s=120.0, take_over_s=180.0)
# Epochs are bounded by the pacing; this bounds what a restarted driver takes at once.
EPOCH_ROWS_MAX = 24_000
CREATE_S = 240.0


@dataclass(frozen=True)
class BrokerTools:
    """Java and the broker's jars: open transactions are listed by the broker's own tool."""

    java: Path
    classpath: Path


@dataclass
class Stage:
    """The pipelines of one run on the cluster: the main one, the baseline's, the controls'.

    Attributes:
        directory: where settings and evidence go.
        endpoints: how this process reaches the servers.
        cluster: where the pods are.
        chart: of a pipeline.
        target: the deployed pipeline, whose image and resources are taken.
        tools: of the broker.
        seed: draws what the controls send.
        console: tells what is under way.
        stop: set from outside to end early.
        table: what the main pipeline writes to beside its other sinks; None: nothing.
    """

    directory: RunDirectory
    endpoints: Endpoints
    cluster: Cluster
    chart: Chart
    target: Target
    tools: BrokerTools
    seed: int
    console: Console
    stop: threading.Event
    table: ResultTable | None = None
    _followers: list[PodLog] = field(default_factory=list, init=False)
    _pipelines: dict[str, PipelineSettings] = field(default_factory=dict, init=False)

    @property
    def run(self) -> str:
        """Value of the label that everything of this run has."""
        return _kubernetes(identity(self.directory.path.name, "r"))

    def main(
        self,
        subject: Subject,
        planned: Sequence[PlannedFault],
        arsenal: Callable[[SupervisedPods, Watch], Arsenal] | None = None,
        *,
        partitions: int = PARTITIONS,
        changes: Mapping[str, Any] | None = None,
        definition: Definition | None = None,
    ) -> None:
        """Strike, drain, epilogue, evidence.

        Args:
            subject: what is sent.
            planned: the faults, in their order.
            arsenal: makes them. Left out they are executors' alone, and a driver that ends is the end of the run.
            partitions: of the input topic.
            changes: values of the chart, laid over those of the deployed pipeline.
            definition: of the pipeline; None: it is `user_counts`.
        """
        changes = changes or {}
        settings = self._of(MAIN_PREFIX, subject, self.table, changes.get("settings"))
        self._act(
            self.directory,
            settings,
            subject,
            planned,
            arsenal,
            table=self.table,
            partitions=partitions,
            changes=changes,
            definition=definition,
        )

    def baseline(self, subject: Subject, manifest: Mapping[str, Any]) -> None:
        """The same without a fault, in a run directory of its own below this one's."""
        own = self.directory.control(BASELINE)
        own.path.mkdir(parents=True)
        settings = self._of(BASELINE_PREFIX, subject)
        own.write_json(own.manifest_path, manifest)
        with self.console.step("baseline, without a fault"):
            self._act(own, settings, subject, ())

    def controls(self, controls: Sequence[NegativeControl]) -> None:
        """The negative controls, in one application of their own."""
        settings = self.settings(CONTROLS_PREFIX)
        path = self.directory.path / "settings-controls.json"
        path.write_text(settings.model_dump_json(indent=1))
        events = self.directory.path / "work" / "controls.jsonl"
        values = values_for(
            self.target.values,
            _kubernetes(settings.pipeline),
            settings.model_dump(mode="json"),
            module=CONTROL_MODULE,
            extra_files={f"{CONTROL_MODULE}.py": CONTROL_SCRIPT.read_text()},
        )
        with (
            self.console.step("negative controls, which must fail"),
            History(self.directory.path / "work" / "controls-history.jsonl") as scratch,
        ):
            log = self._followed(values, events, self.directory.logs)
            drivers = PodDrivers(self.cluster, self.chart, values, self.run, log, self.console.say)
            run_controls(
                self.directory,
                drivers,
                self._topics(),
                Watch(events, scratch),
                settings=path,
                seed=self.seed,
                console=self.console,
                stop=self.stop,
                controls=controls,
            )

    def settings(self, prefix: str, own: Mapping[str, Any] | None = None) -> PipelineSettings:
        """Settings of a pipeline of this run: the deployed one's addresses, names of its own, and what is given."""
        pipeline, topic = names(self.directory.path.name, prefix)
        mine = {"pipeline": pipeline, "topic": topic, "epoch_rows_max": EPOCH_ROWS_MAX, "dense_offsets": True}
        settings = PipelineSettings.model_validate({**self.target.values["settings"], **mine, **(own or {})})
        self._pipelines[settings.pipeline] = settings
        return settings

    def supervised(
        self, settings: PipelineSettings, watch: Watch, history: History, logs: Path, **changes: Any
    ) -> SupervisedPods:
        """Drivers of a pipeline of this run, of which a dead one is followed by the next.

        Args:
            settings: its own, of `settings`.
            watch: reads what its pods announce.
            history: told of drivers.
            logs: folder of its pods' logs.
            changes: values of the chart.
        """
        values = self._values(settings) | changes
        log = self._followed(values, watch.path, logs)
        return SupervisedPods(self.cluster, self.chart, values, self.run, log, self.console.say, history=history)

    def create(self, settings: PipelineSettings, partitions: int, within_s: float, /, **changes: Any) -> None:
        """Have the chart's own job make what a pipeline of this run lacks.

        Args:
            settings: its own, of `settings`.
            partitions: of its source.
            within_s: how long that may take.
            changes: values of the chart.

        Raises:
            ClusterTimeoutError: the job did not succeed.
        """
        values = self._values(settings) | changes
        values["source"] = {**values.get("source", {}), "create": True, "partitions": partitions}
        objects = of_run(self.chart.render(values, self.cluster.namespace), self.run, self.cluster.namespace, jobs=True)
        (job,) = (one["metadata"]["name"] for one in objects if one["kind"] == "Job")
        self.cluster.apply([one for one in objects if one["kind"] != "SparkApplication"])
        self.cluster.wait_for(
            f"job {job}, which makes topics and tables of {settings.pipeline},",
            lambda: bool(self.cluster.job(job).get("succeeded")),
            within_s,
            lambda: self.cluster.job(job),
        )

    def tidy(self) -> None:
        """End following, and delete the run's topics and objects; the cluster's objects are the tenancy's to delete."""
        for follower in self._followers:
            follower.stop()
        for run in (self.directory, self.directory.control(BASELINE)):
            shutil.rmtree(run.path / "work", ignore_errors=True)
        self.cluster.delete_labelled(f"{RUN_LABEL}={self.run}")
        prefixes = tuple(name for one in self._pipelines.values() for name in (f"{one.pipeline}.", one.topic))
        if prefixes:
            self._topics().delete(prefixes)
        for one in self._pipelines.values():
            address = BucketAddress(self.endpoints.s3_endpoint, one.s3_bucket)
            ChainReader(address, one.pipeline, one.topic).delete_objects()

    def _act(
        self,
        directory: RunDirectory,
        settings: PipelineSettings,
        subject: Subject,
        planned: Sequence[PlannedFault],
        arsenal: Callable[[SupervisedPods, Watch], Arsenal] | None = None,
        *,
        table: ResultTable | None = None,
        partitions: int = PARTITIONS,
        changes: Mapping[str, Any] | None = None,
        definition: Definition | None = None,
    ) -> None:
        tools, bootstrap = self.tools, self.endpoints.kafka_bootstrap
        prefix = f"{settings.pipeline}."
        with History(directory.history_path) as history:
            # Settings are of the pipeline already, checked.
            laid = {name: own for name, own in (changes or {}).items() if name != "settings"}
            values = lay_over(self._values(settings), laid)
            if any(one.strike.target == NEIGHBOURS for one in planned):
                values = lay_over(values, {"environment": ENVIRONMENT})
            if table is not None:
                values = table.values(values, self.run)
            create = partial(self.create, settings, partitions, CREATE_S, **values)
            watch = Watch(directory.path / "work" / "events.jsonl", history)
            log = self._followed(values, watch.path, directory.logs)
            pods = (self.cluster, self.chart, values, self.run, log, self.console.say)
            supervised = SupervisedPods(*pods, history=history) if arsenal else None
            drivers = supervised or PodDrivers(*pods)
            place = Place(
                self.endpoints,
                settings,
                drivers,
                watch,
                self.replication,
                PATIENCE,
                witness=lambda noted: PodWitness(noted, lambda: self.cluster.reader.get("/api/v1/pods")["items"]),
            )
            act = Act(
                directory,
                history,
                place,
                subject,
                console=self.console,
                stop=self.stop,
                faults=planned,
                arsenal=arsenal(supervised, watch) if arsenal and supervised else None,
                # The broker is shared: other pipelines' transactions come and go.
                open_transactions=lambda: [
                    one for one in open_transactions(tools.java, tools.classpath, bootstrap) if one.startswith(prefix)
                ],
                partitions=partitions,
                outputs=self._outputs(directory, settings, table, definition, create),
            )
            with inquiry_in_pods(self, directory, settings, supervised) if subject.gateways else nullcontext():
                act.go()
            history.end()

    def _outputs(
        self,
        directory: RunDirectory,
        settings: PipelineSettings,
        table: ResultTable | None,
        definition: Definition | None,
        create: Callable[[], None],
    ) -> Outputs:
        """What a pipeline writes to; `create` makes tables of one that its author defined."""
        if definition is None:
            return USER_COUNTS if table is None else table.outputs(settings.pipeline, settings.shards)
        tables = None if table is None else table.tables(settings.pipeline)

        def make(_: Path) -> None:
            create()
            if table is not None and tables is not None:
                table.drop_later(tables)

        return definition.outputs(directory, settings, self.endpoints, tables, make)

    def _followed(self, values: Mapping[str, Any], events: Path, logs: Path) -> PodLog:
        selector = f"{RUN_LABEL}={self.run},sparkoperator.k8s.io/app-name={values['name']}"
        log = PodLog(self.cluster.reader, self.cluster.namespace, selector, events, logs)
        log.start()
        self._followers.append(log)
        return log

    def _of(
        self, prefix: str, subject: Subject, table: ResultTable | None = None, changes: Mapping[str, Any] | None = None
    ) -> PipelineSettings:
        own = {"shards": SHARDS, "window_ms": subject.window_ms, "lateness_ms": subject.lateness_ms}
        return self.settings(prefix, own | (table.settings if table is not None else {}) | dict(changes or {}))

    def _values(self, settings: PipelineSettings) -> dict[str, Any]:
        return values_for(self.target.values, _kubernetes(settings.pipeline), settings.model_dump(mode="json"))

    def _topics(self) -> Topics:
        return Topics(self.endpoints.kafka_bootstrap, self.replication)

    @property
    def replication(self) -> int:
        """Copies of every topic of the run."""
        return int(self.target.values.get("source", {}).get("replication", 1))


def lay_over(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a chart, some of them changed; of a group the entries that are named."""
    return {
        **values,
        **{
            name: {**(values.get(name) or {}), **own} if isinstance(own, Mapping) else own
            for name, own in changes.items()
        },
    }


def identity(run: str, prefix: str) -> str:
    """Name of a pipeline of a run: `uc_` and the digits of the run's name, so that two runs never share one."""
    digits = "".join(one for one in run.partition("/")[0] if one.isdigit())
    return f"{prefix}_{digits}"[:38]


def names(run: str, prefix: str) -> tuple[str, str]:
    """Names of a pipeline of a run and of its source topic."""
    pipeline = identity(run, prefix)
    return pipeline, f"events_{pipeline}"


def _kubernetes(pipeline: str) -> str:
    return pipeline.replace("_", "-")
