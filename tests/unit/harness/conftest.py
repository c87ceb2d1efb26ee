"""A fabricated run directory for every test, and a world for those of faults."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.hasty import hasty
from tests.unit.harness.recorded_run import FABRICATED, RECORDED, RUNS, unpacked
from tests.unit.harness.struck import World, lend
from tests.unit.harness.tamper import bind, watch


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clean run, watched by a reader, and bound; not to be changed."""
    return bind(watch(fabricate(tmp_path_factory.mktemp("pristine") / "20261120-170301-7")))


@pytest.fixture(scope="module", params=RUNS)
def clean(request: pytest.FixtureRequest, pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return that one, or a recorded run that passes too; not to be changed."""
    if request.param == FABRICATED:
        return pristine
    return unpacked(RECORDED[0].with_name(request.param), tmp_path_factory.mktemp("clean"))


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Path:
    """Return a copy of the clean run, to be tampered with."""
    return Path(shutil.copytree(pristine, tmp_path / pristine.name))


__all__ = ["hasty"]

world = lend(World)
"""What faults need of a run."""
