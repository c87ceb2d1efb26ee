"""A chain, topics and files that an older version of the library wrote: this version goes on after them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from effectively_once.ledger.head import FORMAT
from effectively_once.ledger.objects import Found, Get
from infra.toolchain.prepare import CHECKOUT
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import Pipeline
from tests.spark.records import late, mixture

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BEFORE_THE_MOVE = "6c320c36~1"
"""The library's modules lay in one folder; its head had format 4."""
LIBRARY = "pipelines/src"
SEED, NUMBER, COPIES, LATE = 9, 1_200, 200, 40


@pytest.fixture
def older(tmp_path: Path) -> dict[str, str]:
    """Environment of a driver with the library of that commit."""
    archive = subprocess.run(
        ["git", "archive", BEFORE_THE_MOVE, LIBRARY], cwd=CHECKOUT, capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(f"this clone has no {BEFORE_THE_MOVE}: `git fetch --unshallow` brings the history")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(tmp_path / "older", filter="data")
    return {"PYTHONPATH": str(tmp_path / "older" / LIBRARY), "EFFECTIVELY_ONCE_WHEEL_DIGEST": "0" * 64}


def format_of(pipeline: Pipeline) -> object:
    """The format that head says it has."""
    answer = pipeline.store.answer(Get(pipeline.layout.head))
    assert isinstance(answer, Found)
    return orjson.loads(answer.body)["format"]


def test_a_chain_that_an_older_library_wrote_goes_on(
    new_pipeline: Callable[..., Pipeline], older: dict[str, str]
) -> None:
    pipeline = new_pipeline("older", epoch_rows_max=300)
    pipeline.send(mixture(SEED, NUMBER))
    first = pipeline.start(env=older)
    pipeline.wait_committed(first)
    first.stop()
    before, written = pipeline.epochs(), format_of(pipeline)
    assert len(before) > 2
    assert written != FORMAT

    # Copies of what the older one took: its catalog has to be read, not begun anew.
    pipeline.send([*mixture(SEED, NUMBER)[-COPIES:], *mixture(SEED, COPIES, first=NUMBER)])
    second = pipeline.start()
    pipeline.wait_processed(second)
    pipeline.send(late(SEED, LATE))
    pipeline.wait_committed(second)
    second.stop()
    assert pipeline.epochs()[: len(before)] == before
    assert format_of(pipeline) == FORMAT
    counts = assert_exact(pipeline, running=True)
    assert counts["DUPLICATE"] > COPIES
