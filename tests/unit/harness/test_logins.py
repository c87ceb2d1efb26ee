"""Whatever may run on a cluster makes its clients by the one way that logs in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.toolchain.prepare import CHECKOUT

PLAIN = re.compile(r"""["']bootstrap\.servers["']""")
SPARK = re.compile(r"""["']kafka\.bootstrap\.servers["']""")
IN_THE_JOB = {"tests/experiments/optimisations/play.py": "tests/bench/optimised_job.py"}
"""Whose options a job takes, in a pod that knows its login as the player does not."""


def sources() -> list[Path]:
    folders = ("tests/harness", "tests/experiments", "tests/acceptance", "infra/operate", "infra/cluster")
    return [path for folder in folders for path in sorted((CHECKOUT / folder).rglob("*.py"))]


def test_no_client_of_a_broker_is_made_without_a_login() -> None:
    assert len(sources()) > 100
    plain = [str(path.relative_to(CHECKOUT)) for path in sources() if PLAIN.search(path.read_text())]
    assert plain == [], "client_config() of effectively_once.kafka_client logs in where the environment says so"


def test_sparks_own_sources_and_sinks_log_in_too() -> None:
    asking = {str(path.relative_to(CHECKOUT)): path.read_text() for path in sources() if SPARK.search(path.read_text())}
    assert asking
    without = {path for path, text in asking.items() if len(SPARK.findall(text)) != text.count(").spark()")}
    assert without == {*IN_THE_JOB}
    assert [job for job in IN_THE_JOB.values() if ").spark()" not in (CHECKOUT / job).read_text()] == []


@pytest.mark.parametrize("line", ['Producer({"bootstrap.servers": b})', "Consumer({'bootstrap.servers': b})"])
def test_a_plain_client_would_be_found(line: str) -> None:
    assert PLAIN.search(line)
