"""What a driver announces of itself is of its code, of all its settings, and the same wherever the code lies."""

from __future__ import annotations

import functools
import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from effectively_once.driver import driver as driver_module
from effectively_once.driver import held_chain
from effectively_once.driver.driver import Driver
from effectively_once.driver.provenance import provenance_of
from effectively_once.driver.version import LIBRARY, package_digest, package_digests
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


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package whose function is two folders down."""
    for name, text in {"shop/__init__.py": "", "shop/a/b.py": "def events(frame): return frame"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "shop"
    for name in [one for one in sys.modules if one.partition(".")[0] == "shop"]:
        del sys.modules[name]


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


def test_a_package_has_one_digest_wherever_it_lies(shop: Path, tmp_path: Path) -> None:
    events = importlib.import_module("shop.a.b").events
    first = package_digests(functools.partial(events))
    assert set(first) == {"effectively_once", "shop"}
    elsewhere = Path(shutil.copytree(shop, tmp_path / "site-packages" / "shop"))
    (elsewhere / "__pycache__").mkdir(exist_ok=True)
    (elsewhere / "notes.txt").write_text("no code")
    assert package_digest(elsewhere) == first["shop"]
    (elsewhere / "a" / "b.py").rename(elsewhere / "a" / "c.py")
    assert package_digest(elsewhere) != first["shop"]
    (shop / "a" / "beside.py").write_text("")
    assert package_digests(events)["shop"] != first["shop"]


def test_a_module_that_is_a_file_alone_is_digested_by_its_name(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("X = 1")
    other.write_text("X = 1")
    assert package_digest(one) != package_digest(other)
    (tmp_path / "moved").mkdir()
    assert package_digest(Path(shutil.copy(one, tmp_path / "moved"))) == package_digest(one)


def test_a_function_of_no_module_is_passed_over() -> None:
    nameless = replace(pipeline, transform=len)
    assert set(package_digests(*nameless.functions)) >= {"effectively_once"}


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
