"""Settings: read once, refused by field and value, and held against those the chain began with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from effectively_once.errors import SettingsError
from effectively_once.pipeline.settings import digest, load, refuse_changed
from tests.settings import JOB, REQUIRED, pipeline_settings

BOUND = {"topic": "other", "shards": 3, "window_ms": 1000, "lateness_ms": 1000}


def _file(folder: Path, content: Any) -> Path:
    file = folder / "settings.json"
    file.write_text(json.dumps(content))
    return file


def test_a_good_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    settings = load(_file(tmp_path, {**REQUIRED, "shards": 4}))
    assert (settings.shards, settings.window_ms, settings.lateness_ms) == (4, 60_000, 120_000)
    assert (settings.bucket.host, settings.bucket.secure) == ("localhost:1", False)


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
        ({"begins_at": "2026-03-01T12:00:00"}, "begins_at: String should match .* got '2026-03-01T12:00:00'"),
        ({"begins_at": "2026-02-31T12:00:00Z"}, "begins_at: .*day is out of range"),
        ({"begins_at": "2999-01-01T00:00:00+01:00"}, "begins_at: .*a time that has been, got '2999-"),
        ({"topic": "clicks.accepted"}, "settings: .* the pipeline would read what it writes"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_the_fields_there_are(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingsError, match=says) as refused:
        load(_file(tmp_path, {**REQUIRED, **change}))
    message = str(refused.value)
    assert "\n" not in message
    assert "Fields are pipeline, topic, kafka_bootstrap" in message
    assert "settings.json" in message


@pytest.mark.parametrize(
    ("field", "good", "wrong"),
    [
        (
            "kafka_bootstrap",
            ["h:1", "kafka-0.kafka_x.svc:65535,10.0.0.1:9092"],
            ["", "h", "h:", ":1", "h:1,", "h:1, i:2", "h:1\n", "h:x", "h:\u0661", "h:0", "h:65536", "h/i:1", "ö:1"],
        ),
        ("topic", ["a", "A.b_c-1", "...", "a" * 200], ["", ".", "..", "a b", "a/b", "a:b", "ö", "a\n", "a" * 201]),
        (
            "s3_bucket",
            ["abc", "a-b.c-d", "1.2.3", "a" * 63],
            ["", "ab", "a" * 64, "a_b", "Abc", "-ab", "ab-", ".ab", "a..b", "a.-b", "a-.b", "10.0.0.1", "abc\n"],
        ),
    ],
)
def test_names_that_kafka_or_the_store_would_refuse_are_refused_before_they_are_asked(
    tmp_path: Path, field: str, good: list[str], wrong: list[str]
) -> None:
    """With the value, and how it is written."""
    for value in good:
        assert getattr(load(_file(tmp_path, {**REQUIRED, field: value})), field) == value
    for value in wrong:
        with pytest.raises(SettingsError, match=rf"^{field}: .*settings\.json.*like this: \"{field}\": \"") as refused:
            load(_file(tmp_path, {**REQUIRED, field: value}))
        assert f"got {value!r}" in str(refused.value)


@pytest.mark.parametrize("several", ["orders,refunds", "refunds,orders", ["refunds", "orders"]])
def test_several_topics_are_one_text_whoever_writes_them_how(tmp_path: Path, several: object) -> None:
    settings = load(_file(tmp_path, {**REQUIRED, "topic": several}))
    assert (settings.topics, settings.bound["topic"]) == (("orders", "refunds"), "orders,refunds")


@pytest.mark.parametrize(
    ("several", "says"),
    [
        ("orders,orders", "topic: .*named twice"),
        ("orders,..", "topic: .*no topic of this name"),
        ("orders, refunds", "topic: "),
        ({"orders": "prod.orders"}, "topic: "),
        (f"orders,{REQUIRED['pipeline']}.x", "would read what it writes"),
    ],
)
def test_topics_that_cannot_be_are_refused(tmp_path: Path, several: object, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load(_file(tmp_path, {**REQUIRED, "topic": several}))


def test_sources_speak_of_one_topic(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="sources say how far they are in one topic"):
        load(_file(tmp_path, {**REQUIRED, "topic": "orders,refunds", "sources": ["a"], "idle_ms": 1}))


@pytest.mark.parametrize("missing", REQUIRED)
def test_a_missing_setting_is_named(tmp_path: Path, missing: str) -> None:
    rest = {name: value for name, value in REQUIRED.items() if name != missing}
    with pytest.raises(SettingsError, match=f"^{missing}: Field required"):
        load(_file(tmp_path, rest))


def test_a_missing_job_is_shown_an_example(tmp_path: Path) -> None:
    """A command that guessed one would look at another declaration than the one that runs."""
    rest = {name: value for name, value in REQUIRED.items() if name != "job"}
    with pytest.raises(SettingsError, match=r"^job: Field required") as refused:
        load(_file(tmp_path, rest))
    assert f'Write it like this: "job": "{JOB}".' in str(refused.value)
    with pytest.raises(SettingsError, match=r"^job: String should match .* got 'no-module' .* like this: \"job\": "):
        load(_file(tmp_path, {**rest, "job": "no-module"}))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\x00", b"\xff\xfe", b'{"pipeline": NaN}'])
def test_a_file_that_is_no_settings_file_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"^(settings|pipeline): .*settings\.json") as refused:
        load(file)
    assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "nowhere.json", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(SettingsError, match=f"settings cannot be read: {reason}.*{path.name}"):
            load(path)


def test_settings_that_state_depends_on_may_not_change_and_others_may() -> None:
    settings = pipeline_settings()
    # As it comes back from head.
    kept = json.loads(json.dumps(settings.bound))
    assert set(kept) == set(BOUND)
    refuse_changed(kept, settings.bound, "head")
    refuse_changed(kept, settings.model_copy(update={"kafka_bootstrap": "other:1", "epoch_rows_max": 5}).bound, "head")
    for field, value in BOUND.items():
        changed = settings.model_copy(update={field: value})
        with pytest.raises(SettingsError, match=f"^{field} was .* and is {value!r} now .*head.*Set {field} back to"):
            refuse_changed(kept, changed.bound, "head")
        assert digest(changed.bound) != digest(kept)


def test_where_a_pipeline_began_may_not_change_and_who_names_no_time_is_bound_as_before() -> None:
    """A chain goes on where it ends: a time that is set later would be taken for a way back, and change nothing."""
    settings = pipeline_settings()
    assert "begins_at" not in settings.bound
    timed, later = (settings.model_copy(update={"begins_at": f"2026-03-0{day}T00:00:00Z"}) for day in (1, 2))
    refuse_changed(json.loads(json.dumps(timed.bound)), timed.bound, "head")
    for began, goes_on in ((settings, timed), (timed, settings), (timed, later)):
        with pytest.raises(SettingsError, match=r"^begins_at was .* when this pipeline began and is .* another name"):
            refuse_changed(began.bound, goes_on.bound, "head")
