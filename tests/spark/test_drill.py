"""`make drill` as a whole, small: everything destroyed under load, restored, and gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.command import main
from tests.experiments.drill.experiment import EXPERIMENT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800)]


def test_what_was_in_the_backup_is_there_once_and_what_is_lost_is_stated(tmp_path: Path) -> None:
    assert main(EXPERIMENT, ["--seed", "7", "--quick", "--runs", str(tmp_path)]) == 0
    assert (tmp_path / "latest" / "page.html").stat().st_size > 10_000
