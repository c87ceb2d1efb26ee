"""What the chart configures is what Kafka accepts: every kind of node is formatted with Kafka's own tool."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.toolchain.prepare import prepare
from infra.values.kafka import External, KafkaValues
from tests.charts.render import environment, render
from tests.charts.samples import IMAGE

pytestmark = pytest.mark.stack
TIMEOUT_S = 60.0


@pytest.mark.parametrize(
    ("changes", "node", "mode"),
    [
        ({}, "kafka", "--standalone"),
        ({"nodes": 3}, "kafka", "--initial-controllers"),
        ({"nodes": 3, "controllers": 3}, "kafka-controller", "--initial-controllers"),
        ({"nodes": 3, "controllers": 3}, "kafka", "--no-initial-controllers"),
    ],
    ids=["one", "three", "controller", "broker"],
)
def test_node_is_formatted(changes: dict[str, Any], node: str, mode: str, tmp_path: Path) -> None:
    """Properties, cluster id and, in a quorum, the directory id that the other members expect of this node."""
    values = KafkaValues(image=IMAGE, external=External(by="NodePort"), **changes)
    rendered = render("kafka", values.to_helm())
    found = environment(dict(rendered.pods())[f"StatefulSet/{node}"])
    number = int(found["KAFKA_NODE_ID_OFFSET"]) + 1 if mode != "--standalone" else 0
    text = rendered.one("ConfigMap", node)["data"]["server.properties"]
    data = tmp_path / "data"
    known = {"${NODE_ID}": str(number), "${HOSTNAME}": f"{node}-{number % 100}", "${EXTERNAL_PORT}": "12093"}
    for name, value in {**known, "/var/lib/kafka/data": str(data)}.items():
        text = text.replace(name, value)
    assert "${" not in text
    (tmp_path / "server.properties").write_text(text)
    members = found.get("KAFKA_INITIAL_CONTROLLERS", "")
    toolchain = prepare()
    answer = subprocess.run(
        [
            toolchain.java,
            "-cp",
            f"{toolchain.kafka_classpath}/*",
            "kafka.tools.StorageTool",
            "format",
            "--config",
            tmp_path / "server.properties",
            "--cluster-id",
            found["KAFKA_CLUSTER_ID"],
            mode,
            *([members] if mode == "--initial-controllers" else []),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    meta = dict(
        line.split("=", 1) for line in (data / "meta.properties").read_text().splitlines() if not line.startswith("#")
    )
    assert (meta["node.id"], meta["cluster.id"]) == (str(number), values.cluster_id)
    if members:
        assert f"{number}@" in members
        assert meta["directory.id"] in members
