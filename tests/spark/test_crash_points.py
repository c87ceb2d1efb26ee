"""A SIGKILL between any two steps of the protocol: the repeat leaves every output exactly as it must be.

Each test holds one process at one point, kills a Python worker, an executor or the driver there, and judges all outputs
by a plain recomputation. The table in docs/explanation/protocol.md names them.
"""

from __future__ import annotations

import signal

import pytest

from tests.spark.attacked import IN_DRIVER, IN_TASKS, Attacked, cases

pytestmark = [pytest.mark.spark, pytest.mark.core]

STEP_S = 180.0
CORE = ("accepted_open-worker", "manifest_created-driver")
"""Those that every test run has; the others need minutes and are left to `make test-all`."""


@pytest.mark.parametrize("case", cases(IN_TASKS, IN_DRIVER, CORE))
def test_killed_at(attacked: Attacked, case: str) -> None:
    attacked.killed_at(case, {**IN_TASKS, **IN_DRIVER})


@pytest.mark.slow
@pytest.mark.parametrize("point", ["started", "taken_over"])
def test_killed_while_starting(attacked: Attacked, point: str) -> None:
    attacked.driver.kill()
    generation = attacked.pipeline.head().generation
    attacked.held.ask(point)
    attacked.again()
    attacked.held.wait(attacked.driver)
    attacked.driver.kill()
    assert attacked.pipeline.head().generation == generation + (point == "taken_over")
    attacked.send()
    attacked.again()
    attacked.exact()


@pytest.mark.slow
def test_killed_while_stopping(attacked: Attacked) -> None:
    attacked.send()
    attacked.pipeline.wait_processed(attacked.driver)
    attacked.held.ask("stopping")
    attacked.driver.signal(signal.SIGTERM)
    attacked.held.wait(attacked.driver)
    attacked.driver.kill()
    assert attacked.pipeline.head().declared is not None
    attacked.again()
    attacked.send()
    attacked.exact()


@pytest.mark.slow
def test_killed_between_two_batches(attacked: Attacked) -> None:
    """Spark has written `commits/n`, and there is nothing to do."""
    attacked.send()
    attacked.pipeline.wait_committed(attacked.driver)
    attacked.driver.kill()
    attacked.again()
    attacked.send()
    attacked.exact()
