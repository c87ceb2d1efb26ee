"""The command that gives roles their tables: what it refuses, and what it waits for; tests/stack has a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from effectively_once.errors import AccessError, SettingsError, UnreachableError
from effectively_once.operate import grant_tables as module
from effectively_once.operate.grant_tables import TAKEN, main
from effectively_once.sinks.database import Session

NO_TLS = psycopg.OperationalError("server does not support SSL, but SSL was required")
OTHER = psycopg.OperationalError("SSL error: certificate verify failed")
WRONG = psycopg.OperationalError('password authentication failed for user "owner"')
AWAY = psycopg.OperationalError("connection refused")


class Opened:
    """A session in which nothing is asked."""

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, int]]:
    """Return a function that runs it on a server which refuses these times; its exit code, and how often it asked."""
    monkeypatch.setenv("PGUSER", "owner")
    monkeypatch.setenv("PGPASSWORD", "owners-s3cret")
    monkeypatch.setattr(module, "PAUSE_S", 0.01)
    monkeypatch.setattr(module, "LEAST_S", 0.0)
    monkeypatch.setattr(module, "grant", lambda *_: None)

    def run(*refuses: Exception, deadline_s: float = 30.0, **given: Any) -> tuple[int, int]:
        left, asked = [*refuses], list[Any]()

        def connect(**how: Any) -> Opened:
            asked.append(how)
            if left:
                raise left.pop(0)
            return Opened()

        monkeypatch.setattr(Session, "connect", connect)
        file = tmp_path / "grants.json"
        file.write_text(json.dumps({"database": "postgresql://db:1/results", "users": ["orders"], **given}))
        (tmp_path / "orders").write_text("s3cret\n")
        return main([str(file), f"--passwords={tmp_path}", f"--deadline-s={deadline_s}"]), len(asked)

    return run


def test_the_server_of_before_is_waited_for(command: Callable[..., tuple[int, int]]) -> None:
    """It has no certificate when security is switched on, and one by another authority when that is renewed."""
    assert command(NO_TLS, AWAY, OTHER) == (0, 4)


@pytest.mark.parametrize(
    ("error", "deadline_s", "kind"),
    [(WRONG, 30.0, AccessError), (NO_TLS, 0.0, AccessError), (AWAY, 0.0, UnreachableError)],
)
def test_a_wrong_login_is_told_at_once_and_all_else_when_the_deadline_is_over(
    error: Exception,
    deadline_s: float,
    kind: type[AccessError | UnreachableError],
    command: Callable[..., tuple[int, int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, asked = command(*[error] * 9, deadline_s=deadline_s)
    assert (code, asked) == (kind.exit_code, 1)
    told = "".join(capsys.readouterr())
    assert str(error) in told
    assert "postgresql://db:1/results" in told
    assert "s3cret" not in told


@pytest.mark.parametrize("name", [*TAKEN, "pg_orders", "", "Orders", "or-ders", 'or"ders'])
def test_a_name_that_is_no_pipelines_is_given_nothing(
    name: str, command: Callable[..., tuple[int, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(users=["orders", name]) == (SettingsError.exit_code, 0)
    assert "users.1" in capsys.readouterr().err
