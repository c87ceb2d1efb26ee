"""How PostgreSQL is made once and then served: images/postgres/start, with fakes for its programs."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest

from infra.images.catalogue import FOLDER
from tests.unit.images.shell import Start, elsewhere, run
from tests.unit.toolchain.fake_programs import program

ENV = {"POSTGRES_USER": "eo", "POSTGRES_PASSWORD": "s3cret '$x'", "POSTGRES_DB": "results"}


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """A server whose programs keep what they were asked; `initdb` keeps the password that it was given."""
    calls = tmp_path / "calls"
    keep = f'echo "$(basename "$0") $*" >>{calls}'
    password = (
        f'for word; do case "$word" in --pwfile=*) cat "${{word#--pwfile=}}" >{tmp_path / "password"} ;; esac; done'
    )
    program(tmp_path / "bin", "initdb", f'{keep}; mkdir -p "$PGDATA"; touch "$PGDATA/pg_hba.conf"; {password}')
    for name in ("pg_ctl", "createdb", "postgres"):
        program(tmp_path / "bin", name, f'{keep}; case "$0" in *"$FAIL") [ -z "$FAIL" ] || exit 1 ;; esac')

    (tmp_path / "sockets").mkdir()
    script = elsewhere(FOLDER / "postgres" / "start", tmp_path, {"sockets=/tmp": Path(f"sockets={tmp_path}/sockets")})

    def start(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        env = {"PGDATA": str(tmp_path / "pgdata"), "FAIL": "", **ENV, **env}
        return run(script, *words, env=env, path=tmp_path / "bin")

    return start


def _programs(folder: Path) -> list[str]:
    return [line.split()[0] for line in (folder / "calls").read_text().splitlines()]


def test_the_first_start_makes_the_database_and_later_ones_only_serve_it(start: Start, tmp_path: Path) -> None:
    assert start("-c", "max_connections=50").returncode == 0
    assert _programs(tmp_path) == ["initdb", "pg_ctl", "createdb", "pg_ctl", "postgres"]
    served = (tmp_path / "calls").read_text().splitlines()[-1]
    assert served.endswith("-c max_connections=50")
    assert start().returncode == 0
    assert _programs(tmp_path)[5:] == ["postgres"]


def test_clients_need_the_password_which_no_command_line_shows(start: Start, tmp_path: Path) -> None:
    start()
    assert (tmp_path / "password").read_text() == f"{ENV['POSTGRES_PASSWORD']}\n"
    assert "s3cret" not in (tmp_path / "calls").read_text()
    assert (tmp_path / "pgdata" / "pg_hba.conf").read_text() == "host all all all scram-sha-256\n"


def test_the_database_that_is_always_there_is_not_made_again(start: Start, tmp_path: Path) -> None:
    assert start(POSTGRES_DB="postgres").returncode == 0
    assert "createdb" not in _programs(tmp_path)


def test_an_interrupted_first_start_begins_again_from_nothing(start: Start, tmp_path: Path) -> None:
    assert start(FAIL="createdb").returncode != 0
    assert "postgres" not in _programs(tmp_path)
    assert not (tmp_path / "pgdata").exists(), "what is not whole is in no server's place"
    (tmp_path / "pgdata.new" / "half").touch()
    assert start().returncode == 0
    assert not (tmp_path / "pgdata" / "half").exists()
    assert not (tmp_path / "pgdata.new").exists()
    assert _programs(tmp_path)[-1] == "postgres"


def test_a_database_that_came_after_an_interrupted_first_start_is_left_as_it_is(start: Start, tmp_path: Path) -> None:
    """Somebody restores a backup where no server would start."""
    assert start(FAIL="createdb").returncode != 0
    theirs = tmp_path / "pgdata" / "PG_VERSION"
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("15")
    ended = start()
    assert theirs.read_text() == "15"
    assert (ended.returncode, "move them away" in ended.stderr) == (1, True)


def test_a_folder_that_no_start_of_ours_began_is_left_as_it_is(start: Start, tmp_path: Path) -> None:
    theirs = tmp_path / "pgdata" / "PG_VERSION"
    theirs.parent.mkdir()
    theirs.write_text("15")
    for _ in range(2):
        ended = start()
        assert ended.returncode == 1
        assert f"{theirs.parent} has files that no start of this image made" in ended.stderr
        assert theirs.read_text() == "15"
    assert not (tmp_path / "calls").exists()


def test_a_database_that_lost_its_mark_is_not_made_anew(start: Start, tmp_path: Path) -> None:
    assert start().returncode == 0
    (tmp_path / "pgdata" / "rows").touch()
    made = tmp_path / "pgdata" / ".made"
    made.unlink()
    ended = start()
    assert (ended.returncode, f"touch {made}" in ended.stderr) == (1, True)
    assert (tmp_path / "pgdata" / "rows").exists()
    made.touch()
    assert start().returncode == 0


def test_an_empty_folder_is_nobodys(start: Start, tmp_path: Path) -> None:
    (tmp_path / "pgdata").mkdir()
    assert start().returncode == 0
    assert _programs(tmp_path)[0] == "initdb"


@pytest.mark.parametrize("missing", sorted(ENV))
def test_without_credentials_it_is_refused(start: Start, missing: str, tmp_path: Path) -> None:
    ended = start(**{missing: ""})
    assert ended.returncode != 0
    assert f"{missing}: is not set" in ended.stderr
    assert not (tmp_path / "calls").exists()


def test_locks_of_a_server_that_was_killed_are_gone_before_the_next_one_starts(start: Start, tmp_path: Path) -> None:
    start()
    left = [tmp_path / "pgdata" / "postmaster.pid", tmp_path / "sockets" / ".s.PGSQL.5432.lock"]
    for one in left:
        one.write_text("6")
    assert start().returncode == 0
    assert not any(one.exists() for one in left)


def test_while_another_server_has_the_volume_none_starts_and_its_locks_stay(start: Start, tmp_path: Path) -> None:
    start()
    before = (tmp_path / "calls").read_text()
    its = tmp_path / "pgdata" / "postmaster.pid"
    its.write_text("6")
    with (tmp_path / "pgdata.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ended = start(LOCK_S="0")
        assert (ended.returncode, ended.stderr) == (1, f"another PostgreSQL has {tmp_path / 'pgdata'}\n")
        assert its.exists()
        assert (tmp_path / "calls").read_text() == before
    assert start(LOCK_S="0").returncode == 0


def test_the_lock_is_the_servers_as_long_as_it_runs(start: Start, tmp_path: Path) -> None:
    program(tmp_path / "bin", "postgres", 'flock --nonblock "$PGDATA.lock" true && echo free || echo taken')
    assert start().stdout == "taken\n"
