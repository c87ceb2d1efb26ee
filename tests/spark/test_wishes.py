"""A driver keeps to what operators wish: paused it declares nothing, drained it stops in order."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from effectively_once.__main__ import main
from infra.embedded.process import Child, wait_for
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import Pipeline
from tests.spark.records import mixture

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEED, NUMBER, STEP_S = 3, 400, 60.0


def test_a_driver_pauses_drains_and_goes_on_when_it_is_asked_to(new_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = new_pipeline("wishes", epoch_rows_max=150)
    settings = str(pipeline.write_settings())
    pipeline.send(mixture(SEED, NUMBER))

    assert main(["pause", settings]) == 0
    paused = pipeline.start()
    wait_for("a planned batch", STEP_S, lambda: _planned(pipeline), paused)
    _stopped(paused, by=signal.SIGTERM)
    assert (pipeline.events("epoch"), pipeline.head().last_recorded, pipeline.head().declared) == ([], -1, None)

    assert main(["resume", settings]) == 0
    running = pipeline.start()
    pipeline.wait_processed(running)
    pipeline.send(mixture(SEED, NUMBER, first=NUMBER))
    assert main(["drain", settings, "--wait-s", "60"]) == 0
    _stopped(running)
    drained = pipeline.head()
    assert drained.declared is None
    assert pipeline.published_rows() == len(pipeline.sends)

    # What came after the drain waits until somebody asks for it.
    pipeline.send(mixture(SEED, NUMBER, first=2 * NUMBER))
    again = pipeline.start()
    _stopped(again)
    assert "the pipeline is drained" in again.log.read_text()
    assert pipeline.head().last_recorded == drained.last_recorded

    assert main(["resume", settings]) == 0
    last = pipeline.start()
    pipeline.wait_processed(last)
    _stopped(last, by=signal.SIGTERM)
    assert_exact(pipeline)


def _planned(pipeline: Pipeline) -> bool:
    return any("/offsets/" in name for name in pipeline.store.names(f"{pipeline.name}/checkpoints/"))


def _stopped(driver: Child, by: signal.Signals | None = None) -> None:
    """It ends, asked to or by itself, and nothing failed."""
    if by is not None:
        driver.signal(by)
    assert driver.wait(STEP_S), driver.post_mortem()
    assert driver.status() == 0, driver.post_mortem()
