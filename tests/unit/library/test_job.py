"""A settings file and the declaration it names: found or refused by name, and which of the two has the last word."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Count, Pipeline, ToKafka, ToTable, Windowed
from effectively_once.driver.version import code_digest
from effectively_once.errors import SettingsError
from effectively_once.pipeline.job import Job, import_pipeline, job_of
from effectively_once_jobs.user_counts import pipeline as user_counts
from tests.settings import JOB, REQUIRED, pipeline_settings

DATABASE = "postgresql://h:5432/results"
GOOD = """
import pyarrow as pa
from effectively_once import Pipeline, ToKafka

def transform(frame):
    return frame

short = {"window_ms": 7, "lateness_ms": 8, "semantics": "at_least_once"}
pipeline = Pipeline(transform, pa.schema([]), rows=(ToKafka("a"),), **short)
other = Pipeline(transform, pa.schema([]), ids="coordinates", rows=(ToKafka("b"),))
number = 5
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that modules are imported from; what a test imports is forgotten after it."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("job_"):
            del sys.modules[name]


def file(folder: Path, **changes: Any) -> Path:
    path = folder / "settings.json"
    path.write_text(json.dumps({**REQUIRED, **changes}))
    return path


def transform(frame: Any) -> Any:
    return frame


TABLES = Pipeline(transform, pa.schema([]), rows=(ToTable("orders"), ToTable("again"), ToKafka("k")))


def test_a_module_or_a_name_in_it_is_imported(modules: Path) -> None:
    (modules / "job_good.py").write_text(GOOD)
    assert import_pipeline("job_good").rows == (ToKafka("a"),)
    assert import_pipeline("job_good:other").rows == (ToKafka("b"),)
    assert import_pipeline(JOB) is user_counts


BROKEN = [
    ("job_nowhere", None, "the job cannot be imported: ModuleNotFoundError: No module named 'job_nowhere'"),
    ("job_nowhere.part", None, "the job cannot be imported: ModuleNotFoundError: No module named 'job_nowhere'"),
    (
        "job_bad",
        "import nothing_like_this",
        "the job cannot be imported: ModuleNotFoundError: No module named 'nothing_l",
    ),
    ("job_bad", "1 / 0", "the job cannot be imported: ZeroDivisionError: division by zero"),
    ("job_bad", "def (", "the job cannot be imported: SyntaxError: "),
    ("job_bad", "raise ValueError('two\\nlines')", "the job cannot be imported: ValueError: two lines"),
    ("job_bad", "pipeline = 5", "the module has no pipeline that is a Pipeline"),
    ("job_bad", "", "the module has no pipeline that is a Pipeline"),
    ("job_bad", "from effectively_once import Pipeline as pipeline", "the module has no pipeline that is a Pipeline"),
    ("job_bad:other", "pipeline = 5", "the module has no other that is a Pipeline"),
    ("job_bad:number", GOOD, "the module has no number that is a Pipeline"),
]


@pytest.mark.parametrize(("name", "source", "says"), BROKEN)
def test_a_job_that_cannot_be_had_is_refused_by_its_name(
    modules: Path, name: str, source: str | None, says: str
) -> None:
    if source is not None:
        (modules / "job_bad.py").write_text(source)
    with pytest.raises(SettingsError) as refused:
        job_of(file(modules, job=name))
    assert str(refused.value).startswith(says)
    assert refused.value.where == f"settings: job {name}"
    assert "\n" not in str(refused.value)


def test_a_mistake_in_the_declaration_keeps_its_own_sentence(modules: Path) -> None:
    (modules / "job_wrong.py").write_text(GOOD.replace('ToKafka("a")', 'ToKafka("A")'))
    with pytest.raises(SettingsError, match=r"^a sink or step cannot be called 'A'.*\(declaration of the pipeline\)"):
        job_of(file(modules, job="job_wrong"))


def test_the_declaration_gives_defaults_and_settings_have_the_last_word(modules: Path) -> None:
    (modules / "job_good.py").write_text(GOOD)
    job = job_of(file(modules, job="job_good"))
    assert (job.settings.window_ms, job.settings.lateness_ms, job.settings.semantics) == (7, 8, "at_least_once")
    job = job_of(file(modules, job="job_good", window_ms=9, semantics="exactly_once"))
    assert (job.settings.window_ms, job.settings.lateness_ms, job.settings.semantics) == (9, 8, "exactly_once")
    job = job_of(file(modules, job="job_good", window_ms=60_000, lateness_ms=120_000))
    assert (job.settings.window_ms, job.settings.lateness_ms) == (60_000, 120_000), "written down, it is meant"
    plain = job_of(file(modules, job="job_good:other")).settings
    assert (plain.window_ms, plain.lateness_ms, plain.semantics) == (60_000, 120_000, "exactly_once")


def test_a_wrong_setting_is_refused_as_such_whatever_the_declaration_says(modules: Path) -> None:
    (modules / "job_good.py").write_text(GOOD)
    with pytest.raises(SettingsError, match=r"^window_ms: .* got 0 .*settings\.json"):
        job_of(file(modules, job="job_good", window_ms=0))


def test_a_declaration_at_hand_is_used_and_none_is_imported(modules: Path) -> None:
    job = job_of(file(modules, job="job_nowhere"), user_counts)
    assert job.pipeline is user_counts
    assert job.settings.pipeline == REQUIRED["pipeline"]


def test_tables_need_a_database_and_are_named(modules: Path) -> None:
    with pytest.raises(
        SettingsError,
        match=r"^the pipeline has tables \(orders, again\) and no database is set .*: database\). Set it: postg",
    ):
        job_of(file(modules), TABLES)
    assert job_of(file(modules, database=DATABASE), TABLES).settings.database == DATABASE
    assert job_of(file(modules), user_counts).settings.database is None


def test_a_password_in_the_databases_address_is_refused(modules: Path) -> None:
    """Settings are shown in messages, logs and head."""
    with pytest.raises(SettingsError, match=r"^database: String should match pattern"):
        job_of(file(modules, database="postgresql://me:secret@h:5432/results"), TABLES)


def bound(settings: dict[str, Any] | None = None, **declared: Any) -> Job:
    made = Pipeline(transform, pa.schema([("user", pa.string())]), **declared)
    return Job(made, pipeline_settings(**{"database": DATABASE, **(settings or {})}))


def test_state_depends_on_settings_and_declaration_both() -> None:
    plain = bound()
    assert plain.bound == {
        "topic": "events",
        "shards": 2,
        "window_ms": 60_000,
        "lateness_ms": 120_000,
        "ids": "attached",
        "windows": {},
    }
    per_user = (Windowed("user", {"n": Count()}, ToKafka("per_user")),)
    others = [bound({"shards": 3}), bound({"topic": "t"}), bound(ids="coordinates"), bound(windows=per_user)]
    assert len({job.digest for job in [plain, *others]}) == 5
    assert json.loads(json.dumps(others[-1].bound)) == others[-1].bound, "it goes through head"
    for same in (bound(), bound(rows=(ToTable("t"),)), bound({"epoch_rows_max": 5, "s3_bucket": "other"})):
        assert (same.digest, same.bound) == (plain.digest, plain.bound)


def test_without_a_wheel_the_code_of_the_job_is_the_version(modules: Path) -> None:
    """Other code is another version (R3), and the same code the same."""
    (modules / "job_good.py").write_text(GOOD)
    first = code_digest(*import_pipeline("job_good").functions)
    assert first == code_digest(*import_pipeline("job_good:other").functions)
    (modules / "job_good.py").write_text(GOOD + "\n# changed")
    assert code_digest(*import_pipeline("job_good").functions) != first


def test_any_callable_may_be_a_transform(modules: Path) -> None:
    """Without a wheel too: one with its parameters given, or an object that is called."""
    (modules / "job_good.py").write_text(GOOD)
    (transform,) = import_pipeline("job_good").functions
    assert code_digest(functools.partial(transform)) == code_digest(transform)


@pytest.mark.parametrize("topic", ["orders", "orders,refunds,returns", "events"])
def test_topics_and_transforms_are_of_each_other(topic: str) -> None:
    transforms = {"orders": lambda frame: frame, "refunds": lambda frame: frame}
    declared = Pipeline(transforms, pa.schema([]), rows=(ToKafka("a"),))
    Job(declared, pipeline_settings(topic="refunds,orders"))
    with pytest.raises(SettingsError, match=rf"transforms of orders, refunds and reads {topic}.*these topics: orders"):
        Job(declared, pipeline_settings(topic=topic))
