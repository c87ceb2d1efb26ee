"""Faults of what a pipeline on a cluster stands on, by name: its servers, the operator, the control plane, a node."""

from __future__ import annotations

from tests.harness.adapters.drivers import DELETE_NOW, SIGKILL
from tests.harness.schedule import Strike

SIGSTOP, NODE_RESTART, OUT_OF_MEMORY = "sigstop", "node_restart", "out_of_memory"
LEADER_MOVE = "leader_move"
ROLLOUT, DISK_LOST, NODE_DRAIN = "rollout", "disk_lost", "node_drain"
BROKER, OBJECT_STORE, RESULT_STORE, OPERATOR = "broker", "object store", "result store", "operator"
CONTROLLER = "controller"
API_SERVER, DNS, NODE, KUBELET = "API server", "DNS", "node", "kubelet"
OPERATOR_FIRST, DRIVER_FIRST = "operator, then driver", "driver, then operator"
AT_SUBMISSION = "operator at submission"

SERVERS = {
    "broker-kill": Strike(SIGKILL, BROKER),
    "broker-delete": Strike(DELETE_NOW, BROKER),
    "broker-stop": Strike(SIGSTOP, BROKER),
    "store-kill": Strike(SIGKILL, OBJECT_STORE),
    "store-delete": Strike(DELETE_NOW, OBJECT_STORE),
    "store-stop": Strike(SIGSTOP, OBJECT_STORE),
}
"""There on every cluster whose broker and object store are ours."""
LEADERS = {"leader-move": Strike(LEADER_MOVE, BROKER)}
"""Only where there are several brokers."""
RESULT_STORES = {
    "database-kill": Strike(SIGKILL, RESULT_STORE),
    "database-delete": Strike(DELETE_NOW, RESULT_STORE),
}
"""Only where the result store is ours: the pipeline that is judged writes a table to it then."""
OPERATORS = {
    "operator-kill": Strike(SIGKILL, OPERATOR),
    "operator-delete": Strike(DELETE_NOW, OPERATOR),
    "operator-then-driver": Strike(SIGKILL, OPERATOR_FIRST),
    "driver-then-operator": Strike(SIGKILL, DRIVER_FIRST),
    "operator-submission": Strike(SIGKILL, AT_SUBMISSION),
}
"""Only where the operator is ours."""
MACHINES = {
    "api-outage": Strike(SIGSTOP, API_SERVER),
    "dns-outage": Strike(SIGSTOP, DNS),
}
"""Only where the nodes can be reached as machines."""
WORKERS = {"node-restart": Strike(NODE_RESTART, NODE)}
"""Only where one of them is not the control plane."""
COPIES = {
    "brokers-rollout": Strike(ROLLOUT, BROKER),
    "controllers-rollout": Strike(ROLLOUT, CONTROLLER),
    "stores-rollout": Strike(ROLLOUT, OBJECT_STORE),
    "operators-rollout": Strike(ROLLOUT, OPERATOR),
    "broker-disk-lost": Strike(DISK_LOST, BROKER),
    "store-disk-lost": Strike(DISK_LOST, OBJECT_STORE),
}
"""Only where there are several of the server, which the others stand in for."""
DRAINS = {"node-drain": Strike(NODE_DRAIN, NODE)}
"""Only where brokers and stores on the other nodes stand in for those of one."""
MEMORY = {"executor-oom": Strike(OUT_OF_MEMORY)}
"""On every cluster."""
PLATFORM = {**SERVERS, **LEADERS, **RESULT_STORES, **OPERATORS, **MACHINES, **WORKERS, **COPIES, **DRAINS, **MEMORY}
"""All of them. The outer name is what FAULTS= takes."""
