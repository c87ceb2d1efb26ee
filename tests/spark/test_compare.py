"""`make compare` as a whole, small: all four semantics under failing look-ups and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.toolchain.postgres import HOW, find_postgres
from tests.experiments.command import main
from tests.experiments.compare.experiment import EXPERIMENT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800)]


def test_each_semantics_keeps_its_promise_and_shows_what_it_does_not_promise(tmp_path: Path) -> None:
    if find_postgres() is None:
        pytest.skip(HOW)
    assert main(EXPERIMENT, ["--seed", "7", "--quick", "--runs", str(tmp_path)]) == 0
    assert (tmp_path / "latest" / "page.html").stat().st_size > 10_000
