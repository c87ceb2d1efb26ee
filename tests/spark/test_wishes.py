"""A driver keeps to what operators wish: paused it declares nothing, drained it stops in order; and says how it is."""

from __future__ import annotations

import signal
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from effectively_once.__main__ import main
from effectively_once.driver.metrics import VARIABLE
from infra.embedded.ports import HOST, free_ports
from infra.embedded.process import Child, wait_for
from infra.operate.ready import Wait
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
    _assert_stopped(paused, by=signal.SIGTERM)
    assert (pipeline.events("epoch"), pipeline.head().last_recorded, pipeline.head().declared) == ([], -1, None)

    assert main(["resume", settings]) == 0
    running = pipeline.start()
    pipeline.wait_processed(running)
    pipeline.send(mixture(SEED, NUMBER, first=NUMBER))
    assert main(["drain", settings, "--wait-s", "60"]) == 0
    _assert_stopped(running)
    drained = pipeline.head()
    assert drained.declared is None
    assert pipeline.published_rows() == len(pipeline.sends)

    # What came after the drain waits until somebody asks for it.
    pipeline.send(mixture(SEED, NUMBER, first=2 * NUMBER))
    again = pipeline.start()
    _assert_stopped(again)
    assert "the pipeline is drained" in again.log.read_text()
    assert pipeline.head().last_recorded == drained.last_recorded

    assert main(["resume", settings]) == 0
    last = pipeline.start()
    pipeline.wait_processed(last)
    _assert_stopped(last, by=signal.SIGTERM)
    assert_exact(pipeline)


def test_an_update_sees_whether_a_driver_works_has_nothing_to_do_or_is_paused(
    new_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline, port = new_pipeline("signs"), free_ports(1)[0]
    settings, environment = str(pipeline.write_settings()), {VARIABLE: str(port)}
    cluster: Any = None

    def judge() -> str | None:
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=5) as answer:
            return Wait(cluster, "pipelines", "signs")._judge_metrics(answer.read().decode())

    def stands(as_what: str) -> None:
        driver = pipeline.start(env=environment)
        wait_for(as_what, STEP_S, lambda: judge() == as_what, driver)
        _assert_stopped(driver, by=signal.SIGTERM)

    pipeline.send(mixture(SEED, NUMBER))
    running = pipeline.start(env=environment)
    pipeline.wait_processed(running)
    assert judge() == "its driver has published an epoch"
    _assert_stopped(running, by=signal.SIGTERM)
    stands("its driver has found nothing to read")

    assert main(["pause", settings]) == 0
    pipeline.send(mixture(SEED, NUMBER, first=NUMBER))
    stands("it is paused")


def _planned(pipeline: Pipeline) -> bool:
    return any("/offsets/" in name for name in pipeline.store.names(f"{pipeline.name}/checkpoints/"))


def _assert_stopped(driver: Child, by: signal.Signals | None = None) -> None:
    """It ends, asked to or by itself, and nothing failed."""
    if by is not None:
        driver.signal(by)
    assert driver.wait(STEP_S), driver.post_mortem()
    assert driver.status() == 0, driver.post_mortem()
