"""A fault for each alert, and hours in which none may fire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.unit.monitoring import worlds
from tests.unit.monitoring.worlds import (
    APPLICATION,
    DAY_S,
    DRIVER_SERIES,
    GENERATION,
    KAFKA_UP,
    OPERATOR_UP,
    PAUSED,
    PIPELINE,
    PUBLISHED_AT,
    RUNNING,
    SECOND_KAFKA_UP,
    SEEN_AT,
    STORE_UP,
    SUBMITTED,
    UNREAD,
    UNREAD_S,
    World,
    always,
    driver,
    instead,
    kafka,
    rows,
    store,
    without,
)

NAMED = {"pipeline": PIPELINE}
APPLIED = {"application": APPLICATION}
KAFKA = {"job": "kafka"}


@dataclass(frozen=True)
class Case:
    """A fault, and what it raises.

    Attributes:
        alert: is raised within its stated time.
        fault: the series from its begin to its end, in seconds.
        labels: of the alert, beside its name and severity.
        also: other alerts that such a fault may raise.
        resolves_s: so long after the fault's end nothing fires any more.
        begins_s: when the fault begins.
    """

    alert: str
    fault: Callable[[float, float], World]
    labels: dict[str, str] = field(default_factory=lambda: NAMED)
    also: frozenset[str] = frozenset()
    resolves_s: float = 120
    begins_s: float = 1800


def _restarts(every_s: float) -> dict[str, worlds.Line]:
    """Return drivers that end `every_s` after they began, a quarter of a minute before the next one."""

    def alive(line: worlds.Line) -> worlds.Line:
        return lambda t: line(t) if t % every_s < every_s - 15 else None

    return {
        **{name: alive(worlds.WELL[name]) for name in DRIVER_SERIES},
        GENERATION: alive(lambda t: 8 + t // every_s),
        PUBLISHED_AT: alive(always(0)),
        SEEN_AT: alive(always(0)),
        SUBMITTED: lambda t: 3 + t // every_s,
    }


def _more_refused(begin: float, end: float) -> World:
    lost = {rows("accepted"): -50, rows("malformed"): 50}

    def line(name: str, by: float) -> worlds.Line:
        return lambda t: (worlds.WELL[name](t) or 0) + by * (min(max(t, begin), end) - begin)

    return {name: line(name, by) for name, by in lost.items()}


STANDBY = driver("standby", instance="10.244.0.8:9404")
SECOND = driver("generation", instance="10.244.0.8:9404")
CASES = [
    # Its driver lives, and its input grows.
    Case(
        "PipelineStalled",
        lambda begin, end: instead({UNREAD: lambda t: 900 + 1000 * t, PUBLISHED_AT: always(begin)})(begin, end),
    ),
    # It took over, and is at the epoch that it found declared.
    Case("PipelineStalled", instead({PUBLISHED_AT: always(0), SEEN_AT: always(0), UNREAD: lambda _: None})),
    # It gets two seconds older in ten.
    Case("LagGrowing", instead({UNREAD_S: lambda t: 1.5 + 0.2 * t})),
    Case("DriverAway", without(*DRIVER_SERIES)),
    Case("DriverCrashLooping", instead(_restarts(60)), resolves_s=16 * 60),
    Case("TwoDrivers", instead({SECOND: always(8)})),
    Case("NoStandby", lambda begin, end: {STANDBY: lambda t: None if begin <= t < end else 1}),
    # The process began with the counter at 0.
    Case(
        "StandbyTookOver",
        lambda begin, _: {driver("takeovers_total", why="silent"): lambda t: 0 if t < begin else 1},
        resolves_s=16 * 60,
    ),
    # A twentieth of what comes.
    Case("DeadLetterShare", _more_refused, resolves_s=12 * 60),
    Case("InputExpiresSoon", instead({driver("input_retention_left_ratio"): always(0.5)})),
    Case(
        "DriverAwayForAQuarterOfTheRetention",
        lambda begin, end: without(*DRIVER_SERIES)(begin - 840, end),
        also=frozenset({"DriverAway"}),
    ),
    Case("SourceIsNotWaitedFor", instead({driver("sources_released"): always(1)})),
    Case("LeftBehind", instead({driver("left_behind"): always(2)})),
    Case(
        "StartWarned",
        instead({driver("start_warning", warning="retention"): always(1)}),
        labels={**NAMED, "warning": "retention"},
    ),
    Case("BrokerDegraded", instead({driver("input_degraded_partitions"): always(4)})),
    Case(
        "BrokerSilent",
        lambda begin, end: instead({SEEN_AT: always(begin), UNREAD: always(0), UNREAD_S: always(0)})(begin, end),
    ),
    Case(
        "CertificateExpires",
        lambda begin, end: instead(
            {driver("certificate_expiry_timestamp_seconds", server="kafka:9092"): always(begin + 21 * DAY_S)}
        )(begin, end),
        labels={**NAMED, "server": "kafka:9092"},
    ),
    Case("KafkaAway", instead(dict.fromkeys((KAFKA_UP, SECOND_KAFKA_UP), always(0))), labels=KAFKA),
    Case("KafkaAway", without(KAFKA_UP, SECOND_KAFKA_UP), labels=KAFKA),
    Case("KafkaNodeAway", instead({KAFKA_UP: always(0)}), labels=KAFKA),
    Case("KafkaRefusesWrites", instead({kafka("kafka_offline_partitions"): always(2)}), labels=KAFKA),
    Case("KafkaRefusesWrites", instead({kafka("kafka_under_min_isr_partitions"): always(2)}), labels=KAFKA),
    Case("KafkaUnderReplicated", instead({kafka("kafka_under_replicated_partitions"): always(3)}), labels=KAFKA),
    Case("KafkaWithoutController", instead({kafka("kafka_active_controllers"): always(0)}), labels=KAFKA),
    Case("KafkaWithoutController", instead({kafka("kafka_active_controllers", 1): always(1)}), labels=KAFKA),
    Case("KafkaTransactionHangs", instead({kafka("kafka_late_transaction_partitions"): always(1)}), labels=KAFKA),
    Case("ObjectStoreAway", instead({STORE_UP: always(0)}), labels={"job": "minio"}),
    Case("ObjectStoreAway", without(STORE_UP), labels={"job": "minio"}),
    Case(
        "ObjectStoreDegraded", instead({store("minio_cluster_drive_offline_total"): always(1)}), labels={"job": "minio"}
    ),
    Case(
        "ObjectStoreDegraded", instead({store("minio_cluster_nodes_offline_total"): always(1)}), labels={"job": "minio"}
    ),
    Case("ObjectStoreDegraded", instead({store("minio_cluster_health_status"): always(0)}), labels={"job": "minio"}),
    Case(
        "ObjectStoreFull",
        instead({store("minio_cluster_capacity_usable_free_bytes"): always(9e9)}),
        labels={"job": "minio"},
    ),
    Case("OperatorAway", without(OPERATOR_UP, RUNNING, SUBMITTED), labels={"job": "spark-operator"}),
    Case("OperatorAway", instead({OPERATOR_UP: always(0)}), labels={"job": "spark-operator"}),
    # Another operator knows the application as PENDING_RERUN, and counts those that run alone.
    Case("OperatorStuck", without(RUNNING), labels={**APPLIED, **NAMED}),
    # An update to a version that is refused: the n-th start comes n seconds later than the one before.
    Case(
        "DriverDoesNotStart",
        lambda begin, end: {
            **without(*DRIVER_SERIES, RUNNING)(begin, end),
            **instead({SUBMITTED: lambda t: 3 + t // 30})(begin, end),
        },
        labels=APPLIED,
        also=frozenset({"DriverAway"}),
    ),
]


def _update(begin: float, end: float) -> World:
    """One driver ends in order, and the next one is there 40 s later; its first epoch takes half a minute."""
    new = {name: lambda _: None for name in DRIVER_SERIES}
    after = {name.replace("10.244.0.7", "10.244.0.9"): worlds.WELL[name] for name in DRIVER_SERIES}
    zero = {name.replace("10.244.0.7", "10.244.0.9") for name in (PUBLISHED_AT, SEEN_AT)}

    def later(name: str, line: worlds.Line) -> worlds.Line:
        return lambda t: None if t < begin + 40 else 0 if name in zero and t < begin + 70 else line(t)

    changed: dict[str, worlds.Line] = {name: later(name, line) for name, line in after.items()}
    changed[GENERATION.replace("10.244.0.7", "10.244.0.9")] = lambda t: None if t < begin + 50 else 8
    ended = {name: worlds.between(begin, end, line, worlds.WELL[name]) for name, line in new.items()}
    return {**ended, **changed, SUBMITTED: lambda t: 2 if t < begin + 20 else 3}


QUIET: dict[str, Callable[[float, float], World]] = {
    "an hour of records": lambda *_: {},
    "an hour with a standby": lambda *_: {STANDBY: always(1)},
    "an hour without a record": lambda *_: {
        **dict.fromkeys((UNREAD, UNREAD_S), always(0)),
        **dict.fromkeys(map(rows, ("accepted", "duplicate", "late", "malformed")), always(10_000)),
        PUBLISHED_AT: always(0),
    },
    "an hour in which operators have it paused": instead(
        {
            PAUSED: always(1),
            PUBLISHED_AT: always(1200),
            UNREAD: lambda t: 900 + 1000 * t,
            UNREAD_S: lambda t: 1.5 + t,
        }
    ),
    "a planned update": _update,
    "a platform that begins": lambda *_: {
        name: lambda t, line=line: None if t < 300 else line(t)
        for name, line in worlds.WELL.items()
        if name not in (STORE_UP, OPERATOR_UP, KAFKA_UP, SECOND_KAFKA_UP)
    },
    "brokers that are started anew, one by one": lambda begin, _: {
        **instead({KAFKA_UP: always(0), kafka("kafka_under_replicated_partitions"): always(9)})(begin, begin + 120),
        **instead({SECOND_KAFKA_UP: always(0)})(begin + 120, begin + 240),
    },
    "a minute without the operator": lambda begin, _: without(OPERATOR_UP, RUNNING, SUBMITTED)(begin, begin + 60),
    "a source that lags and does not fall behind further": lambda *_: {UNREAD_S: always(400)},
}
