"""Drivers that are killed, replaced and stopped: every output stays exactly what it must be."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from effectively_once.ledger.objects import Delete
from infra.embedded.process import Child, descendants, wait_for
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import Pipeline
from tests.spark.records import good, late, mixture

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STEP_S, REPLACED_S = 180.0, 180.0  # on an idle machine 15 s; JVM starts share two cores with other tests
STALE, OTHER_VERSION = 75, 78
SEED, NUMBER, LATE = 2, 2400, 40
AFTER_ALL_MS = 1_750_000_000_000 + 24 * 3_600_000


def test_killed_and_replaced_drivers_leave_every_output_exact(new_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = new_pipeline("recovery", epoch_rows_max=300)
    pipeline.send(mixture(SEED, NUMBER))

    # Killed right after an epoch was declared.
    first = pipeline.start()
    wait_for("a declared epoch", STEP_S, lambda: bool(pipeline.events("epoch", state="declared", epoch=1)), first)
    arguments = _arguments(first)
    assert "SparkSubmit" in arguments
    assert pipeline.endpoints.s3_secret_key not in arguments, "everybody on a machine reads them"
    declared = _kill(pipeline, first)

    # Another version may not finish it.
    other = pipeline.start(env={"EFFECTIVELY_ONCE_WHEEL_DIGEST": "x" * 64})
    assert other.wait(STEP_S)
    assert other.status() == OTHER_VERSION, other.post_mortem()

    # With the checkpoint; killed while a transaction of a later epoch was open.
    second = pipeline.start()
    wait_for("an open transaction", STEP_S, lambda: _open_after(pipeline, declared), second)
    interrupted = _kill(pipeline, second)
    epochs = pipeline.epochs()
    assert epochs[declared].lineage == epochs[-1].lineage, "the checkpoint was there and was not used"

    # Without the checkpoint.
    for name in list(pipeline.store.names(f"{pipeline.layout.checkpoint(epochs[-1].lineage)}/")):
        pipeline.store.answer(Delete(name))
    third = pipeline.start()
    pipeline.wait_processed(third)
    assert pipeline.head().last_recorded >= interrupted
    assert pipeline.epochs()[-1].lineage != epochs[-1].lineage
    pipeline.send(late(SEED, LATE))
    pipeline.wait_processed(third)

    # A second driver while the third runs.
    fourth = pipeline.start()
    more = itertools.count(NUMBER, 8)

    def replaced() -> bool:
        pipeline.send(mixture(SEED, 8, first=next(more)))
        return third.wait(0.5)

    wait_for("the replaced driver to stop", REPLACED_S, replaced, fourth)
    assert third.status() == STALE, third.post_mortem()
    _said_once(third, "StaleDriverError: driver ")
    for copy in range(2):  # the first moves the watermark, the second makes the epoch that closes the windows
        pipeline.send([good("closer", "closer", AFTER_ALL_MS, copy)])
        pipeline.wait_processed(fourth)

    # Stopped in order.
    fourth.stop(30)
    assert fourth.status() == 0, fourth.post_mortem()
    head = pipeline.head()
    assert head.declared is None
    assert head.last_recorded == max(line["epoch"] for line in pipeline.events("epoch", state="published"))

    counts = assert_exact(pipeline)
    assert counts["UNREAD"] == 0
    assert counts["LATE"] == LATE
    assert min(counts["DUPLICATE"], counts["MALFORMED"]) > 0
    # The driver of another version was refused before it took head over: it has no generation.
    assert {record.generation for record in pipeline.epochs()} == {1, 2, 3, 4}
    repeated = {line["epoch"] for line in pipeline.events("epoch", state="published", repeat=True)}
    assert {declared, interrupted} <= repeated


def _arguments(driver: Child) -> str:
    found = ""
    for process in descendants(driver.pid):
        with suppress(psutil.NoSuchProcess):
            found += " ".join(process.cmdline())
    return found


def _kill(pipeline: Pipeline, driver: Child) -> int:
    """SIGKILL a driver with its JVM and executors; return the epoch it left declared."""
    driver.kill()
    declared = pipeline.head().declared
    assert declared is not None, "no epoch was running when the driver was killed"
    return declared.epoch


def _open_after(pipeline: Pipeline, epoch: int) -> bool:
    opened = pipeline.events("step", step="transaction_open", sink="accepted")
    return any(line["epoch"] > epoch for line in opened)


def _said_once(driver: Child, begins: str) -> None:
    """Assert that the last line of a driver's log is its named error, and the only one."""
    lines = driver.log.read_text().rstrip("\n").split("\n")
    named = [line for line in lines if re.match(r"\w+Error: .+ \(.+\)\. \S", line)]
    assert named == lines[-1:], named
    assert named[0].startswith(begins)
