"""What a deployment makes for a job beside its sinks: asked of its module, refused by name, and made once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from effectively_once.errors import SettingsError, UnreachableError
from effectively_once.operate.create import create, create_command
from effectively_once.operate.create.needs import NOTHING, Needs, make_schema, needs_of, undeclared
from effectively_once.operate.create.topics import Found, Topic
from effectively_once.pipeline.sinks import RECORD_BYTES
from effectively_once_jobs import fraud
from effectively_once_jobs.user_counts import pipeline
from tests.settings import pipeline_settings

JOB = "a_job_with_needs"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that settings can name."""
    found = ModuleType(JOB)
    monkeypatch.setitem(sys.modules, JOB, found)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"pipeline": "p", "operators": 3}))
    return path


def of_three(told: Any) -> Needs:
    return Needs(tuple(f"{told['pipeline']}.{n}" for n in range(1, told["operators"])))


def test_the_module_is_asked_with_the_whole_settings_file(module: ModuleType, settings: Path) -> None:
    module.needs = of_three  # type: ignore[attr-defined]
    assert needs_of(JOB, settings) == Needs(("p.1", "p.2"))


def test_a_job_that_says_nothing_needs_nothing(module: ModuleType, settings: Path) -> None:
    assert needs_of(JOB, settings) == NOTHING
    assert needs_of("effectively_once_jobs.user_counts", settings) == NOTHING


def test_a_job_that_cannot_tell_is_refused_by_name(module: ModuleType, settings: Path) -> None:
    module.needs = of_three  # type: ignore[attr-defined]
    settings.write_text(json.dumps({"pipeline": "p"}))
    with pytest.raises(SettingsError, match="cannot tell what it needs: KeyError: 'operators'"):
        needs_of(JOB, settings)
    with pytest.raises(SettingsError, match="the job cannot be imported"):
        needs_of("no.such.job", settings)


def test_only_a_program_without_a_declaration_goes_without_sinks(module: ModuleType) -> None:
    assert not undeclared(JOB)
    module.needs = of_three  # type: ignore[attr-defined]
    assert undeclared(JOB)
    # It names a declaration: that has to be there.
    assert not undeclared(f"{JOB}:other")
    module.pipeline = pipeline  # type: ignore[attr-defined]
    assert not undeclared(JOB)


def test_fraud_detection_tells_its_scores_and_its_tables() -> None:
    found = fraud.needs({"pipeline": "frauds"})
    assert found.topics == ("frauds.scores",)
    assert found.config == {"message.timestamp.type": "LogAppendTime"}
    assert "fraud.decisions" in found.schema


def test_tables_without_a_database_are_refused() -> None:
    with pytest.raises(SettingsError, match="tables and no database"):
        make_schema(None, Needs(schema="CREATE TABLE t ();"), patience_s=1, say=print)
    make_schema(None, NOTHING, patience_s=1, say=print)


class Broker:
    """Knows topics from the second look on."""

    def __init__(self, known: dict[str, Found]) -> None:
        self.known, self.looks = known, 0

    def topics(self, names: Any) -> dict[str, Found]:
        self.looks += 1
        return {name: self.known[name] for name in names if name in self.known and self.looks > 1}

    def make(self, topics: Any, replication: int) -> None:
        raise AssertionError("nothing is to be made by looking")

    def widen(self, topics: Any) -> None:
        raise AssertionError("nothing is to be made by looking")


def needed(broker: Broker, partitions: int | None, deadline_s: float = 5.0) -> list[Topic]:
    return list(create._list_needed(broker, ("events",), Needs(("p.scores",)), partitions, deadline_s))


def test_a_needed_topic_is_as_wide_as_the_source() -> None:
    assert needed(Broker({}), 6) == [Topic("p.scores", 6)]
    broker = Broker({"events": Found(3, frozenset())})
    assert needed(broker, None) == [Topic("p.scores", 3)]
    assert broker.looks == 2


def test_a_source_that_does_not_come_is_said() -> None:
    with pytest.raises(UnreachableError, match="topic events is not there"):
        needed(Broker({}), None, deadline_s=0.1)


@pytest.mark.parametrize("declared", [True, False])
def test_the_command_makes_sinks_of_a_declaration_alone(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: bool
) -> None:
    """Both get what they need."""
    done: list[Any] = []
    monkeypatch.setattr(create_command, "create", lambda job, *, needs, **_: done.append((job.pipeline, needs)))
    monkeypatch.setattr(
        create_command, "create_needed", lambda _, needs, topics, **__: done.append((topics(RECORD_BYTES), needs))
    )
    module.needs = of_three  # type: ignore[attr-defined]
    if declared:
        module.pipeline = pipeline  # type: ignore[attr-defined]
    small, whole = tmp_path / "create.json", tmp_path / "settings.json"
    told = pipeline_settings(job=JOB).model_dump(mode="json")
    small.write_text(json.dumps(told))
    whole.write_text(json.dumps({**told, "pipeline": "p", "operators": 2}))
    assert create_command.main([str(small), "--whole", str(whole), "--source-partitions", "4"]) == 0
    ((what, needs),) = done
    assert needs == Needs(("p.1",))
    assert what == (pipeline if declared else [Topic(told["topic"], 4, source=True)])
