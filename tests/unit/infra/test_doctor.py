"""The doctor's table: each fact alone can make it red, and says how to fix it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as Screen

from infra import doctor
from infra.check import GIB, Check
from infra.doctor import Facts

GOOD = Facts(
    system="Linux",
    python=(3, 11, 2),
    java=17,
    javac=17,
    maven="3.8.7",
    go=(1, 21, 0),
    go_wheel=True,
    minio_override=None,
    memory_available_bytes=6 * GIB,
    disk_free_bytes={"the cache (/c)": 6 * GIB, "the checkout (/w)": 6 * GIB},
    open_files=4096,
    ports_bound=8,
)


BEYOND = Check("container engine", "none", "Docker", False, "install it")


def test_a_machine_that_just_suffices_passes_everything() -> None:
    assert [one.name for one in doctor.checks(GOOD) if not one.ok] == []


@pytest.mark.parametrize(
    ("change", "name", "fix"),
    [
        ({"system": "Darwin"}, "system", "Linux"),
        ({"python": (3, 10, 12)}, "Python", "apt install python3"),
        ({"java": None}, "JDK: java", "openjdk-17-jdk"),
        ({"java": 11}, "JDK: java", "openjdk-17-jdk"),
        ({"javac": None}, "JDK: javac", "openjdk-17-jdk"),
        ({"maven": None}, "Maven", "apt install maven"),
        ({"go": None, "go_wheel": False}, "Go", "install Go 1.21"),
        ({"go": (1, 19, 8), "go_wheel": False}, "Go", "install Go 1.21"),
        ({"memory_available_bytes": 6 * GIB - 1}, "memory available", "RAM"),
        ({"disk_free_bytes": {"the cache (/c)": GIB}}, "disk free in the cache (/c)", "EFFECTIVELY_ONCE_CACHE"),
        ({"open_files": 1024}, "open files", "ulimit -n 4096"),
        ({"ports_bound": 7}, "ports on 127.0.0.1", "loopback"),
    ],
)
def test_one_missing_thing_makes_exactly_its_own_check_fail(change: dict[str, Any], name: str, fix: str) -> None:
    failed = [one for one in doctor.checks(replace(GOOD, **change)) if not one.ok]
    assert [one.name for one in failed] == [name]
    assert fix in failed[0].fix


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"go": None}, "none; the wheel will be used"),
        ({"go": (1, 19, 8)}, "1.19.8; the wheel will be used"),
        ({"go": None, "go_wheel": False, "minio_override": "/opt/minio"}, "not needed"),
    ],
)
def test_go_may_be_missing_where_something_stands_in(change: dict[str, Any], found: str) -> None:
    (go,) = (one for one in doctor.checks(replace(GOOD, **change)) if one.name == "Go")
    assert go.ok
    assert found in go.found


def _run(monkeypatch: pytest.MonkeyPatch, facts: Facts) -> tuple[int, str]:
    monkeypatch.setattr(doctor, "gather", lambda _cache, _checkout: facts)
    out = io.StringIO()
    code = doctor.doctor(Path("/c"), Path("/w"), lambda: [BEYOND], Screen(file=out, width=160))
    return code, out.getvalue()


def test_the_exit_code_and_the_last_line_tell_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = _run(monkeypatch, GOOD)
    assert code == 0
    assert "everything needed is there\n" in text
    assert "apt install" not in text
    # What only a cluster lacks is told, and does not count.
    assert text.endswith("missing for a cluster: container engine\n")
    code, text = _run(monkeypatch, replace(GOOD, maven=None, javac=None))
    assert code == 1
    assert "missing: JDK: javac, Maven\n" in text
    assert "apt install maven" in text


def test_gathering_looks_at_this_machine_and_at_directories_that_are_not_there_yet(tmp_path: Path) -> None:
    facts = doctor.gather(tmp_path / "not" / "yet", tmp_path)
    assert facts.system == "Linux"
    assert facts.python >= (3, 11)
    assert facts.memory_available_bytes > 0
    assert len(facts.disk_free_bytes) == 2
    assert all(free > 0 for free in facts.disk_free_bytes.values())
    assert facts.ports_bound == doctor.PORTS_NEEDED
