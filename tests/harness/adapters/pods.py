"""A pipeline's driver and executors as pods that the Spark operator starts: applied, found, struck."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.adapters.armed import KILL, ArmedSignal, Word
from tests.harness.adapters.cluster import Cluster, ClusterTimeoutError, failure_of, label_of, state_of
from tests.harness.adapters.drivers import DELETE_GRACEFULLY, DELETE_NOW, SIGKILL, NoProcessError, Struck
from tests.harness.adapters.pod_log import DRIVER, EXECUTOR, Pod, PodLog, driver_name
from tests.harness.adapters.rendering import Chart, of_run

GRACE_S: dict[str, int | None] = {DELETE_NOW: 0, DELETE_GRACEFULLY: None}
STOP_S, CLEAR_S, READY_S, FALL_S = 90.0, 90.0, 150.0, 10.0
# What tini makes of a JVM that SIGKILL ended.
KILLED = 128 + 9
ASKED_EVERY_S = 2.0
FAILED = ("FAILED", "SUBMISSION_FAILED", "COMPLETED")
# Everything in the container but PID 1 (tini, which then ends with the driver's code) and this shell.
KILL_AT_ONCE = "kill -9 -1"
# It stays until the session is closed: what a shell says just before its end is sometimes lost on the way.
GATE = "touch /tmp/{name}.go && echo open && read -r _"
GATE_TRIES, GATE_S = 3, 30.0


@dataclass
class PodDrivers:
    """Drivers as pods of one SparkApplication, created anew for every start.

    Attributes:
        cluster: the namespace.
        chart: `streaming-pipeline`.
        values: the chart's values, the settings left out.
        run: label of everything that belongs to the run.
        log: follows the pods.
        say: what is worth telling.
    """

    cluster: Cluster
    chart: Chart
    values: Mapping[str, Any]
    run: str
    log: PodLog
    say: Callable[[str], None] = lambda _: None
    _earlier: set[str] = field(default_factory=set)
    _armed: dict[str, ArmedSignal] = field(default_factory=dict)
    _asked_at: float = 0.0
    _started: bool = False

    @property
    def refused(self) -> bool:
        """See Drivers; here nobody counts."""
        return False

    @property
    def name(self) -> str:
        """Of the SparkApplication."""
        return str(self.values["name"])

    @property
    def _selector(self) -> str:
        """Of its pods."""
        return f"{label_of(self.run)},sparkoperator.k8s.io/app-name={self.name}"

    @property
    def executors_wanted(self) -> int:
        """How many executors the pipeline has when all is well."""
        return int(self.values.get("executors", {}).get("count", 2))

    @property
    def driver(self) -> str | None:
        """Pod of the driver."""
        pod = self._driver()
        return driver_name(pod) if pod else None

    def start(self, name: str, settings: Path, *arguments: str) -> None:
        """Apply the SparkApplication; the driver's pod comes some seconds later. The chart gives the arguments."""
        self._clear()
        values = {**self.values, "settings": json.loads(settings.read_text())}
        objects = of_run(self.chart.render(values, self.cluster.namespace), self.run, self.cluster.namespace)
        self.cluster.apply(objects)
        self._started = True

    def alive(self) -> str | None:
        """None while the driver runs or is about to, else its last words."""
        if not self._started:
            return "no driver was started, or it was stopped"
        pod = self._driver()
        if pod is not None:
            return self._last_words(pod) if pod.ended else None
        if time.monotonic() - self._asked_at < ASKED_EVERY_S:
            return None
        self._asked_at = time.monotonic()
        application = self.cluster.application(self.name)
        state = state_of(application)
        if state in FAILED or application is None:
            return f"SparkApplication {self.name} is {state}: {failure_of(application) or 'no reason is given'}"
        return None

    def stop(self) -> int | None:
        """Stop in order: suspended, the operator deletes the driver's pod, which gets SIGTERM; its exit code.

        Where it was stopped before nothing is done: another driver may have had its name since.
        """
        if not self._started:
            return None
        pod = self._driver()
        self.cluster.patch_application(self.name, {"spec": {"suspend": True}})
        if pod is None or not self.log.wait_ended(pod.uid, STOP_S):
            return None
        ended = self.log.pod(pod.uid)
        self._clear()
        return ended.exit_code if ended else None

    def kill(self) -> str:
        """SIGKILL every process of the driver's container below PID 1; which pod that was."""
        pod = self._driver()
        if pod is None or pod.ended:
            return "gone already"
        session = self.cluster.enter(pod.name, pod.container, KILL_AT_ONCE)
        ended = self.log.wait_ended(pod.uid, STOP_S)
        with suppress(Exception):
            session.close()
        if not ended:
            raise ClusterTimeoutError(f"driver {pod.who} outlived its SIGKILL by {STOP_S:.0f} s")
        self._clear()
        return pod.who

    def end(self) -> None:
        """Ask for the end of everything, and do not wait for it. Safe to repeat."""
        self._disarm()
        self._started = False
        with suppress(Exception):
            self.cluster.delete_application(self.name)

    def executors(self) -> list[str]:
        """Executors whose container runs, as pod@uid, oldest first."""
        return [pod.who for pod in self._executors()]

    def gone(self, who: str) -> bool:
        """Whether an executor's container has ended."""
        pod = self.log.pod(who.partition("@")[2])
        return pod is None or pod.ended

    def arm(self, kind: str) -> None:
        """Wait for every executor, and for a SIGKILL open a session in each.

        Raises:
            ClusterTimeoutError: some executors do not come.
        """
        self._disarm()
        deadline = time.monotonic() + READY_S
        while True:
            self.await_executors(max(0.0, deadline - time.monotonic()))
            if kind != SIGKILL:
                return
            try:
                for pod in self._executors():
                    self._armed[pod.uid] = self._enter(pod)
            except NoProcessError as error:
                # Running a moment ago, or not yet with its JVM: look again.
                self._disarm()
                if time.monotonic() > deadline:
                    raise ClusterTimeoutError(f"executors of {self.name} cannot be entered: {error}") from error
                time.sleep(0.5)
            else:
                return

    def await_executors(self, within_s: float = READY_S) -> None:
        """Wait for every executor. Raises ClusterTimeoutError."""
        self.cluster.wait_for(
            f"{self.executors_wanted} executors of {self.name}",
            lambda: len(self._executors()) >= self.executors_wanted,
            within_s,
            lambda: [self.executors(), self.alive(), self.log.trouble],
        )

    def kill_executor(self, event: Mapping[str, Any], kind: str = SIGKILL) -> Struck:
        """Strike the executor whose pod announced `event`; raises NoProcessError."""
        pod = self.log.pod(event["pod_uid"])
        if pod is None or pod.role != EXECUTOR or not pod.runs:
            raise NoProcessError(f"pod {event['pod']} does not run any more")
        try:
            return self._strike(pod, kind)
        finally:
            self._disarm()

    def kill_executors(self, kind: str) -> list[Struck]:
        """Strike every executor. One that has just ended is left out."""
        struck: list[Struck] = []
        pods = self._executors()
        try:
            if kind == SIGKILL:
                # All words first, then the answers: they fall together.
                for pod in pods:
                    with suppress(NoProcessError):
                        self._ready(pod).word()
                answers: list[tuple[Pod, int, bool]] = []
                for pod in pods:
                    with suppress(NoProcessError):
                        answers.append((pod, *self._ready(pod).struck()))
                struck = [(pod.who, at) for pod, at, said in answers if said or self._fell(pod)]
            else:
                for pod in pods:
                    with suppress(NoProcessError):
                        struck.append(self._strike(pod, kind))
        finally:
            self._disarm()
        return struck

    def gather(self) -> None:
        """Change nothing: executors are as the deployment has them."""

    def open_gate(self, name: str) -> None:
        """Make the file that a control waits for, in the driver's container; raises NoProcessError."""
        pod = self._driver()
        if pod is None:
            raise NoProcessError(f"{self.name} has no driver to open the gate of {name} in")
        told = ""
        for _ in range(GATE_TRIES):
            session = self.cluster.enter(pod.name, pod.container, GATE.format(name=name))
            told = session.readline_stdout(timeout=GATE_S).strip()
            session.close()
            if told == "open":
                return
        raise NoProcessError(f"the gate of {name} cannot be opened in {pod.who}: {told or 'no answer'}")

    def _strike(self, pod: Pod, kind: str) -> Struck:
        if kind == SIGKILL:
            armed = self._ready(pod)
            armed.word()
            at, said = armed.struck()
            if not said and not self._fell(pod):
                raise NoProcessError(f"{pod.who}: the shell did not say that it kills, and the container did not fall")
            return pod.who, at
        return pod.who, self.cluster.delete_pod(pod.name, pod.uid, GRACE_S[kind])

    def _fell(self, pod: Pod) -> bool:
        """Whether the container ends by a SIGKILL, and not for want of memory."""
        self.log.wait_ended(pod.uid, FALL_S)
        now = self.log.pod(pod.uid)
        return now is not None and now.exit_code == KILLED and now.reason != "OOMKilled"

    def _ready(self, pod: Pod, word: Word = KILL) -> ArmedSignal:
        if pod.uid not in self._armed:
            self._armed[pod.uid] = self._enter(pod, word)
        return self._armed[pod.uid]

    def _enter(self, pod: Pod, word: Word = KILL) -> ArmedSignal:
        return ArmedSignal(self.cluster.enter(pod.name, pod.container, word.script), pod.who, word)

    def _disarm(self) -> None:
        for armed in self._armed.values():
            armed.close()
        self._armed.clear()

    def _driver(self) -> Pod | None:
        """The driver of this start: the first pod that was not there before it. Another one means that it ended."""
        mine = [pod for pod in self.log.pods(DRIVER) if pod.uid not in self._earlier]
        return mine[0] if mine else None

    def _executors(self) -> list[Pod]:
        return [pod for pod in self.log.pods(EXECUTOR) if pod.runs]

    def _clear(self) -> None:
        """Delete the SparkApplication of a former start and wait until its pods are gone: the names are used again."""
        self._disarm()
        self._started = False
        self.cluster.delete_application(self.name)
        selector = self._selector
        self.cluster.wait_for(
            f"the end of the pods of {self.name}",
            lambda: self.cluster.application(self.name) is None and not self.cluster.pods(selector),
            CLEAR_S,
            lambda: [one["metadata"]["name"] for one in self.cluster.pods(selector)],
        )
        self._earlier = {pod.uid for pod in self.log.pods(DRIVER)}

    def _last_words(self, pod: Pod) -> str:
        ended = f"exit code {pod.exit_code}" if pod.exit_code is not None else "its pod is gone"
        why = f", {pod.reason}" if pod.reason else ""
        return f"driver {pod.who} ended ({ended}{why}); its last lines:\n{self.log.last_words(pod.uid)}"
