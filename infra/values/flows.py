"""Who connects to whom: the table in docs/how-to/network-policies.md, against which the charts' policies are tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DRIVER, EXECUTOR, CREATE, SERVICE = "driver", "executor", "`create` job", "service of a job"
BACKUP = "`backup` job"
BROKER, CONTROLLER, OBJECT_STORE, RESULT_STORE = "broker", "controller", "object store", "result store"
OPERATOR, HISTORY = "Spark operator", "history server"
PROMETHEUS, ALERTMANAGER = "Prometheus", "Alertmanager"
KAFKA_GRANT, OBJECT_GRANT, RESULT_GRANT = "`kafka-grant` job", "`minio-grant` job", "`postgres-grant` job"
_GRANTS: Final = (KAFKA_GRANT, OBJECT_GRANT, RESULT_GRANT)
NAMES, API_SERVER, TARGET = "name server", "API server", "what a job names"
CLIENT, ANY_POD, ANYBODY = "pod of a named namespace", "any pod", "anybody"

TABLES: Final = "the pipeline has tables"
COMBINED: Final = "`kafka.controllers` 0"
APART: Final = "`kafka.controllers` 3"
STORE_NODES: Final = "`object_store.nodes` 4"
KAFKA_OUTSIDE: Final = "`external_access.kafka`"
OBJECTS_OUTSIDE: Final = "`external_access.object_store`"
CONSOLE_OUTSIDE: Final = "`external_access.console`"
HISTORY_OUTSIDE: Final = "`external_access.history_server`"
KAFKA_SECURED: Final = "`security.kafka`"
OBJECTS_SECURED: Final = "`security.object_store`"
RESULTS_SECURED: Final = "`security.result_store`"
KAFKA_CLIENTS: Final = "`kafka.clients`"
OBJECT_CLIENTS: Final = "`object_store.clients`"
RESULT_CLIENTS: Final = "`result_store.clients`"
EGRESS: Final = "`pipelines.<name>.egress`"
VIEWERS: Final = "`network_policies.api_server`"
PUBLIC: Final = "`pipelines.<name>.service`"
MONITORED: Final = "`monitoring.enabled`"
RECEIVERS: Final = "`monitoring.receivers`"
WATCH_CLIENTS: Final = "`monitoring.clients`"
MONITORED_BY_OTHERS: Final = "`monitoring.operator_objects`"


@dataclass(frozen=True)
class Flow:
    """Connections that policies let through.

    Attributes:
        sources: who begins them.
        target: who takes them.
        ports: of the target; none: those that are named with it.
        what: is said there.
        when: what opens them; empty: they are always open.
        protocols: of the ports.
    """

    sources: tuple[str, ...]
    target: str
    ports: tuple[int, ...]
    what: str
    when: str = ""
    protocols: tuple[str, ...] = ("TCP",)


_PIPELINE: Final = (DRIVER, EXECUTOR, CREATE, BACKUP, SERVICE)
WITHIN_A_PIPELINE: Final = (DRIVER, EXECUTOR)
"""What goes on among these is among those of one pipeline."""
FLOWS: Final = (
    Flow(_PIPELINE, BROKER, (9092,), "records, transactions, topics"),
    Flow(_PIPELINE, OBJECT_STORE, (9000,), "chain, deltas, checkpoints, files, event logs"),
    Flow(_PIPELINE, RESULT_STORE, (5432,), "tables", TABLES),
    Flow((EXECUTOR,), DRIVER, (7078, 7079), "tasks and their ends, blocks"),
    Flow(WITHIN_A_PIPELINE, EXECUTOR, (7079,), "blocks: shuffles, broadcasts, large results"),
    Flow(
        (DRIVER, OPERATOR, PROMETHEUS),
        *(API_SERVER, (443, 6443), "executors; SparkApplications, drivers, the lease; which pods there are"),
    ),
    Flow((DRIVER, EXECUTOR, SERVICE), TARGET, (), "calls of the job's own code", EGRESS),
    Flow((ANYBODY,), DRIVER, (9404,), "metrics: Prometheus, and an update that waits for an epoch"),
    Flow((PROMETHEUS,), DRIVER, (9404,), "metrics", MONITORED),
    Flow((PROMETHEUS,), OBJECT_STORE, (9000,), "metrics", MONITORED),
    Flow((PROMETHEUS,), BROKER, (9404,), "metrics", MONITORED),
    Flow((PROMETHEUS,), CONTROLLER, (9404,), "metrics", MONITORED),
    Flow((PROMETHEUS,), OPERATOR, (8080,), "metrics", MONITORED),
    Flow((PROMETHEUS,), ALERTMANAGER, (9093,), "alerts", MONITORED),
    Flow((ALERTMANAGER,), TARGET, (), "alerts, to whoever is to know", RECEIVERS),
    Flow((CLIENT,), OBJECT_STORE, (9000,), "metrics", MONITORED_BY_OTHERS),
    Flow((CLIENT,), BROKER, (9404,), "metrics", MONITORED_BY_OTHERS),
    Flow((CLIENT,), CONTROLLER, (9404,), "metrics", MONITORED_BY_OTHERS),
    Flow((CLIENT,), OPERATOR, (8080,), "metrics", MONITORED_BY_OTHERS),
    Flow((CLIENT,), PROMETHEUS, (9090,), "questions, as Grafana's", WATCH_CLIENTS),
    Flow((CLIENT,), ALERTMANAGER, (9093,), "questions, silences", WATCH_CLIENTS),
    Flow((API_SERVER,), DRIVER, (4040,), "Spark's page, as `make open` asks for it", VIEWERS),
    Flow((ANY_POD,), SERVICE, (8080,), "questions to the job (`service.port`)", PUBLIC),
    Flow((BROKER,), BROKER, (9092,), "copies of partitions"),
    Flow((BROKER,), BROKER, (9094,), "copies of partitions, with certificates", KAFKA_SECURED),
    Flow((KAFKA_GRANT,), BROKER, (9094,), "users and rights", KAFKA_SECURED),
    Flow((OBJECT_GRANT,), OBJECT_STORE, (9000,), "users and rights", OBJECTS_SECURED),
    Flow((RESULT_GRANT,), RESULT_STORE, (5432,), "roles and passwords", RESULTS_SECURED),
    Flow((BROKER,), BROKER, (9093,), "the quorum", COMBINED),
    Flow((BROKER, CONTROLLER), CONTROLLER, (9093,), "the quorum", APART),
    Flow((OBJECT_STORE,), OBJECT_STORE, (9000,), "parts of objects", STORE_NODES),
    Flow((OBJECT_STORE,), NAMES, (53,), "names of its nodes", STORE_NODES, ("UDP", "TCP")),
    Flow((HISTORY,), OBJECT_STORE, (9000,), "event logs"),
    Flow((CLIENT,), BROKER, (9092,), "gateways and readers in the cluster", KAFKA_CLIENTS),
    Flow((CLIENT,), OBJECT_STORE, (9000,), "readers of files", OBJECT_CLIENTS),
    Flow((CLIENT,), RESULT_STORE, (5432,), "readers of tables", RESULT_CLIENTS),
    Flow((ANYBODY,), BROKER, (9095,), "clients outside the cluster", KAFKA_OUTSIDE),
    Flow((ANYBODY,), OBJECT_STORE, (9000,), "clients outside the cluster", OBJECTS_OUTSIDE),
    Flow((ANYBODY,), OBJECT_STORE, (9001,), "browsers", CONSOLE_OUTSIDE),
    Flow((ANYBODY,), HISTORY, (18080,), "browsers", HISTORY_OUTSIDE),
    Flow(
        (*_PIPELINE, BROKER, CONTROLLER, OPERATOR, HISTORY, *_GRANTS, PROMETHEUS, ALERTMANAGER),
        *(NAMES, (53,), "names of all of these", "", ("UDP", "TCP")),
    ),
)
BEGIN, END = "<!-- flows: made by `make schema` -->", "<!-- end of flows -->"


def table() -> str:
    """Return them as Markdown, a line each."""
    lines = ["| from | to | port | what | only with |", "| -- | -- | -- | -- | -- |"]
    for one in FLOWS:
        ports = ", ".join(map(str, one.ports)) or "`ports`"
        cells = (", ".join(one.sources), one.target, ports, one.what, one.when)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    """Return a page with the table of today between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"
