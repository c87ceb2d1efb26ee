"""`make compare` as a whole, small: all four semantics under failing look-ups and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.toolchain.postgres import HOW, find_postgres
from tests.experiments.compare.run import main

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800)]
SIZES = {"warm-up": 300, "burst": 1500, "calm": 1000, "struck": 3000, "kills": 1, "driver-kills": 1}


def test_each_semantics_keeps_its_promise_and_shows_what_it_does_not_promise(tmp_path: Path) -> None:
    if find_postgres() is None:
        pytest.skip(HOW)
    sizes = [word for name, size in SIZES.items() for word in (f"--{name}", str(size))]
    assert main(["--seed", "7", "--jvm", "quick", "--runs", str(tmp_path), *sizes]) == 0
    assert (tmp_path / "latest" / "page.html").stat().st_size > 10_000
