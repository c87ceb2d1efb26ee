"""The acceptance run: a pipeline in pods, its executors struck, the controls, and the verdict of the demo's judge."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from effectively_once.object_store import BucketAddress
from effectively_once.settings import PipelineSettings
from infra.cluster.access import CHECKOUT, load_access
from infra.cluster.state import state_directory
from infra.console import Console
from infra.embedded.stack import Endpoints
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jdk import find_jdk
from infra.versions import of_run
from tests.harness import judge as judging
from tests.harness import report
from tests.harness.act import Act
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.events import Watch
from tests.harness.adapters.pod_log import PodLog
from tests.harness.adapters.pods import PodDrivers
from tests.harness.adapters.rendering import RUN_LABEL, Chart, values_for
from tests.harness.adapters.tenancy import Tenancy
from tests.harness.adapters.topics import Topics
from tests.harness.adapters.transactions import open_transactions
from tests.harness.collector import GLOBAL_COUNTS, KAFKA_SINKS
from tests.harness.controls.names import CONTROLS
from tests.harness.controls.run import run_controls
from tests.harness.demo import git_state
from tests.harness.history import History
from tests.harness.place import Patience, Place
from tests.harness.results import Results
from tests.harness.run_directory import RunDirectory, new_run, point_latest
from tests.harness.schedule import Strike, plan_of
from tests.harness.subject import Subject, seeded
from tests.harness.suites import PORTION_MINUTES, ROWS_PER_MINUTE, Suite, counted, suite_named

CLAIM = (
    "On Kubernetes every event in time is counted exactly once per user and minute, whichever executor pods are "
    "killed or deleted: no sink misses, doubles, invents or alters a record, and no reader sees one change."
)
BASELINE, BASELINE_MINUTES = "baseline", 12
CONTROL_MODULE = "negative_controls"
PATIENCE = Patience(driver_s=180.0, replaced_s=120.0, take_over_s=180.0)
# Epochs are bounded by the pacing; this bounds what a restarted driver takes at once.
EPOCH_ROWS_MAX = 24_000


class Deployed(Protocol):
    """The deployed stack, as infra.cluster.access.Access gives it."""

    @property
    def kubeconfig(self) -> Path:
        """File of the cluster's address and credentials."""

    @property
    def context(self) -> str | None:
        """Context of the kubeconfig, None for its current one."""

    def endpoints(self) -> Endpoints:
        """Addresses outside the cluster, with credentials."""

    def pulumi(self, *words: str) -> str:
        """What a command of Pulumi prints for the stack."""


@dataclass(frozen=True)
class BrokerTools:
    """Java and the broker's jars: open transactions are listed by the broker's own tool."""

    java: Path
    classpath: Path


class NotDeployedError(Exception):
    """The stack has no pipeline whose image and resources a run could take; the message says what to do."""


@dataclass(frozen=True)
class Target:
    """What a run needs to know of the stack: the namespace of pipelines, and the values of a deployed one."""

    namespace: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, output: str) -> Target:
        """Read `pulumi stack output --json`. Raises NotDeployedError."""
        try:
            platform = json.loads(output)["platform"]
            pipelines, namespace = platform["pipelines"], platform["namespaces"]["pipelines"]
        except (ValueError, KeyError, TypeError) as error:
            raise NotDeployedError(f"the stack's output `platform` lacks {error}: run `make up`") from error
        for name in ("user_counts", "user-counts"):
            if name in pipelines:
                return cls(namespace, pipelines[name])
        there = ", ".join(sorted(pipelines)) or "none"
        raise NotDeployedError(f"the stack has no pipeline user_counts (there is: {there}): deploy it, then run again")


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
        """Run it all and judge it; a run that broke off is judged too, by what there is, and is never a pass.

        Raises:
            NotDeployedError: before anything is touched.
        """
        target = Target.of(self.deployed.pulumi("stack", "output", "--json"))
        path = new_run(self.checkout / "runs", self.seed)
        directory = RunDirectory(path)
        strikes = self.suite.drawn(self.seed)
        subject = subject_of(self.seed, self.suite.minutes(len(strikes)), portioned=True)
        self.console.say(f"run {path.relative_to(self.checkout)}, seed {self.seed}: {subject.says}")
        names = [*([BASELINE] if self.suite.baseline else []), *CONTROLS]
        controls = [{"name": name, "must": "pass" if name == BASELINE else "fail"} for name in names]
        directory.write_json(
            directory.manifest_path, self._manifest(directory.path.name, self.seed, subject, strikes, controls)
        )
        point_latest(path)
        try:
            self._play(directory, target, subject, strikes)
        except Exception as error:
            # The judge finds no end in the history, so the verdict is unknown or worse.
            trace = directory.logs / "error.txt"
            trace.parent.mkdir(exist_ok=True)
            trace.write_text(traceback.format_exc())
            self.console.say(f"✗ the run broke off: {error}\n  details: {trace.relative_to(self.checkout)}")
        with self.console.step("judge"):
            results = judging.judge(path)
            page = report.write(path)
            if self.suite.baseline and directory.control(BASELINE).path.is_dir():
                report.write(directory.control(BASELINE).path)
        self.console.say(f"report {page.relative_to(self.checkout)}")
        return results

    def _play(self, directory: RunDirectory, target: Target, subject: Subject, strikes: tuple[Strike, ...]) -> None:
        endpoints = self.deployed.endpoints()
        os.environ["AWS_ACCESS_KEY_ID"] = endpoints.s3_access_key
        os.environ["AWS_SECRET_ACCESS_KEY"] = endpoints.s3_secret_key
        stage = Stage(self, target, endpoints, directory)
        with Tenancy(stage.cluster, stage.run, self.console.say):
            try:
                if self.suite.baseline:
                    stage.baseline(subject_of(self.seed + 1, BASELINE_MINUTES, portioned=False))
                stage.main(subject, strikes)
                stage.controls()
            finally:
                stage.tidy()

    def _manifest(
        self, name: str, seed: int, subject: Subject, strikes: tuple[Strike, ...], controls: list[dict[str, str]]
    ) -> dict[str, Any]:
        numbers = subject.numbers
        pipeline = identity(name, "uc")
        return {
            "format": 1, "run": name, "claim": CLAIM, "seed": seed, "started_at": _now_ms(),
            "settings": {
                "pipeline": pipeline, "topic": f"events_{pipeline}", "shards": 2, "window_ms": subject.window_ms,
                "lateness_ms": subject.lateness_ms, "sinks": [*KAFKA_SINKS, GLOBAL_COUNTS], "suite": self.suite.name,
            },
            "workload": {
                "kind": subject.kind, "sent": numbers.sent, "duplicates_sent": numbers.duplicates_sent,
                "late_sent": numbers.late_sent, "malformed_sent": numbers.malformed_sent,
            },
            "faults_planned": len(strikes), "faults": counted(strikes), "concurrent_reader": True,
            "controls": controls, "versions": of_run(), "git": git_state(self.checkout), "control": None,
        }  # fmt: skip


@dataclass
class Stage:
    """The pipelines of one run on the cluster: the main one, the baseline's, the controls'."""

    of: Acceptance
    target: Target
    endpoints: Endpoints
    directory: RunDirectory

    def __post_init__(self) -> None:
        """Connect; nothing is changed yet."""
        deployed = self.of.deployed
        self.run = identity(self.directory.path.name, "r").replace("_", "-")
        self.cluster = Cluster(deployed.kubeconfig, deployed.context, self.target.namespace)
        self.chart = Chart(self.of.helm, self.of.checkout / "charts" / "streaming-pipeline")
        self._followers: list[PodLog] = []
        self._pipelines: list[PipelineSettings] = []

    def main(self, subject: Subject, strikes: tuple[Strike, ...]) -> None:
        """Strike, drain, epilogue, evidence."""
        settings = self._settings("uc", subject)
        with History(self.directory.history_path) as history:
            self._act(self.directory, history, settings, subject, strikes)
            history.record("phase", phase="judge")

    def baseline(self, subject: Subject) -> None:
        """The same without a fault, in a run directory of its own below this one's."""
        own = self.directory.control(BASELINE)
        own.path.mkdir(parents=True)
        settings = self._settings("ub", subject)
        manifest = self.of._manifest(f"{self.directory.path.name}/{BASELINE}", self.of.seed + 1, subject, (), [])
        manifest["settings"] |= {"pipeline": settings.pipeline, "topic": settings.topic}
        own.write_json(own.manifest_path, {**manifest, "claim": "Without a fault every output is exact."})
        with self.of.console.step("baseline, without a fault"), History(own.history_path) as history:
            self._act(own, history, settings, subject, ())
            history.record("phase", phase="judge")

    def controls(self) -> None:
        """The negative controls, in one application of their own."""
        settings = self._settings("nc", None)
        path = self.directory.path / "settings-controls.json"
        path.write_text(settings.model_dump_json(indent=1))
        events = self.directory.path / "work" / "controls.jsonl"
        script = Path(__file__).parent / "controls" / "job.py"
        values = values_for(
            self.target.values, _kubernetes(settings.pipeline), settings.model_dump(mode="json"),
            module=CONTROL_MODULE, extra_files={f"{CONTROL_MODULE}.py": script.read_text()},
        )  # fmt: skip
        with (
            self.of.console.step("negative controls, which must fail"),
            History(self.directory.path / "work" / "controls-history.jsonl") as scratch,
        ):
            run_controls(
                self.directory, self._drivers(values, events, self.directory.logs), self._topics(),
                Watch(events, scratch), settings=path, seed=self.of.seed, console=self.of.console, stop=self.of.stop,
            )  # fmt: skip

    def tidy(self) -> None:
        """End following, and delete the run's topics and objects; the cluster's objects are the tenancy's to delete."""
        for follower in self._followers:
            follower.stop()
        for run in (self.directory, self.directory.control(BASELINE)):
            shutil.rmtree(run.path / "work", ignore_errors=True)
        self.cluster.delete_labelled(f"{RUN_LABEL}={self.run}")
        prefixes = tuple(name for one in self._pipelines for name in (f"{one.pipeline}.", one.topic))
        if prefixes:
            self._topics().delete(prefixes)
        for one in self._pipelines:
            address = BucketAddress(self.endpoints.s3_endpoint, one.s3_bucket)
            ChainReader(address, one.pipeline, one.topic).delete_objects()

    def _act(
        self, directory: RunDirectory, history: History, settings: PipelineSettings, subject: Subject,
        strikes: tuple[Strike, ...],
    ) -> None:  # fmt: skip
        values = values_for(self.target.values, _kubernetes(settings.pipeline), settings.model_dump(mode="json"))
        watch = Watch(directory.path / "work" / "events.jsonl", history)
        drivers = self._drivers(values, watch.path, directory.logs)
        place = Place(self.endpoints, settings, drivers, watch, self._replication(), PATIENCE)
        tools, bootstrap = self.of.tools, self.endpoints.kafka_bootstrap
        prefix = f"{settings.pipeline}."
        Act(
            directory, history, place, subject, console=self.of.console, stop=self.of.stop,
            faults=plan_of(self.of.seed, strikes, settings.shards),
            # The broker is shared: other pipelines' transactions come and go.
            open_transactions=lambda: [
                one for one in open_transactions(tools.java, tools.classpath, bootstrap) if one.startswith(prefix)
            ],
        ).go()  # fmt: skip

    def _drivers(self, values: Mapping[str, Any], events: Path, logs: Path) -> PodDrivers:
        selector = f"{RUN_LABEL}={self.run},sparkoperator.k8s.io/app-name={values['name']}"
        log = PodLog(self.cluster.reader, self.cluster.namespace, selector, events, logs)
        log.start()
        self._followers.append(log)
        return PodDrivers(self.cluster, self.chart, values, self.run, log, self.of.console.say)

    def _settings(self, prefix: str, subject: Subject | None) -> PipelineSettings:
        """Settings of a pipeline of this run: the deployed one's addresses, names of its own."""
        pipeline = identity(self.directory.path.name, prefix)
        own: dict[str, Any] = {"pipeline": pipeline, "topic": f"events_{pipeline}", "epoch_rows_max": EPOCH_ROWS_MAX}
        if subject is not None:
            own |= {"shards": 2, "window_ms": subject.window_ms, "lateness_ms": subject.lateness_ms}
        settings = PipelineSettings.model_validate({**self.target.values["settings"], **own})
        self._pipelines.append(settings)
        return settings

    def _topics(self) -> Topics:
        return Topics(self.endpoints.kafka_bootstrap, self._replication())

    def _replication(self) -> int:
        return int(self.target.values.get("source", {}).get("replication", 1))


def run_acceptance(
    deployed: Deployed, suite: str, seed: int, console: Console, *, checkout: Path, tools: BrokerTools, helm: Path,
    stop: threading.Event | None = None,
) -> Results:  # fmt: skip
    """Run a suite on a running cluster and judge it.

    Args:
        deployed: the stack (infra.cluster.access.load_access).
        suite: `smoke` or `all`.
        seed: draws what is sent and struck.
        console: tells what is under way.
        checkout: where `runs/` and the charts are.
        tools: Java and the broker's jars.
        helm: path of helm.
        stop: set from outside to end early.

    Raises:
        NoSuiteError, NotDeployedError: nothing was touched.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    return Acceptance(
        checkout, deployed, suite_named(suite), seed, console, tools, helm, stop or threading.Event()
    ).run()  # fmt: skip


def on_this_machine(suite: str, seed: int, console: Console) -> Results:
    """Run a suite on the cluster that this machine's state directory or KUBECONFIG names; raises as `run_acceptance`.

    Raises:
        NotDeployedError: also when there is no helm.
        ToolchainError: Java or the broker's jars are not to be had.
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
    return run_acceptance(deployed, suite, seed, console, checkout=CHECKOUT, tools=tools, helm=Path(helm))


def subject_of(seed: int, minutes: int, *, portioned: bool) -> Subject:
    """What is sent in some minutes of event time."""
    portion = ROWS_PER_MINUTE * PORTION_MINUTES if portioned else 0
    return seeded(seed, ROWS_PER_MINUTE * minutes, minutes, portion)


def identity(run: str, prefix: str) -> str:
    """Name of a pipeline of a run: `uc_` and the digits of the run's name, so that two runs never share one."""
    digits = "".join(one for one in run.partition("/")[0] if one.isdigit())
    return f"{prefix}_{digits}"[:38]


def _kubernetes(pipeline: str) -> str:
    return pipeline.replace("_", "-")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
