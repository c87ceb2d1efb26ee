"""The runs that are tampered with: one recorded on real servers, and two made up: with controls, with gateways."""

from __future__ import annotations

from pathlib import Path

from tests.tampered.alterations import Files
from tests.tampered.places import files_of
from tests.unit.harness.fabricate import fabricate
from tests.unit.harness.fabricate_gateways import fabricate_gateways
from tests.unit.harness.recorded_run import RECORDED, unpacked
from tests.unit.harness.tamper import bind, watch

MADE_UP = "made-up"
OF_GATEWAYS = "gateways"
RECORDED_RUN = "recorded"


def make_bases(folder: Path) -> dict[str, Path]:
    """Return the run directories, by name, in a folder that is empty."""
    (folder / RECORDED_RUN).mkdir()
    return {
        RECORDED_RUN: unpacked(RECORDED[0], folder / RECORDED_RUN),
        MADE_UP: bind(watch(fabricate(folder / MADE_UP / "20261120-170301-7"))),
        OF_GATEWAYS: bind(watch(fabricate_gateways(folder / OF_GATEWAYS / "20261125-170301-7"))),
    }


def read_bases(bases: dict[str, Path]) -> Files:
    """Return all their files."""
    return {name: {one.name: one for one in files_of(path)} for name, path in bases.items()}
