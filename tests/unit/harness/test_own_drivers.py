"""Drivers of a pipeline that is not ours: which ends are worth a next driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from effectively_once.errors import SinkError
from tests.harness.own_act import OwnDrivers


@pytest.fixture
def drivers(tmp_path: Path) -> OwnDrivers:
    home: Any = None
    made = OwnDrivers(home, "effectively_once", tmp_path / "events.jsonl")
    made._wanted = True
    return made


def test_two_drivers_whose_rows_a_sink_refused_are_enough(drivers: OwnDrivers) -> None:
    drivers._told("ended", 1, code=SinkError.exit_code, says="SinkError: other rows")
    assert drivers.alive() is None
    drivers._told("ended", 2, code=SinkError.exit_code, says="SinkError: other rows")
    assert "SinkError: other rows" in str(drivers.alive())


def test_other_ends_and_struck_drivers_are_followed(drivers: OwnDrivers) -> None:
    drivers._struck.add(7)
    says = "SinkError: other rows"
    for pid, last in ((1, ""), (2, "StaleDriverError: replaced"), (7, says), (7, says), (3, says)):
        drivers._told("ended", pid, code=SinkError.exit_code, says=last)
    drivers._told("killed", 3, process="3@1")
    assert drivers.alive() is None
