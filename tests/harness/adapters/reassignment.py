"""Another order of the copies of partitions, by the broker's own tool (the Python client cannot).

The first one is preferred as leader. No copy moves by it, and no leader changes: that takes an election.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.harness.adapters.broker_tool import command_of
from tests.harness.adapters.transactions import ToolFailedError

TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TIMEOUT_S = 60.0
STARTED = "Successfully started partition reassignment"
Where = tuple[str, int]


def reorder(java: Path, class_path: Path, bootstrap: str, orders: Mapping[Where, Sequence[int]]) -> None:
    """Put the copies of partitions into another order.

    Args:
        java: that the tool runs on.
        class_path: folder of the broker's jars.
        bootstrap: `host:port,...` of the brokers.
        orders: brokers that have a copy, by partition; the same ones as before.

    Raises:
        ToolFailedError: with what the tool said.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(document(orders))
        file.flush()
        asked = ["--reassignment-json-file", file.name, "--execute"]
        argv = [*command_of(java, class_path, TOOL, bootstrap), *asked]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolFailedError(str(error)) from error
    missing = {f"{topic}-{number}" for topic, number in orders} - read_started(done.stdout)
    if done.returncode != 0 or missing:
        raise ToolFailedError(refusal(done.stdout) or f"nothing was said of {', '.join(sorted(missing))}")


def document(orders: Mapping[Where, Sequence[int]]) -> str:
    """What the tool reads."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": list(order)} for (topic, number), order in orders.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def read_started(said: str) -> set[str]:
    """Partitions (`topic-number`) that the tool says it has put into another order."""
    lines = (line for line in said.splitlines() if line.startswith(STARTED))
    return {one for line in lines for one in line.rpartition(" for ")[2].split(",")}


def refusal(said: str) -> str:
    """What the tool says went wrong; empty when it names nothing."""
    wrong = [line for line in said.splitlines() if line.startswith("Error")]
    return "; ".join(wrong)[:500]
