"""The settings of fraud detection: read once, and what is wrong is told by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from effectively_once.errors import SettingsError
from effectively_once_jobs.fraud import __main__ as job
from effectively_once_jobs.fraud.analyzers import ANALYZERS
from effectively_once_jobs.fraud.settings import load
from tests.experiments.fraud import plan

GOOD: dict[str, Any] = {
    "pipeline": "fraud",
    "topic": "transactions",
    "job": "effectively_once_jobs.fraud",
    "kafka_bootstrap": "broker:9092",
    "s3_endpoint": "http://store:9000",
    "s3_bucket": "bucket",
    "database": "postgresql://db:5432/results",
}


def written(path: Path, **changes: Any) -> Path:
    file = path / "settings.json"
    file.write_bytes(orjson.dumps({name: value for name, value in {**GOOD, **changes}.items() if value is not ...}))
    return file


def test_defaults_leave_time_to_store_a_decision_after_its_deadline(tmp_path: Path) -> None:
    settings = load(written(tmp_path))
    assert (settings.deadline_ms, settings.target_ms, settings.scores) == (14, 20, "fraud.scores")
    assert settings.windows_ms.keys() == ANALYZERS.keys() == set(plan.ANALYZERS)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"deadline_ms": 20}, "deadline_ms 20 is not before target_ms 20"),
        ({"database": ...}, "database: Field required"),
        ({"held_max": 1}, "held_max: .*got 1"),
        ({"deadline": 5}, "deadline: Extra inputs"),
        ({"database": "postgresql://me:secret@db:5432/r"}, "database: "),
    ],
)
def test_what_is_wrong_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], says: str
) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(SettingsError, match=says):
        load(path)
    assert job.main([str(path)]) == SettingsError.exit_code
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "secret" not in told
    assert job.main([]) == SettingsError.exit_code
