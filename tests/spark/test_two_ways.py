"""`make two-ways` as a whole, small: both ways under kills, and the control that has to go wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.toolchain.postgres import HOW, find_postgres
from tests.experiments.command import main
from tests.experiments.two_ways.experiment import EXPERIMENT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800)]


def test_both_ways_are_exact_under_kills_and_dedup_without_its_catalog_is_not(tmp_path: Path) -> None:
    if find_postgres() is None:
        pytest.skip(HOW)
    assert main(EXPERIMENT, ["--seed", "7", "--quick", "--runs", str(tmp_path)]) == 0
    assert (tmp_path / "latest" / "page.html").stat().st_size > 10_000
