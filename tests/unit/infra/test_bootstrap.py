"""The bootstrap: when a new environment is made, and what it says when it cannot be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra import bootstrap
from infra.toolchain.cache import Cache
from infra.versions import PYTHON_MIN

KEY = ("cpython-311 3.11.2", "linux-x86_64", "/usr")


def test_the_key_changes_with_lock_python_platform_and_place() -> None:
    base = bootstrap.environment_key(b"lock", *KEY)
    others = [
        bootstrap.environment_key(b"lock2", *KEY),
        bootstrap.environment_key(b"lock", "cpython-311 3.11.7", KEY[1], KEY[2]),
        bootstrap.environment_key(b"lock", KEY[0], "linux-aarch64", KEY[2]),
        bootstrap.environment_key(b"lock", KEY[0], KEY[1], "/opt/python"),
    ]
    assert base == bootstrap.environment_key(b"lock", *KEY)
    assert len({base, *others}) == 5


@pytest.mark.parametrize(
    ("version", "platform", "missing", "expected"),
    [
        ((3, 10, 9), "linux", [], "Python 3.10 is too old, 3.11 or newer is needed"),
        ((3, 11, 2), "darwin", [], "darwin is not supported"),
        ((3, 11, 2), "linux", ["ensurepip"], "apt install python3.11-venv"),
        ((3, 12, 0), "linux", ["venv", "ensurepip"], "lacks venv and ensurepip: apt install python3.12-venv"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_remedy(
    version: tuple[int, ...], platform: str, missing: list[str], expected: str
) -> None:
    said = bootstrap.complaint(version, platform, missing)
    assert said is not None
    assert expected in said
    assert "\n" not in said


def test_a_good_python_is_not_complained_about() -> None:
    assert bootstrap.complaint((3, 11, 0), "linux", []) is None
    assert bootstrap.complaint((3, 14, 0), "linux", []) is None
    assert bootstrap.PYTHON_NEEDED == PYTHON_MIN


def test_the_lock_pins_every_package_by_hash_and_names_no_index() -> None:
    lock = bootstrap.LOCK.read_text()
    heads = re.findall(r"^[^\s#].*$", lock, re.MULTILINE)
    assert len(heads) > 40
    for head in heads:
        assert re.match(r"[a-z0-9._-]+==\S+( ; .+)? \\$", head), head
        assert "--hash=sha256:" in bootstrap.requirement_block(lock, head.split("==")[0])
    assert "://" not in lock
    assert "index" not in lock


def test_every_direct_requirement_is_in_the_lock_at_its_version() -> None:
    lock = bootstrap.LOCK.read_text()
    wanted = [line for line in (bootstrap.CHECKOUT / "requirements.in").read_text().splitlines() if "==" in line]
    assert len(wanted) > 20
    for line in wanted:
        # A lock has names in lower case, and an extra as a line of its own.
        name = re.sub(r"\[.*\]", "", line.lower())
        assert re.search(rf"^{re.escape(name)}( ;.*)? \\$", lock, re.MULTILINE), line


def test_a_lock_without_the_build_tool_is_an_error_that_says_so() -> None:
    with pytest.raises(bootstrap.BootstrapError, match="no pinned setuptools"):
        bootstrap.requirement_block("numpy==1 \\\n    --hash=sha256:00\n", "setuptools")


def _prepared_root(root: Path) -> Path:
    """Make a cache whose environment is a stub that prints what it is run with."""
    key = bootstrap.key_here(bootstrap.LOCK.read_bytes())

    def build(directory: Path) -> None:
        (directory / "bin").mkdir()
        python = directory / "bin" / "python"
        python.write_text('#!/bin/sh\necho "$@|$PYTHONPATH|$PATH|$PIP_TARGET|$UV_SYSTEM_CERTS"\nexit 3\n')
        python.chmod(0o755)

    return Cache(root).get("python", key, build, in_place=True)


def asked(words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What the command line answers, with nothing installed but what `env` names."""
    return subprocess.run(
        [sys.executable, "-m", "infra.bootstrap", *words],
        cwd=bootstrap.CHECKOUT,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_made_environment_is_entered_at_once_with_the_checkout_on_its_path(tmp_path: Path) -> None:
    made = _prepared_root(tmp_path)
    env = {**os.environ, "EFFECTIVELY_ONCE_CACHE": str(tmp_path), "PIP_TARGET": "/elsewhere", "PYTHONPATH": "/foreign"}
    answer = asked(["check", "--run", "a b"], env)
    assert answer.returncode == 3
    words, python_path, path, pip_target, certificates = answer.stdout.rstrip("\n").split("|")
    assert words == "-m tests.cli check --run a b"
    assert python_path == f"{bootstrap.CHECKOUT}:{bootstrap.CHECKOUT / 'pipelines' / 'src'}"
    assert path.split(":")[0] == str(made / "bin")
    assert (pip_target, certificates) == ("", "1")
    assert answer.stderr == ""


@pytest.mark.deep
def test_a_failing_installation_says_so_in_the_end_and_leaves_no_environment(tmp_path: Path) -> None:
    env = {**os.environ, "EFFECTIVELY_ONCE_CACHE": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    answer = asked(["doctor"], env)
    assert answer.returncode == 1
    assert "check that pip reaches its package index" in answer.stderr
    assert "setuptools" in answer.stderr
    assert not list(tmp_path.glob("python-*"))
