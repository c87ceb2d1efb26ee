"""The faults that raise alerts, each by itself: what is done, what it raises, and from when the stated time counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.harness.adapters.cluster import ClusterTimeoutError, state_of
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.held_pod import ALONE, EVERYTHING
from tests.harness.alerts.scene import DRIVER, EXECUTOR, Scene

RESOLVED_S = 300.0
WINDOW_S = 20 * 60.0
"""Of rules that look back a quarter of an hour."""
NEVER_S = 600.0
SHORT_S, QUARTER_OF_S = 20 * 60, 12 * 60
"""How long the input is kept: half, or a quarter, passes in minutes, and no record expires before it is healed."""
TRIES, SUBMITTED_S, SETTLED_S, LOOK_S = 4, 120.0, 25.0, 0.02
OF_AN_END = frozenset({"DriverAway", "DriverCrashLooping", "DriverDoesNotStart", "PipelineStalled", "NoStandby"})
"""What a driver raises that ends and comes back some time later, besides what is meant."""

Needs = Callable[[Scene], str | None]
"""Why a fault cannot be played here, with the way out; None: it can."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: on the command line.
        says: what is done.
        raises: the alerts.
        since: the moment from which their stated time counts, at which `cause` returns.
        cause: does it, with what is to be undone owed to the scene.
        keep: is called every few seconds while the alerts are waited for.
        may: other alerts that it raises now and then.
        needs: whether it can be played here.
        resolves_s: how long after it is healed its alerts may take to end.
    """

    name: str
    says: str
    raises: tuple[str, ...]
    since: str
    cause: Callable[[Scene], None]
    keep: Callable[[Scene], None] = lambda _: None
    may: frozenset[str] = frozenset()
    needs: Needs = lambda _: None
    resolves_s: float = RESOLVED_S


def _stall(scene: Scene) -> None:
    scene.cordon()
    scene.delete_pods(scene.pods(EXECUTOR))


def _take_drivers_and_operator(scene: Scene) -> None:
    assert scene.operator is not None
    scene.scale(scene.operator, "Deployment", "spark-operator", 0)
    scene.delete_pods(scene.pods(DRIVER))


def _outlast_a_quarter(scene: Scene) -> None:
    scene.keep_input(QUARTER_OF_S)
    _take_drivers_and_operator(scene)
    asked = f'time() - max(max_over_time(timestamp(effectively_once_generation{{pipeline="{scene.pipeline}"}})[1h:1m]))'
    scene.wait_for(
        "a quarter of the retention without a driver",
        lambda: any(value > QUARTER_OF_S / 4 for _, value in scene.watcher.query(asked)),
        NEVER_S,
    )


class CrashLoop:
    """A driver is deleted, and so is each that takes over after it, as soon as Prometheus has seen it."""

    def __init__(self) -> None:
        self._last = 0.0

    def cause(self, scene: Scene) -> None:
        """Delete the first."""
        self._last = 0.0
        self.keep(scene)

    def keep(self, scene: Scene) -> None:
        """Delete the next, once it is there."""
        generation, pod = scene.value("generation"), scene.at_work()
        if generation is not None and pod is not None and generation > self._last:
            self._last = generation
            scene.delete_driver(pod)


def _start_second(scene: Scene) -> None:
    pod = scene.at_work()
    if pod is None:
        raise NoProcessError("no driver is at work")
    scene.stop(pod, ALONE)
    scene.start_second()
    scene.wait_for("two drivers to be seen", lambda: len(scene.series("generation")) > 1, NEVER_S)


def _stop_driver(scene: Scene) -> None:
    pod = scene.at_work()
    if pod is None:
        raise NoProcessError("no driver is at work")
    scene.stop(pod, EVERYTHING)
    scene.wait_for("the standby to be at work", lambda: scene.at_work() not in (None, pod), NEVER_S)


def _send_bad_records(scene: Scene) -> None:
    def good() -> None:
        scene.feed.bad_share = 0.0

    scene.owe("good records alone", good)
    scene.feed.bad_share = 0.5


def _use_up_half(scene: Scene) -> None:
    # Undone the other way round: records are kept again before anything else.
    scene.pause()
    scene.keep_input(SHORT_S)
    scene.await_value(
        "half of the retention to be used up", "input_retention_left_ratio", lambda value: value <= 0.5, SHORT_S * 0.7
    )


def _silence_broker(scene: Scene) -> None:
    scene.pause()
    scene.scale(scene.platform, "StatefulSet", "kafka", 0)


def _take_one_broker(scene: Scene) -> None:
    scene.scale(scene.platform, "StatefulSet", "kafka", scene.count("broker") - 1)


def _take_one_store(scene: Scene) -> None:
    scene.scale(scene.platform, "StatefulSet", "minio", scene.count("object store") - 1)


def _take_store(scene: Scene) -> None:
    scene.scale(scene.platform, "StatefulSet", "minio", 0)


def _refuse_starts(scene: Scene) -> None:
    scene.set_wrongly(shards="many")
    scene.delete_pods(scene.pods(DRIVER))


def _lose_submission(scene: Scene) -> None:
    """Kill the operator between a submission and its note of it. Raises NoProcessError: it was never in between."""
    scene.owe("drivers that the operator knows", scene.restart_drivers)
    for _ in range(TRIES):
        if _kill_operator_at_submission(scene):
            return
    raise NoProcessError(f"the operator noted the submission before it was killed, {TRIES} times")


def _kill_operator_at_submission(scene: Scene) -> bool:
    operator, before = scene.servers["operator"], scene.value("generation") or 0
    scene.wait_for("the operator to be ready", lambda: bool(operator.ready()), NEVER_S)
    armed = operator.killer(operator.chosen({}))
    try:
        pods = scene.pods(DRIVER)
        selector = f"effectively-once/pipeline={scene.application},spark-role={DRIVER}"
        known = {one["metadata"]["uid"] for one in scene.pipelines.pods(selector)}
        scene.delete_pods(pods)
        until = time.monotonic() + SUBMITTED_S
        while {one["metadata"]["uid"] for one in scene.pipelines.pods(selector)} <= known:
            if time.monotonic() > until:
                raise NoProcessError(f"no driver followed within {SUBMITTED_S:.0f} s")
            time.sleep(LOOK_S)
        armed.word()
        armed.struck()
    finally:
        armed.close()
    scene.await_value("the next driver at work", "generation", lambda value: value > before)
    scene.wait_for("the operator to be back", lambda: bool(operator.ready()), NEVER_S)
    with suppress(ClusterTimeoutError):
        scene.pipelines.wait_for(
            "the operator to know the driver",
            lambda: state_of(scene.pipelines.application(scene.application)) == "RUNNING",
            SETTLED_S,
            lambda: state_of(scene.pipelines.application(scene.application)),
        )
        return False
    return True


def _own_operator(scene: Scene) -> str | None:
    return None if scene.operator is not None else "the operator is not ours: leave out spark_operator.installed"


def _single(scene: Scene) -> str | None:
    why = "a second application hides it from the rule: set pipelines.user_counts.standby to false"
    return why if scene.settings.standby else _own_operator(scene)


def _standby(scene: Scene) -> str | None:
    todo = "`pulumi config set --path pipelines.user_counts.standby true`, then `make up`"
    return None if scene.settings.standby else f"user_counts has no standby: {todo}"


def _more_brokers(scene: Scene) -> str | None:
    return None if scene.count("broker") > 1 else f"there is one broker: {_MORE}"


def _more_stores(scene: Scene) -> str | None:
    return None if scene.count("object store") > 1 else f"MinIO has one drive: {_MORE}"


_MORE = "`make up PROFILE=ha MONITORING=1` makes more"
_LOOP = CrashLoop()
FAULTS = (
    Fault(
        "store-away",
        "the object store is scaled to zero",
        ("ObjectStoreAway",),
        "its pod is gone",
        _take_store,
        may=OF_AN_END | {"LagGrowing"},
    ),
    Fault(
        "operator-away",
        "the operator is scaled to zero and all drivers are deleted",
        ("OperatorAway", "DriverAway"),
        "the drivers were deleted",
        _take_drivers_and_operator,
        may=OF_AN_END,
        needs=_own_operator,
    ),
    Fault(
        "no-executors",
        "no node takes a pod, and the executors are deleted",
        ("PipelineStalled", "LagGrowing"),
        "the executors were deleted",
        _stall,
        resolves_s=NEVER_S,
    ),
    Fault(
        "two-drivers",
        "the driver's JVM gets SIGSTOP, and a second driver is started",
        ("TwoDrivers",),
        "Prometheus has seen both",
        _start_second,
        may=OF_AN_END | {"OperatorStuck", "StandbyTookOver"},
    ),
    Fault(
        "driver-stopped",
        "the driver at work gets SIGSTOP, all of its processes",
        ("StandbyTookOver", "NoStandby"),
        "Prometheus has seen the standby at work",
        _stop_driver,
        may=OF_AN_END,
        needs=_standby,
        resolves_s=WINDOW_S,
    ),
    Fault(
        "broker-silent",
        "the pipeline is paused, and the brokers are scaled to zero",
        ("BrokerSilent",),
        "their pods are gone",
        _silence_broker,
        may=OF_AN_END | {"LagGrowing"},
    ),
    Fault(
        "broker-degraded",
        "one broker less",
        ("BrokerDegraded",),
        "its pod is gone",
        _take_one_broker,
        needs=_more_brokers,
    ),
    Fault(
        "store-degraded",
        "one node of the object store less",
        ("ObjectStoreDegraded",),
        "its pod is gone",
        _take_one_store,
        needs=_more_stores,
    ),
    Fault(
        "retention-short",
        "the input is kept for twenty minutes, which a start warns of",
        ("StartWarned",),
        "a new driver has read it",
        lambda scene: scene.keep_input(SHORT_S),
        may=OF_AN_END,
    ),
    Fault(
        "dead-letters",
        "every second record is malformed",
        ("DeadLetterShare",),
        "the first was sent",
        _send_bad_records,
        resolves_s=WINDOW_S,
    ),
    Fault(
        "driver-killed-again",
        "each driver that takes over is deleted once Prometheus has seen it",
        ("DriverCrashLooping",),
        "the first was deleted",
        _LOOP.cause,
        keep=_LOOP.keep,
        may=OF_AN_END,
        resolves_s=WINDOW_S,
    ),
    Fault(
        "setting-wrong",
        "the settings are wrong, and the driver is deleted",
        ("DriverDoesNotStart",),
        "the driver was deleted",
        _refuse_starts,
        may=OF_AN_END,
        needs=_own_operator,
    ),
    Fault(
        "submission-lost",
        "the operator gets SIGKILL between a submission and its note of it",
        ("OperatorStuck",),
        "driver and operator are back, and the operator does not follow",
        _lose_submission,
        may=OF_AN_END | {"OperatorAway"},
        needs=_single,
    ),
    Fault(
        "input-expires",
        "a paused pipeline, whose input is kept for twenty minutes",
        ("InputExpiresSoon",),
        "Prometheus has seen that half is used up",
        _use_up_half,
        may=OF_AN_END | {"StartWarned", "LagGrowing"},
    ),
    Fault(
        "driver-away-long",
        "operator and drivers are away, for a quarter of the twelve minutes that the input is kept",
        ("DriverAwayForAQuarterOfTheRetention",),
        "Prometheus has seen none for so long",
        _outlast_a_quarter,
        may=OF_AN_END | {"OperatorAway", "StartWarned", "LagGrowing"},
        needs=_own_operator,
    ),
)
"""In the order in which they are played: first those that are over soon."""
