"""Where PostgreSQL is found, and what is said where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.console import Console
from infra.toolchain import postgres
from infra.toolchain.command import ToolchainError
from infra.toolchain.postgres import HOW, OVERRIDE, PACKAGES, ensure_postgres, find_postgres, read_version


def _programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_the_newest_complete_version_is_found(tmp_path: Path) -> None:
    """Numbers are compared as numbers; client programs alone are no server."""
    _programs(tmp_path / "9" / "bin", "initdb", "postgres")
    assert find_postgres({}, tmp_path) is None
    found = _programs(tmp_path / "15" / "bin", "initdb", "postgres")
    _programs(tmp_path / "17" / "bin", "psql")
    assert find_postgres({}, tmp_path) == found
    newer = _programs(tmp_path / "16" / "bin", "initdb", "postgres")
    assert find_postgres({}, tmp_path) == newer
    assert find_postgres({}, tmp_path / "nowhere") is None


def test_a_folder_that_is_named_is_taken_or_refused(tmp_path: Path) -> None:
    """It is never passed over for another one."""
    given = _programs(tmp_path / "own", "initdb", "postgres")
    assert find_postgres({OVERRIDE: str(given)}, tmp_path / "nowhere") == given
    (given / "initdb").unlink()
    with pytest.raises(ToolchainError, match=f"{OVERRIDE}=.*lacks initdb or postgres"):
        find_postgres({OVERRIDE: str(given)})


@pytest.mark.parametrize(
    ("says", "version"),
    [("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", "15.14"), ("postgres (PostgreSQL) 18beta1", "18")],
)
def test_its_version_is_what_it_says(tmp_path: Path, says: str, version: str) -> None:
    program = _programs(tmp_path / "bin", "initdb", "postgres") / "postgres"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{says}"\n')
    assert read_version(tmp_path / "bin") == version


def test_programs_that_do_not_say_their_version_are_refused(tmp_path: Path) -> None:
    program = _programs(tmp_path / "bin", "initdb", "postgres") / "postgres"
    program.write_text("#!/bin/sh\necho broken\n")
    with pytest.raises(ToolchainError, match=r"--version says 'broken\\n'; reinstall it"):
        read_version(tmp_path / "bin")
    with pytest.raises(ToolchainError, match="does not say its version"):
        read_version(tmp_path)


def test_it_is_installed_only_where_nothing_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is said tells how to get it, and why it is not done here."""
    answers = iter([None, None, tmp_path, None, None])
    monkeypatch.setattr(postgres, "find_postgres", lambda: next(answers))
    asked: list[tuple[str, ...]] = []

    def install(packages: Sequence[str], what: str, _console: Console) -> None:
        asked.append(tuple(packages))

    with pytest.raises(ToolchainError, match=r"apt-get install postgresql-15.*Not done here: NO_INSTALL is set"):
        ensure_postgres(Console(), "NO_INSTALL is set", install)
    assert asked == []
    assert ensure_postgres(Console(), None, install) == tmp_path
    assert asked == [PACKAGES]
    with pytest.raises(ToolchainError) as missing:
        ensure_postgres(Console(), None, install)
    assert str(missing.value) == HOW


def test_what_is_there_is_used_without_asking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever would refuse."""
    monkeypatch.setattr(postgres, "find_postgres", lambda: tmp_path)
    assert ensure_postgres(Console(), "NO_INSTALL is set", lambda *_: pytest.fail("installed")) == tmp_path
