"""Every script of the images is one that its shell can read, and images/node's import of images happens once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from infra.images.catalogue import FOLDER
from tests.unit.images.shell import elsewhere, run
from tests.unit.toolchain.fake_programs import program


def _scripts() -> list[Path]:
    files = (path for path in sorted(FOLDER.rglob("*")) if path.is_file() and path.suffix not in {".py", ".pyc"})
    return [path for path in files if path.read_bytes()[:2] == b"#!"]


def test_there_are_scripts_to_be_checked() -> None:
    assert {"entrypoint", "start", "node-entrypoint", "preload-images"} <= {path.name for path in _scripts()}


@pytest.mark.parametrize("path", _scripts(), ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_script_is_written_in_the_shell_that_it_names_and_stops_at_the_first_failure(path: Path) -> None:
    text = path.read_text()
    shell = text.splitlines()[0].removeprefix("#!")
    assert shell in {"/bin/sh", "/bin/bash"}
    ended = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ("set -euo pipefail\n" if shell == "/bin/bash" else "set -eu\n") in text


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    return elsewhere(FOLDER / "node" / "scripts" / "preload-images", tmp_path, {"/kind/images": tmp_path / "images"})


def test_what_was_imported_is_removed_and_a_second_call_has_nothing_to_do(script: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "ctr", f'for last; do :; done; echo "$last" >>{tmp_path / "calls"}')
    (tmp_path / "images" / "preloaded.tar").touch()
    for _ in range(2):
        assert run(script, env={}, path=tmp_path / "bin").returncode == 0
    assert (tmp_path / "calls").read_text() == f"{tmp_path / 'images' / 'preloaded.tar'}\n"
    assert list((tmp_path / "images").iterdir()) == []


def test_what_could_not_be_imported_is_kept_for_the_next_time(script: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "ctr", "exit 1")
    (tmp_path / "images" / "preloaded.tar").touch()
    assert run(script, env={}, path=tmp_path / "bin").returncode != 0
    assert (tmp_path / "images" / "preloaded.tar").exists()
