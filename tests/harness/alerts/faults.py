"""The faults that raise alerts, each by itself: what it raises, from when the stated time counts, what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.harness.alerts import causes
from tests.harness.alerts.scene import Scene

RESOLVED_S = 300.0
WINDOW_S = 20 * 60.0
"""Of rules that look back a quarter of an hour."""
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
_LOOP = causes.CrashLoop()
FAULTS = (
    Fault(
        "store-away",
        "the object store is scaled to zero",
        ("ObjectStoreAway",),
        "its pod is gone",
        causes.take_store,
        may=OF_AN_END | {"LagGrowing"},
    ),
    Fault(
        "operator-away",
        "the operator is scaled to zero and all drivers are deleted",
        ("OperatorAway", "DriverAway"),
        "the drivers were deleted",
        causes.take_drivers_and_operator,
        may=OF_AN_END,
        needs=_own_operator,
    ),
    Fault(
        "no-executors",
        "no node takes a pod, and the executors are deleted",
        ("PipelineStalled", "LagGrowing"),
        "the executors were deleted",
        causes.stall,
        resolves_s=causes.NEVER_S,
    ),
    Fault(
        "two-drivers",
        "the driver's JVM gets SIGSTOP, and a second driver is started",
        ("TwoDrivers",),
        "Prometheus has seen both",
        causes.start_second,
        may=OF_AN_END | {"OperatorStuck", "StandbyTookOver"},
    ),
    Fault(
        "driver-stopped",
        "the driver at work gets SIGSTOP, all of its processes",
        ("StandbyTookOver", "NoStandby"),
        "Prometheus has seen the standby at work",
        causes.stop_driver,
        may=OF_AN_END,
        needs=_standby,
        resolves_s=WINDOW_S,
    ),
    Fault(
        "broker-silent",
        "the pipeline is paused, and the brokers are scaled to zero",
        ("BrokerSilent", "KafkaAway"),
        "their pods are gone",
        causes.silence_broker,
        may=OF_AN_END | {"LagGrowing"},
    ),
    Fault(
        "broker-degraded",
        "one broker less",
        ("BrokerDegraded", "KafkaNodeAway", "KafkaUnderReplicated"),
        "its pod is gone",
        causes.take_one_broker,
        needs=_more_brokers,
    ),
    Fault(
        "store-degraded",
        "one node of the object store less",
        ("ObjectStoreDegraded",),
        "its pod is gone",
        causes.take_one_store,
        needs=_more_stores,
    ),
    Fault(
        "retention-short",
        "the input is kept for twenty minutes, which a start warns of",
        ("StartWarned",),
        "a new driver has read it",
        lambda scene: scene.keep_input(causes.SHORT_S),
        may=OF_AN_END,
    ),
    Fault(
        "dead-letters",
        "every second record is malformed",
        ("DeadLetterShare",),
        "the first was sent",
        causes.send_bad_records,
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
        causes.refuse_starts,
        may=OF_AN_END,
        needs=_own_operator,
    ),
    Fault(
        "submission-lost",
        "the operator gets SIGKILL between a submission and its note of it",
        ("OperatorStuck",),
        "driver and operator are back, and the operator does not follow",
        causes.lose_submission,
        may=OF_AN_END | {"OperatorAway"},
        needs=_single,
    ),
    Fault(
        "input-expires",
        "a paused pipeline, whose input is kept for twenty minutes",
        ("InputExpiresSoon",),
        "Prometheus has seen that half is used up",
        causes.use_up_half,
        may=OF_AN_END | {"StartWarned", "LagGrowing"},
    ),
    Fault(
        "driver-away-long",
        "operator and drivers are away, for a quarter of the twelve minutes that the input is kept",
        ("DriverAwayForAQuarterOfTheRetention",),
        "Prometheus has seen none for so long",
        causes.outlast_a_quarter,
        may=OF_AN_END | {"OperatorAway", "StartWarned", "LagGrowing"},
        needs=_own_operator,
    ),
)
"""In the order in which they are played: first those that are over soon."""
