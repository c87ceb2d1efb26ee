"""Settings: read once, refused by field and value, and held against those the chain began with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from effectively_once.errors import SettingsError
from effectively_once.settings import PipelineSettings, digest, load, unchanged

GOOD: dict[str, Any] = {
    "pipeline": "user_counts",
    "topic": "events",
    "kafka_bootstrap": "127.0.0.1:9092",
    "s3_endpoint": "http://127.0.0.1:9000",
    "s3_bucket": "effectively-once",
}
BOUND = {"topic": "other", "shards": 3, "window_ms": 1000, "lateness_ms": 1000}


def _file(folder: Path, content: Any) -> Path:
    file = folder / "settings.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_a_good_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    settings = load(_file(tmp_path, {**GOOD, "shards": 4}))
    assert (settings.shards, settings.window_ms, settings.lateness_ms) == (4, 60_000, 120_000)
    assert (settings.bucket.host, settings.bucket.secure) == ("127.0.0.1:9000", False)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"speed": 9}, "speed: Extra inputs are not permitted, got 9"),
        ({"shards": "2"}, "shards: Input should be a valid integer, got '2'"),
        ({"shards": True}, "shards: Input should be a valid integer, got True"),
        ({"shards": 2.0}, "shards: Input should be a valid integer, got 2.0"),
        ({"shards": 0}, "shards: Input should be greater than or equal to 1, got 0"),
        ({"shards": 257}, "shards: Input should be less than or equal to 256, got 257"),
        ({"window_ms": 0}, "window_ms: .* got 0"),
        ({"lateness_ms": -1}, "lateness_ms: .* got -1"),
        ({"epoch_rows_max": 0}, "epoch_rows_max: .* got 0"),
        ({"pipeline": "User.Counts"}, "pipeline: String should match pattern .* got 'User.Counts'"),
        ({"kafka_bootstrap": "localhost"}, "kafka_bootstrap: .* got 'localhost'"),
        ({"s3_endpoint": "127.0.0.1:9000"}, "s3_endpoint: .* got '127.0.0.1:9000'"),
        ({"s3_bucket": "Bucket"}, "s3_bucket: .* got 'Bucket'"),
        ({"topic": "user_counts.accepted"}, "settings: .* the pipeline would read what it writes"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_the_fields_there_are(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingsError, match=says) as refused:
        load(_file(tmp_path, {**GOOD, **change}))
    message = str(refused.value)
    assert "\n" not in message
    assert "Fields are pipeline, topic, kafka_bootstrap" in message
    assert "settings.json" in message


@pytest.mark.parametrize("missing", GOOD)
def test_a_missing_setting_is_named(tmp_path: Path, missing: str) -> None:
    rest = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(SettingsError, match=f"^{missing}: Field required"):
        load(_file(tmp_path, rest))


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00"])
def test_a_file_that_is_no_settings_file_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    with pytest.raises(SettingsError, match=r"^settings: ") as refused:
        load(_file(tmp_path, content))
    assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "nowhere.json", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(SettingsError, match=f"settings cannot be read: {reason}.*{path.name}"):
            load(path)


def test_settings_that_state_depends_on_may_not_change_and_others_may() -> None:
    settings = PipelineSettings(**GOOD)
    kept = settings.bound
    assert set(kept) == set(BOUND)
    unchanged(kept, settings.model_copy(update={"kafka_bootstrap": "other:1", "epoch_rows_max": 5}).bound, "head")
    for field, value in BOUND.items():
        changed = settings.model_copy(update={field: value})
        with pytest.raises(SettingsError, match=f"^{field} was .* and is {value!r} now .*head.*Set {field} back to"):
            unchanged(kept, changed.bound, "head")
        assert digest(changed.bound) != digest(kept)


def test_settings_survive_the_way_through_head_as_json() -> None:
    settings = PipelineSettings(**GOOD)
    unchanged(json.loads(json.dumps(settings.bound)), settings.bound, "head")
