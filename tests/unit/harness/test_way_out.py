"""The way out of an epoch that no driver can repeat: the command, and another job in the settings from then on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.play.way_out import NoWayOutError, WayOut
from tests.unit.harness.sleepers import Home


def way_out(folder: Path, code: str, taken: list[str]) -> tuple[WayOut, Home]:
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"job": "unproven", "shards": 2}))
    home = Home(folder, [code])
    return WayOut(home, settings, "proven", lambda: taken.append("taken")), home  # type: ignore[arg-type]


def test_the_epoch_is_repaired_and_the_settings_name_the_job_with_proof(tmp_path: Path) -> None:
    taken: list[str] = []
    out, home = way_out(tmp_path, "print('shard 0: 4 rows'); print('the next driver finishes epoch 2')", taken)
    assert out.take() == "the next driver finishes epoch 2"
    assert home.words == ["effectively_once", "repair", str(out.settings), "--yes"]
    assert json.loads(out.settings.read_text()) == {"job": "proven", "shards": 2}
    assert taken == ["taken"]


def test_a_command_that_fails_is_no_way_out(tmp_path: Path) -> None:
    taken: list[str] = []
    out, _ = way_out(tmp_path, "print('SinkError: something else is visible'); raise SystemExit(76)", taken)
    with pytest.raises(NoWayOutError, match="something else is visible"):
        out.take()
    assert taken == []
