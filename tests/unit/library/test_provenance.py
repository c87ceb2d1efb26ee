"""What a driver announces of itself: its code, all its settings, and the versions of what runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from effectively_once.driver import driver as driver_module
from effectively_once.driver import held_chain
from effectively_once.driver.driver import Driver
from effectively_once.driver.provenance import provenance_of
from effectively_once.driver.version import LIBRARY
from effectively_once.pipeline.job import Job
from effectively_once.progress import VARIABLE
from effectively_once_jobs.user_counts import pipeline
from tests.harness.manifest import code_of
from tests.settings import pipeline_settings

CHECKOUT = LIBRARY.parents[2]
PAGE = 4096
"""A line of less is not interleaved with others."""


def _announced(**settings: Any) -> dict[str, Any]:
    return provenance_of(Job(pipeline, pipeline_settings(**settings)))


def test_a_driver_announces_the_code_that_the_manifest_of_its_checkout_names() -> None:
    assert _announced()["code"] == code_of(CHECKOUT)
    assert set(code_of(CHECKOUT)) == {"effectively_once", "effectively_once_jobs"}


def test_every_setting_is_in_the_digest_and_nothing_else_is() -> None:
    first = _announced()["settings"]
    assert first == _announced()["settings"] == _announced(shards=2)["settings"]
    others: list[dict[str, Any]] = [
        {"shards": 3},
        {"epoch_rows_max": 7},
        {"dense_offsets": True},
        {"idle_ms": 1},
        {"kafka_bootstrap": "b:1"},
    ]
    assert len({first, *(_announced(**one)["settings"] for one in others)}) == len(others) + 1


def test_versions_are_of_what_runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = _announced()["versions"]
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "spark" in found
    assert "java" not in found
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "java" not in _announced()["versions"]
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.2"\n')
    assert _announced()["versions"]["java"] == "17.0.2"


@pytest.fixture
def taken_over(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver that finds everything in order, on no server."""
    held: Any = SimpleNamespace(head=SimpleNamespace(generation=3))
    monkeypatch.setattr(driver_module, "Preflight", lambda *_: Mock(warnings=lambda: [], surroundings=dict))
    monkeypatch.setattr(held_chain, "run", lambda *_: held)
    for name in ("S3ObjectStore", "KafkaSource", "Metrics"):
        monkeypatch.setattr(driver_module, name, Mock())
    return Driver(Job(pipeline, pipeline_settings()), "wheel")


def test_a_driver_announces_it_when_it_has_taken_over(
    taken_over: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "events.jsonl"))
    taken_over.check()
    taken_over.take_over()
    (line,) = (tmp_path / "events.jsonl").read_bytes().splitlines()
    assert len(line) < PAGE
    told = json.loads(line)
    assert {name: told[name] for name in ("event", "state", "generation")} == {
        "event": "driver",
        "state": "started",
        "generation": 3,
    }
    assert {name: told[name] for name in _announced()} == _announced()


def test_where_nobody_reads_no_code_is_read(taken_over: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(driver_module, "provenance_of", lambda _: pytest.fail("it was read"))
    taken_over.check()
    taken_over.take_over()
