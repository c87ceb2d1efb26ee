"""A partition that lags holds time back with `idle_ms`: until it is idle, or until too much is kept for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from effectively_once.operate.inspect.certificate import certify
from effectively_once.pipeline.settings import PipelineSettings
from infra.embedded.process import Child
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import PARTITIONS, Outgoing, Pipeline
from tests.spark.records import START_MS, good

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
FAST, LAGGING = 0, range(1, PARTITIONS)


def publish(pipeline: Pipeline, driver: Child, *records: Outgoing) -> None:
    """Send records and wait for the epochs that publish them."""
    pipeline.send(records)
    pipeline.wait_processed(driver)


def at(time_ms: int, *partitions: int) -> list[Outgoing]:
    return [good(f"p{one}-{time_ms}", f"u{one}", time_ms, one) for one in partitions]


@pytest.mark.parametrize(("idle_ms", "late"), [pytest.param(600_000, 0, marks=pytest.mark.slow), (1, len(LAGGING))])
def test_records_of_a_partition_that_lags_are_late_only_once_it_was_idle(
    new_pipeline: Callable[..., Pipeline], idle_ms: int, late: int
) -> None:
    pipeline = new_pipeline(f"lagging_{idle_ms}", idle_ms=idle_ms)
    driver = pipeline.start()
    publish(pipeline, driver, *at(START_MS, FAST, *LAGGING))
    # One partition is an hour ahead; an epoch has to see what the one before it has shown.
    for minute in range(3):
        publish(pipeline, driver, *at(START_MS + HOUR_MS + minute * 60_000, FAST))
    publish(pipeline, driver, *at(START_MS + 60_000, *LAGGING))
    assert assert_exact(pipeline, running=True)["LATE"] == late
    # All have come as far: windows close, whoever was waited for.
    for hour in (2, 3):
        publish(pipeline, driver, *at(START_MS + hour * HOUR_MS, FAST, *LAGGING))
    assert_exact(pipeline, running=True)
    watermark_ms = pipeline.head().declared.watermark_ms  # type: ignore[union-attr]
    assert watermark_ms == START_MS + 2 * HOUR_MS


def test_one_for_whom_too_much_is_held_is_left_behind_and_time_goes_no_further_than_it_must(
    new_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = new_pipeline("left_behind", idle_ms=600_000, held_rows_max=1, window_ms=60_000, lateness_ms=0)
    driver = pipeline.start()
    # More than one for each shard, by id and by user.
    first = [record for n in range(10) for record in at(START_MS + n, FAST, *LAGGING)]
    publish(pipeline, driver, *first)
    for minute in range(3):
        publish(pipeline, driver, *at(START_MS + HOUR_MS + minute, FAST))
    closed = start_of(START_MS) + 60_000
    publish(pipeline, driver, *at(closed - 1, *LAGGING), *at(closed, *LAGGING))
    assert assert_exact(pipeline, running=True)["LATE"] == len(LAGGING), "of the window that was closed, of no other"
    found = certify(PipelineSettings.model_validate(pipeline.settings), pipeline.store, start_of(START_MS))
    assert (found.verdict, found.watermark_ms) == ("released", closed)
    assert found.released == tuple(f"{pipeline.topic}/{one}" for one in LAGGING)


def start_of(time_ms: int) -> int:
    return time_ms - time_ms % 60_000
