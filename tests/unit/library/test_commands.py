"""The command line: what it takes, what it hands on, and the exit codes of named errors."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from effectively_once import __main__ as command_line
from effectively_once.__main__ import main
from effectively_once.errors import SettingsError
from effectively_once.operate.backup.backup_manifest import BackupError
from effectively_once.operate.backup.lake_pins import LakePins
from effectively_once.operate.create import create_command
from effectively_once.store.s3_client import ACCESS_KEY, SECRET_KEY
from tests.settings import REQUIRED


@pytest.fixture
def settings(tmp_path: Path) -> str:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(REQUIRED))
    return str(path)


def test_create_is_handed_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def taken(argv: list[str]) -> int:
        given.extend(argv)
        return 7

    monkeypatch.setattr(create_command, "main", taken)
    assert main(["create", "settings.json", "--replication", "3"]) == 7
    assert given == ["settings.json", "--replication", "3"]


def test_the_arguments_of_the_process_are_taken_when_none_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the console script calls it."""
    monkeypatch.setattr("sys.argv", ["effectively-once", "create"])
    monkeypatch.setattr(create_command, "main", len)
    assert main() == 0


@pytest.mark.parametrize("argv", [[], ["inspect"], ["backup", "s.json"], ["delete", "s.json"], ["inspect", "s", "--x"]])
def test_an_unknown_command_is_refused_with_its_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage: effectively-once" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["inspect", "backup", "restore"])
def test_a_named_error_is_one_line_and_its_exit_code(
    command: str, settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ACCESS_KEY, raising=False)
    place = [] if command == "inspect" else [str(tmp_path / "backup")]
    assert main([command, str(tmp_path / "none.json"), *place]) == SettingsError.exit_code
    assert main([command, settings, *place]) == SettingsError.exit_code
    told = capsys.readouterr().err.splitlines()
    assert [line.split(" (")[0] for line in told] == [
        "SettingsError: settings cannot be read: No such file or directory",
        "SettingsError: credentials of the object store are missing",
    ]


def test_an_incomplete_backup_is_refused_before_anything_is_asked_of_the_store(
    settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ACCESS_KEY, "key")
    monkeypatch.setenv(SECRET_KEY, "secret")
    assert main(["restore", settings, str(tmp_path)]) == BackupError.exit_code
    assert "it is incomplete" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [(), ("--set-lake-tables-back",)])
def test_lake_tables_are_set_back_before_the_start_is_checked_and_only_when_asked(
    settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    done: list[object] = []
    head = SimpleNamespace(last_recorded=4, declared=None)
    monkeypatch.setenv(ACCESS_KEY, "key")
    monkeypatch.setenv(SECRET_KEY, "secret")
    monkeypatch.setattr(command_line, "restore", lambda *_, **__: head)
    monkeypatch.setattr(command_line, "manifest_of", lambda _: SimpleNamespace(taken_ms=7))
    monkeypatch.setattr(LakePins, "set_back", lambda _, *given: done.append(given))

    def check(*_: object) -> SimpleNamespace:
        done.append("checked")
        return SimpleNamespace(verdict="a driver would start", refusal=None)

    monkeypatch.setattr(command_line, "start_check", check)
    assert main(["restore", settings, str(tmp_path), *asked]) == 0
    assert done == [*([(head, 7)] if asked else []), "checked"]
