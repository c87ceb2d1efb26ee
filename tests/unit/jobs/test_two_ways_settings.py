"""Settings of a process of both ways: what is impossible is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from effectively_once.errors import SettingsError
from effectively_once_jobs.two_ways import needs
from effectively_once_jobs.two_ways.__main__ import main
from effectively_once_jobs.two_ways.settings import load

WHOLE: dict[str, Any] = {
    "pipeline": "ways",
    "job": "effectively_once_jobs.two_ways",
    "way": "dedup",
    "operators": 3,
    "operator": 2,
    "topic": "ways",
    "kafka_bootstrap": "h:1",
    "s3_endpoint": "http://h:1",
    "s3_bucket": "bucket",
    "database": "postgresql://h:1/results",
}


def written(path: Path, **changes: Any) -> Path:
    file = path / "settings.json"
    file.write_text(json.dumps({**WHOLE, **changes}))
    return file


def test_operators_are_chained_by_topics_and_the_last_one_writes_the_output(tmp_path: Path) -> None:
    settings = load(written(tmp_path))
    assert [settings.reads(number) for number in range(3)] == ["ways", "ways.1", "ways.2"]
    assert settings.last
    assert not load(written(tmp_path, operator=1)).last


def test_a_deployment_makes_the_topics_between_operators_and_the_table() -> None:
    found = needs({**WHOLE, "operators": 4})
    assert found.topics == ("ways.1", "ways.2", "ways.3")
    assert 'CREATE TABLE IF NOT EXISTS "ways".results' in found.schema
    assert not needs({**WHOLE, "way": "snapshots"}).topics, "operators of a query need none"
    with pytest.raises(ValueError, match="count from 0"):
        needs({**WHOLE, "operator": 3})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"operator": 3}, "operator 3 of 3: they count from 0"),
        ({"way": "hope"}, "way:"),
        ({"operators": 0}, "operators:"),
        ({"speed": 1}, "speed:"),
        ({"database": "results"}, "database:"),
        ({"topic": "ways.1"}, "begins with the pipeline's name"),
        ({"epoch_rows_max": 200_000}, "epoch_rows_max:"),
    ],
)
def test_what_is_impossible_is_refused(
    tmp_path: Path, changes: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(SettingsError, match=says):
        load(path)
    assert main([str(path)]) == SettingsError.exit_code
    assert capsys.readouterr().err.startswith("SettingsError: ")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"settings cannot be read.*none\.json"):
        load(tmp_path / "none.json")
