"""The acceptance run: a pipeline in pods, its executors struck, the controls, and the verdict of the demo's judge."""

from __future__ import annotations

from infra.console import Console
from tests.harness.cluster_run import ClusterRun, Found, Programme
from tests.harness.controls.names import EVERY, QUICK
from tests.harness.deployed import NotDeployedError
from tests.harness.results import Results
from tests.harness.schedule import plan_of
from tests.harness.stage import SHARDS
from tests.harness.subject import Subject, seeded
from tests.harness.suites import PORTION_MINUTES, ROWS_PER_MINUTE, Suite, suite_named

__all__ = ["NotDeployedError", "on_this_machine", "programme_of"]

CLAIM = (
    "On Kubernetes every event in time is counted exactly once per user and minute, whichever executor pods are "
    "killed or deleted: no sink misses, doubles, invents or alters a record, and no reader sees one change."
)
BASELINE_MINUTES = 12


def on_this_machine(suite: str, seed: int, console: Console) -> Results:
    """Run a suite on the cluster that this machine's state directory or KUBECONFIG names, and judge it.

    Args:
        suite: `smoke` or `all`.
        seed: draws what is sent and struck.
        console: tells what is under way.

    Raises:
        NoSuiteError: there is no such suite; nothing was touched.
        NotDeployedError: there is no pipeline to take, or no helm; nothing was touched.
        ToolchainError: Java or the broker's jars are not to be had.
        AccessError and other errors of the cluster: it cannot be reached; nothing was touched.
    """
    programme = programme_of(suite_named(suite), seed)
    found = Found.here(console)
    return ClusterRun.of(found, found.target(), programme, seed, console).run()


def programme_of(suite: Suite, seed: int) -> Programme:
    """What a suite does with a seed."""
    strikes = suite.drawn(seed)
    return Programme(
        CLAIM, subject_of(seed, suite.minutes(len(strikes)), portioned=True), plan_of(seed, strikes, SHARDS),
        {"suite": suite.name},
        baseline=subject_of(seed + 1, BASELINE_MINUTES, portioned=False) if suite.baseline else None,
        controls=EVERY if suite.every_control else QUICK,
    )  # fmt: skip


def subject_of(seed: int, minutes: int, *, portioned: bool) -> Subject:
    """What is sent in some minutes of event time."""
    portion = ROWS_PER_MINUTE * PORTION_MINUTES if portioned else 0
    return seeded(seed, ROWS_PER_MINUTE * minutes, minutes, portion)
