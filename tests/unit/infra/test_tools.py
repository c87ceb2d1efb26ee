"""What the toolchain reads from other programs, and what it says when they fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from infra.toolchain import command
from infra.toolchain.cache import Cache
from infra.toolchain.command import ToolchainError
from infra.toolchain.go import parse_go_version, suits
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jdk import locate, parse_java_major
from infra.toolchain.minio import OVERRIDE, build_minio
from infra.toolchain.wheel import build_wheel


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("javac 17.0.15", 17),
        ("javac 1.8.0_392", 8),
        ("command not found", None),
    ],
)
def test_java_majors_are_read(text: str, major: int | None) -> None:
    assert parse_java_major(text) == major


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go version go1.21 linux/amd64", (1, 21)),
        ("module x\n\ngo 1.25.0\n", (1, 25, 0)),
        ("go: command not found", None),
    ],
)
def test_go_versions_are_read(text: str, version: tuple[int, ...] | None) -> None:
    assert parse_go_version(text) == version


@pytest.mark.parametrize(
    ("version", "toolchain", "expected"),
    [
        ((1, 26, 8), "local", True),
        ((1, 22, 0), "auto", True),
        ((1, 22, 0), "go1.22.0+auto", True),
        ((1, 22, 0), "local", False),
        ((1, 19, 8), "", False),
    ],
)
def test_an_old_go_will_do_if_it_may_fetch_a_newer_one(
    version: tuple[int, ...], toolchain: str, expected: bool
) -> None:
    assert suits(version, (1, 25, 0), toolchain) is expected


def test_a_failing_tool_is_reported_with_its_last_lines_and_the_hint(tmp_path: Path) -> None:
    script = "import sys; print('first'); print('no such module', file=sys.stderr); sys.exit(4)"
    with pytest.raises(ToolchainError) as caught:
        command.run("broker", [sys.executable, "-c", script], log=tmp_path / "logs" / "x.log", hint="look at the pom")
    said = str(caught.value)
    assert said.startswith("broker: ")
    for part in ("ended with 4", "look at the pom", "no such module", str(tmp_path / "logs" / "x.log")):
        assert part in said


def test_a_tool_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"cannot start .*/no-such-tool"):
        command.run("x", [tmp_path / "no-such-tool"], log=tmp_path / "x.log", hint="install it")


def test_missing_maven_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="apt install maven"):
        resolve_jars(Cache(tmp_path / "cache"), "kafka")


def test_java_home_wins_over_the_path_and_is_not_silently_ignored(tmp_path: Path) -> None:
    assert locate("javac", {"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) is None
    program = tmp_path / "bin" / "javac"
    program.parent.mkdir()
    program.touch(mode=0o755)
    assert locate("javac", {"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) == program


def test_an_own_minio_binary_is_taken_and_a_wrong_one_refused(tmp_path: Path) -> None:
    binary = tmp_path / "minio"
    with pytest.raises(ToolchainError, match=OVERRIDE):
        build_minio(Cache(tmp_path / "cache"), {OVERRIDE: str(binary)})
    binary.touch(mode=0o755)
    assert build_minio(Cache(tmp_path / "cache"), {OVERRIDE: str(binary)}) == binary


PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "thing"
version = "1"
[tool.hatch.build.targets.wheel]
packages = ["src/thing"]
"""


def _project(root: Path, text: str) -> Path:
    (root / "src" / "thing").mkdir(parents=True)
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "src" / "thing" / "__init__.py").write_text(text)
    return root


def test_equal_sources_give_equal_wheels_and_changed_ones_another(tmp_path: Path) -> None:
    one = build_wheel(Cache(tmp_path / "c1"), _project(tmp_path / "p1", "X = 1\n"))
    project = _project(tmp_path / "p2", "X = 1\n")
    (project / "src" / "thing" / "__pycache__").mkdir()
    (project / "src" / "thing" / "__pycache__" / "x.pyc").write_bytes(b"leftover")
    two = build_wheel(Cache(tmp_path / "c2"), project)
    assert one.path != two.path
    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.sha256 == two.sha256
    (project / "src" / "thing" / "__init__.py").write_text("X = 2\n")
    assert build_wheel(Cache(tmp_path / "c2"), project).sha256 != two.sha256
