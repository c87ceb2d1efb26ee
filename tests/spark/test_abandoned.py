"""Epochs that are abandoned under Spark: another version goes on with the same checkpoint, and outputs are exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from effectively_once.ledger import chain, interventions
from effectively_once.ledger.objects import Delete, run
from effectively_once.operate.abandon.abandon import abandon
from effectively_once.pipeline.job import job_of
from tests.spark.attacked import Attacked
from tests.spark.pipeline import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STEP_S = 120.0
MENDED = {"EFFECTIVELY_ONCE_WHEEL_DIGEST": "x" * 64}


def test_another_version_goes_on_after_abandoned_epochs(new_pipeline: Callable[..., Pipeline]) -> None:
    """One abandoned by the command; one of which only the declaration was changed, so that the driver publishes it."""
    pipeline = new_pipeline("abandoned")
    attacked = Attacked.begun(pipeline)
    lineage = pipeline.epochs()[-1].lineage
    lost = _declare_and_kill(attacked)
    abandon(job_of(pipeline.write_settings()), lambda _: None, yes=True)
    attacked.driver = pipeline.start(env={**attacked.held.env, **MENDED})
    attacked.exact()
    again = _declare_and_kill(attacked)
    held = run(chain.take_over(pipeline.layout, "operator", {}), pipeline.store)
    run(interventions.abandon(pipeline.layout, held), pipeline.store)
    attacked.again()
    attacked.exact()
    attacked.send()
    attacked.exact()
    records = pipeline.epochs()
    assert [record.epoch for record in records if record.is_abandoned] == [lost, again]
    assert {record.lineage for record in records} == {lineage}, "the checkpoint was there and was not used"
    assert records[again].wheel_digest == MENDED["EFFECTIVELY_ONCE_WHEEL_DIGEST"] != records[again + 1].wheel_digest


def test_windows_of_an_abandoned_epoch_without_input_are_closed_after_it(
    new_pipeline: Callable[..., Pipeline],
) -> None:
    """The first batch of a new lineage on an idle topic reads nothing and closes windows, so it is not abandoned."""
    pipeline = new_pipeline("idle_abandoned")
    attacked = Attacked.begun(pipeline)
    attacked.driver.stop(STEP_S)
    for name in list(pipeline.store.names(f"{pipeline.layout.checkpoint(pipeline.epochs()[-1].lineage)}/")):
        pipeline.store.answer(Delete(name))
    attacked.held.ask("declared")
    attacked.again()
    attacked.held.wait(attacked.driver)
    attacked.driver.kill()
    lost = pipeline.head().declared
    assert lost is not None
    assert (lost.reads_nothing, lost.is_abandoned, lost.watermark_ms != lost.previous_watermark_ms) == (
        True,
        False,
        True,
    )
    other = pipeline.start(env=MENDED)
    assert other.wait(STEP_S)
    assert "VersionError: epoch" in other.log.read_text()
    abandon(job_of(pipeline.write_settings()), lambda _: None, yes=True)
    attacked.driver = pipeline.start(env={**attacked.held.env, **MENDED})
    attacked.send()
    attacked.exact()
    records = pipeline.epochs()
    assert [record.epoch for record in records if record.is_abandoned] == [lost.epoch]
    again = records[lost.epoch + 1]
    assert (again.previous_watermark_ms, again.watermark_ms) == (lost.previous_watermark_ms, lost.watermark_ms)


def _declare_and_kill(attacked: Attacked) -> int:
    """Declare another epoch and kill the driver there; its number."""
    attacked.held.ask("declared")
    attacked.send()
    attacked.held.wait(attacked.driver)
    attacked.driver.kill()
    declared = attacked.pipeline.head().declared
    assert declared is not None
    return declared.epoch
