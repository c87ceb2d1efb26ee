"""The profiles as data: what a profile says differently from the defaults of the model. Configuration wins over both.

`pipeline_defaults` is laid under every pipeline. Configured `pipelines` replace the profile's set of names, and keep
its defaults for the fields that they do not name.
"""

from __future__ import annotations

from typing import Any, Final

# The ports that the kind cluster of this machine publishes on its loopback.
_NODE_PORTS: Final = {name: {"by": "NodePort"} for name in ("kafka", "object_store", "console", "history_server")}
# All our CPU requests together stay at or below 1.0 core here: the control plane asks for 0.85 of a 2-core machine.
_SMALL: Final[dict[str, Any]] = {
    "storage": {"delete_volumes": True},
    "kafka": {"storage_size": "4Gi"},
    "object_store": {"storage_size": "4Gi"},
    "result_store": {"storage_size": "1Gi"},
    "external_access": _NODE_PORTS,
    "pipeline_defaults": {"announce": True, "partitions": 4, "shards": 2, "executors": {"count": 2}},
    "pipelines": {"user_counts": {}},
}
_THREE_BROKERS: Final[dict[str, Any]] = {
    "nodes": 3,
    "heap_mib": 320,
    "storage_size": "2Gi",
    "resources": {"cpu_request": "60m", "memory_request": "512Mi", "memory_limit": "896Mi"},
}

PROFILES: Final[dict[str, dict[str, Any]]] = {
    # One machine, to look at it.
    "laptop": _SMALL,
    # The same, as it is judged: the harness writes its own source topic, so its shape must not differ.
    "ci": _SMALL,
    # Two nodes: what a killed process of one leaves behind is met by its replacement on the other.
    "chaos": _SMALL | {"kafka": {"storage_size": "4Gi", "session_timeout_ms": 9000}},
    # One node with three brokers that are controllers too: every partition has three copies, and its leader can move.
    "brokers": _SMALL
    | {
        "kafka": {
            **_THREE_BROKERS,
            # Three on two cores: a starved one is silent for longer than the usual 4 s, and would be taken for dead.
            "session_timeout_ms": 6000,
        },
    },
    # Three nodes of one machine: as many copies of everything as in production, each small; one has two object stores.
    "ha": _SMALL
    | {
        "scheduling": {"spread": "hard"},
        "kafka": {
            **_THREE_BROKERS,
            "controllers": 3,
            "session_timeout_ms": 9000,
        },
        "object_store": {
            "nodes": 4,
            "storage_size": "1Gi",
            "resources": {"cpu_request": "60m", "memory_request": "192Mi", "memory_limit": "768Mi"},
        },
        "spark_operator": {"replicas": 2},
    },
    # A cluster of its own: three brokers, three controllers apart and four object stores, spread over nodes;
    # nothing is reachable from outside, and data is kept.
    "production": {
        "scheduling": {"spread": "hard"},
        "kafka": {
            "nodes": 3,
            "controllers": 3,
            "session_timeout_ms": 9000,
            "heap_mib": 2048,
            "storage_size": "100Gi",
            "resources": {"cpu_request": "1", "memory_request": "4Gi", "memory_limit": "8Gi"},
        },
        "object_store": {
            "nodes": 4,
            "storage_size": "100Gi",
            "resources": {"cpu_request": "1", "memory_request": "2Gi", "memory_limit": "4Gi"},
        },
        "result_store": {
            "storage_size": "50Gi",
            "resources": {"cpu_request": "500m", "memory_request": "1Gi", "memory_limit": "2Gi"},
        },
        "spark_operator": {"replicas": 2},
        "pipeline_defaults": {
            "partitions": 12,
            "shards": 8,
            "epoch_rows_max": 500_000,
            "driver_grace_s": 120,
            "driver": {"cpu_request": "500m", "memory_mib": 2048, "memory_overhead_mib": 512},
            "executors": {
                "count": 3,
                "cores": 2,
                "cpu_request": "1500m",
                "memory_mib": 3072,
                "memory_overhead_mib": 1536,
            },
        },
        # Not a default of all pipelines: one with state of Spark's own refuses it.
        "pipelines": {"user_counts": {"idle_ms": 60_000}},
    },
}
DEFAULT: Final = "laptop"
