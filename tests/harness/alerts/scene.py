"""The deployed pipeline and its servers as they are struck, and what is owed to each of them after a fault."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from effectively_once.kafka_client import client_config
from effectively_once.operate import control_commands
from effectively_once.pipeline.settings import PipelineSettings
from infra.cluster.api import ClusterError
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError, label_of
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.held_pod import FIND_JVM
from tests.harness.adapters.rendering import Chart, of_run, values_for
from tests.harness.adapters.server_pods import ServerPods
from tests.harness.alerts.answers import AnswerError
from tests.harness.alerts.feed import Feed
from tests.harness.alerts.watcher import Watcher

DRIVER, EXECUTOR = "driver", "executor"
RETENTION = "retention.ms"
READY_S, STARTS_S, KAFKA_S = 300.0, 300.0, 20.0
TOUCHED = "effectively-once/touched-for"
"""Any change of the object makes the operator look at it, and forget how often it tried; the name means nothing."""
BESIDE: Mapping[str, Mapping[str, Any]] = {
    "driver": {"cpuRequest": "10m"},
    "executors": {"count": 1, "cpuRequest": "10m"},
}
"""Of a second driver of the pipeline: its node may be full."""
SAID_S = 15.0


@dataclass
class Scene:
    """What faults are made of. Each change says first how it is undone, which `heal` does, the last one first.

    Attributes:
        run: label of what is made here.
        watcher: Prometheus.
        pipelines: namespace of the drivers.
        platform: that of the servers.
        operator: that of the Spark operator; None: an installed one is used.
        settings: the pipeline's, with addresses as this machine reaches them.
        values: of its chart.
        chart: of a pipeline.
        servers: by role, to kill them.
        feed: sends records.
        say: tells what is under way.
    """

    run: str
    watcher: Watcher
    pipelines: Cluster
    platform: Cluster
    operator: Cluster | None
    settings: PipelineSettings
    values: Mapping[str, Any]
    chart: Chart
    servers: Mapping[str, ServerPods]
    feed: Feed
    say: Callable[[str], None]
    owed: list[tuple[str, Callable[[], object]]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def pipeline(self) -> str:
        """Identity, as metrics name it."""
        return self.settings.pipeline

    @property
    def application(self) -> str:
        """Name of the SparkApplication."""
        return str(self.values["name"])

    def count(self, role: str) -> int:
        """How many pods of ours a server has."""
        return self.servers[role].count if role in self.servers else 0

    def owe(self, what: str, undo: Callable[[], object]) -> None:
        """Note how something is undone, before it is done."""
        self.say(f"  … to undo: {what}")
        self.owed.append((what, undo))

    def heal(self) -> None:
        """Undo all, the last first; one that fails is raised once the others were tried."""
        failed: list[str] = []
        while self.owed:
            what, undo = self.owed.pop()
            try:
                undo()
            except Exception as error:
                # Whatever it is, the others are undone too.
                failed.append(f"{what}: {error}")
        if failed:
            raise ClusterTimeoutError("; ".join(failed))

    def wait_for(self, what: str, holds: Callable[[], bool], within_s: float) -> None:
        """Wait until `holds()`; an answer that does not come counts as no. Raises ClusterTimeoutError."""
        trouble: list[object] = [""]

        def ask() -> bool:
            try:
                return holds()
            except (AnswerError, ClusterError, OSError) as error:
                trouble[0] = error
                return False

        self.pipelines.wait_for(what, ask, within_s, lambda: trouble[0])

    def value(self, name: str, **labels: str) -> float | None:
        """The greatest value of a metric of the pipeline's drivers now; None: there is none."""
        found = self.series(name, **labels)
        return max((value for _, value in found), default=None)

    def series(self, name: str, **labels: str) -> list[tuple[dict[str, str], float]]:
        """Labels and values of a metric of the pipeline's drivers now."""
        own = ",".join(f'{key}="{value}"' for key, value in {"pipeline": self.pipeline, **labels}.items())
        return self.watcher.query(f"effectively_once_{name}{{{own}}}")

    def await_value(self, what: str, name: str, holds: Callable[[float], bool], within_s: float = STARTS_S) -> None:
        """Wait until Prometheus has a value of a metric. Raises ClusterTimeoutError."""

        def ask() -> bool:
            value = self.value(name)
            return value is not None and holds(value)

        self.wait_for(what, ask, within_s)

    def pods(self, role: str) -> list[Any]:
        """The pipeline's pods of a role that run and are to stay."""
        found = self.pipelines.pods(f"effectively-once/pipeline={self.application},spark-role={role}")
        return [
            one
            for one in found
            if (one.get("status") or {}).get("phase") == "Running" and not one["metadata"].get("deletionTimestamp")
        ]

    def at_work(self) -> str | None:
        """The pod of the driver that took the chain over last, as far as Prometheus knows."""
        found = self.series("generation")
        return max(found, key=lambda one: one[1])[0].get("pod") if found else None

    def delete_pods(self, pods: Sequence[Any]) -> None:
        """Delete them at once."""
        for one in pods:
            with suppress(NoProcessError):
                self.pipelines.delete_pod(one["metadata"]["name"], one["metadata"]["uid"], 0)

    def delete_driver(self, name: str) -> None:
        """Delete one driver's pod at once, if it is there."""
        self.delete_pods([one for one in self.pods(DRIVER) if one["metadata"]["name"] == name])

    def restart_drivers(self) -> None:
        """Delete the drivers' pods, and wait for one that took over after that. Raises ClusterTimeoutError."""
        before, pods = self.value("generation") or 0, self.pods(DRIVER)
        self.delete_pods(pods)
        ended = {one["metadata"]["uid"] for one in pods}
        selector = f"effectively-once/pipeline={self.application},spark-role={DRIVER}"
        # While its object is there the operator waits.
        self.wait_for(
            "the drivers' pods to be gone",
            lambda: not ended & {one["metadata"]["uid"] for one in self.pipelines.pods(selector)},
            READY_S,
        )
        self.touch()
        self.await_value("another driver at work", "generation", lambda value: value > before)

    def touch(self) -> None:
        """Have the operator try again at once."""
        change = {"metadata": {"annotations": {TOUCHED: f"{self.run}-{time.time_ns()}"}}}
        for one in self.pipelines.applications(f"effectively-once/pipeline={self.application}"):
            self.pipelines.patch_application(one["metadata"]["name"], change)

    def scale(self, cluster: Cluster, kind: str, name: str, replicas: int) -> None:
        """Have so many pods of a set, and wait until it is so; undone by as many as there were, all ready."""
        before = cluster.replicas(kind, name)
        self.owe(
            f"kubectl -n {cluster.namespace} scale {kind} {name} --replicas={before}",
            lambda: self._scale(cluster, kind, name, before),
        )
        self._scale(cluster, kind, name, replicas)

    def _scale(self, cluster: Cluster, kind: str, name: str, replicas: int) -> None:
        cluster.scale(kind, name, replicas)
        what = f"{replicas} pods of {kind} {name}"
        cluster.wait_for(what, lambda: cluster.serving(kind, name) == (replicas, replicas), READY_S, lambda: what)

    def cordon(self) -> None:
        """Have no node take new pods."""
        names = [one["metadata"]["name"] for one in self.pipelines.nodes()]

        def set_all(run: str | None) -> None:
            for one in names:
                self.pipelines.cordon(one, run)

        self.owe(f"kubectl uncordon {' '.join(names)}", lambda: set_all(None))
        set_all(self.run)

    def pause(self) -> None:
        """Have operators pause the pipeline, and wait until Prometheus knows and a batch waits."""
        self.owe("effectively-once resume", lambda: control_commands.resume(self.settings, self.say))
        control_commands.pause(self.settings, self.say)
        self.await_value("the pipeline to be paused", "paused", lambda value: value == 1)
        # A query without a batch asks the broker all the time, and ends without an answer.
        self.await_value("records that wait", "input_unread_offsets", lambda value: value > 0)

    def keep_input(self, seconds: int) -> None:
        """Have the broker keep the input for so long, and a new driver know it."""
        before = self._retention()
        self.owe(f"{RETENTION} of {self.settings.topic} to {before}, new drivers", lambda: self._keep_again(before))
        self._set_retention(str(seconds * 1000))
        self.restart_drivers()
        self.await_value("a driver to know the retention", "input_retention_seconds", lambda value: value == seconds)

    def _keep_again(self, before: str) -> None:
        self._set_retention(before)
        self.restart_drivers()

    def _retention(self) -> str:
        (asked,) = self._admin().describe_configs([self._topic()], request_timeout=KAFKA_S).values()
        return str(asked.result()[RETENTION].value)

    def _set_retention(self, value: str) -> None:
        entry = ConfigEntry(RETENTION, value, incremental_operation=AlterConfigOpType.SET)
        (done,) = self._admin().incremental_alter_configs([self._topic([entry])], request_timeout=KAFKA_S).values()
        done.result()

    def _admin(self) -> Any:
        return AdminClient(client_config(self.settings.kafka_bootstrap))

    def _topic(self, entries: list[Any] | None = None) -> Any:
        return ConfigResource(ResourceType.TOPIC, self.settings.topic, incremental_configs=entries)

    def set_wrongly(self, **wrong: Any) -> None:
        """Put settings into the pipeline's ConfigMap that it refuses; undone with new drivers."""
        name = f"{self.application}-settings"
        before = self.pipelines.config_map(name)
        self.owe(f"ConfigMap {name} as it was, new drivers", lambda: self._set_again(name, before))
        changed = json.dumps({**json.loads(before["settings.json"]), **wrong})
        self.pipelines.patch_config_map(name, {**before, "settings.json": changed})

    def _set_again(self, name: str, before: Mapping[str, str]) -> None:
        self.pipelines.patch_config_map(name, before)
        self.restart_drivers()

    def stop(self, pod: str, whom: str) -> None:
        """SIGSTOP in a driver's container: the JVM ALONE, or EVERYTHING below PID 1; undone by SIGCONT."""

        def go_on() -> None:
            with suppress(NoProcessError):
                self._signal(pod, whom, "CONT")

        self.owe(f"SIGCONT in pod {pod}", go_on)
        self._signal(pod, whom, "STOP")

    def _signal(self, pod: str, whom: str, signal: str) -> None:
        # The shell stays: last words of one that ends are lost at times.
        script = f"{FIND_JVM}kill -{signal} {whom} && echo done && read -r _"
        session = self.pipelines.enter(pod, "spark-kubernetes-driver", script)
        told = session.readline_stdout(timeout=SAID_S).strip()
        session.close()
        if told != "done":
            raise NoProcessError(f"pod {pod} does not say that SIG{signal} was sent: {told or 'no answer'}")

    def start_second(self) -> None:
        """Start another driver of the same pipeline, which takes over at once."""
        settings = {**self.values["settings"], "standby": False}
        values = values_for(self.values, f"{self.application}-second", settings)
        values |= {group: {**(values.get(group) or {}), **own} for group, own in BESIDE.items()}
        objects = of_run(self.chart.render(values, self.pipelines.namespace), self.run, self.pipelines.namespace)
        self.owe(f"what has the label {label_of(self.run)} is deleted", self._delete_second)
        self.pipelines.apply(objects)

    def _delete_second(self) -> None:
        selector = label_of(self.run)

        def gone() -> bool:
            self.pipelines.delete_labelled(selector)
            return not self.pipelines.labelled(selector)

        self.pipelines.wait_for(f"the end of {selector}", gone, READY_S, lambda: self.pipelines.labelled(selector))
