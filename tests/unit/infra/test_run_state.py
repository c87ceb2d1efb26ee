"""What `make run` keeps: gone on with by the versions that can, removed when that is asked, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from infra.embedded import run_state
from infra.embedded.run_state import MARK, RunState, RunStateError

VERSIONS = {"kafka": "4.3.1", "postgres": "15.14"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "clicks"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def begun(folder: Path, said: list[str]) -> RunState:
    """A run has been here and has left its data."""
    folder.parent.mkdir()
    state = RunState(folder)
    assert not state.open(VERSIONS, fresh=False, say=said.append)
    (folder / "kafka").mkdir()
    (folder / "kafka" / "records").write_text("of the input")
    return state


def opened(
    folder: Path, said: list[str], *, fresh: bool = False, versions: Mapping[str, str] = MappingProxyType({})
) -> tuple[RunState, bool]:
    state = RunState(folder)
    return state, state.open({**VERSIONS, **versions}, fresh=fresh, say=said.append)


def change(folder: Path, **values: Any) -> None:
    (folder / MARK).write_text(json.dumps({**json.loads((folder / MARK).read_text()), **values}))


def test_the_next_run_has_the_same_data_and_keys(begun: RunState, folder: Path, said: list[str]) -> None:
    again, goes_on = opened(folder, said)
    assert goes_on
    assert again.mark == begun.mark
    assert (folder / "kafka" / "records").read_text() == "of the input"
    assert said == []
    keys = [begun.mark.access_key, begun.mark.secret_key, begun.mark.password]
    assert len({*keys}) == 3
    assert (folder / MARK).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not any(key in repr(again.mark) for key in keys[1:])


def test_fresh_removes_what_there_is_and_says_so(begun: RunState, folder: Path, said: list[str]) -> None:
    (folder / "elsewhere").symlink_to(folder.parent)
    again, goes_on = opened(folder, said, fresh=True)
    assert not goes_on
    assert [path.name for path in folder.iterdir()] == [MARK]
    assert again.mark.secret_key != begun.mark.secret_key
    (line,) = said
    assert line.startswith("… begins anew: removes the input, chain and sinks of clicks, 0.0 MiB (")
    assert f"{folder / 'kafka'}" in line
    assert opened(folder, said)[1], "what begins anew is gone on with too"


def test_fresh_where_nothing_is_says_nothing(folder: Path, said: list[str]) -> None:
    folder.mkdir(parents=True)
    assert not opened(folder, said, fresh=True)[1]
    assert said == []


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    ("mark", "why"),
    [
        (None, f"it has no {MARK}"),
        ("{", f"its {MARK} cannot be read: "),
        ("[]", f"its {MARK} cannot be read: "),
        ('{"other": 1}', f"its {MARK} cannot be read: "),
        ('{"pipeline": "orders"}', "it is of the pipeline orders"),
    ],
)
def test_a_folder_of_something_else_is_neither_used_nor_removed(
    folder: Path, said: list[str], mark: str | None, why: str, fresh: bool
) -> None:
    folder.mkdir(parents=True)
    (folder / "letters").write_text("of somebody")
    if mark is not None:
        (folder / MARK).write_text(mark)
    with pytest.raises(RunStateError) as refused:
        opened(folder, said, fresh=fresh)
    assert f"is not what `make run` keeps of clicks: {why}" in str(refused.value)
    assert (folder / "letters").read_text() == "of somebody"
    assert said == []


def test_a_removal_that_was_interrupted_is_taken_up_before_anything_begins(
    begun: RunState, folder: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the data must not be gone on with."""
    (folder / "object_store").mkdir()

    def interrupt(path: Path) -> None:
        path.joinpath("records").unlink(missing_ok=True)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            opened(folder, said, fresh=True)
    assert (folder / "kafka").is_dir()
    again, goes_on = opened(folder, said)
    assert not goes_on
    assert [path.name for path in folder.iterdir()] == [MARK]
    assert again.mark.removing is False
    assert len(said) == 2


@pytest.mark.parametrize(
    ("name", "then", "now", "why"),
    [
        ("kafka", "3.9.2", "4.3.1", "were written by Kafka 3.9.2, and this is 4.3.1"),
        ("kafka", "5.0.0", "4.3.1", "were written by Kafka 5.0.0, and this is 4.3.1"),
        ("kafka", "4.10.0", "4.3.1", "were written by Kafka 4.10.0, and this is 4.3.1"),
        ("postgres", "15.14", "17.2", "were written by PostgreSQL 15.14, and this is 17.2"),
        ("postgres", "17", "15.14", "were written by PostgreSQL 17, and this is 15.14"),
    ],
)
def test_data_of_a_server_that_this_one_does_not_follow_are_refused_and_kept(
    begun: RunState, name: str, then: str, now: str, why: str
) -> None:
    folder, said = begun.folder, list[str]()
    change(folder, versions={**VERSIONS, name: then})
    before = (folder / MARK).read_text()
    with pytest.raises(RunStateError) as refused:
        opened(folder, said, versions={name: now})
    assert why in str(refused.value)
    assert "or begin anew with FRESH=1" in str(refused.value)
    assert (folder / MARK).read_text() == before
    assert not opened(folder, said, fresh=True, versions={name: now})[1], "the way out is none"


@pytest.mark.parametrize("then", [{"kafka": "4.2.0"}, {"postgres": "15.2"}, {"postgres": "15.15"}, {"library": "old"}])
def test_data_of_another_minor_version_are_gone_on_with(
    begun: RunState, folder: Path, said: list[str], then: dict[str, str]
) -> None:
    change(folder, versions={**VERSIONS, **then})
    again, goes_on = opened(folder, said, versions={"library": "new"})
    assert goes_on
    assert again.mark.versions == {**VERSIONS, "library": "new"}


def test_a_pipeline_may_get_tables_later(folder: Path, said: list[str]) -> None:
    folder.parent.mkdir()
    RunState(folder).open({"kafka": "4.3.1"}, fresh=False, say=said.append)
    assert opened(folder, said, versions={"postgres": "17.2"})[1]
    assert RunState(folder).open({"kafka": "4.3.1"}, fresh=False, say=said.append)
    with pytest.raises(RunStateError, match=r"PostgreSQL 17\.2"):
        opened(folder, said)


@pytest.fixture
def as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database has to be where another account may enter; return where."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(run_state, "make_shared_folder", lambda _: tmp_path / "shared")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "table").touch()
    return tmp_path / "shared"


def test_of_another_user_than_root_the_database_is_with_the_rest(
    begun: RunState, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert begun.find_database() == folder / "postgres"


def test_the_database_of_root_is_found_again_and_goes_with_the_rest(
    begun: RunState, folder: Path, said: list[str], as_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert begun.find_database() == as_root
    monkeypatch.setattr(run_state, "make_shared_folder", lambda _: pytest.fail("another one is made"))
    assert opened(folder, said)[0].find_database() == as_root
    again, _ = opened(folder, said, fresh=True)
    assert not as_root.exists()
    assert str(as_root) in said[0]
    assert again.mark.database is None


def test_a_database_that_is_gone_is_no_empty_one(begun: RunState, folder: Path, said: list[str], as_root: Path) -> None:
    begun.find_database()
    shutil.rmtree(as_root)
    with pytest.raises(RunStateError, match=rf"PostgreSQL's data of clicks were in {as_root} and are gone.*FRESH=1"):
        opened(folder, said)[0].find_database()
    assert not opened(folder, said, fresh=True)[1]


@pytest.mark.parametrize("mark", [None, "{", "[]", '{"of": "/another/folder"}'])
def test_a_database_that_is_not_its_own_is_not_removed(
    begun: RunState, folder: Path, said: list[str], as_root: Path, mark: str | None
) -> None:
    begun.find_database()
    (as_root / MARK).unlink()
    if mark is not None:
        (as_root / MARK).write_text(mark)
    opened(folder, said, fresh=True)
    assert (as_root / "table").exists()


def test_a_folder_that_cannot_be_written_is_an_error_of_one_line(folder: Path, said: list[str]) -> None:
    folder.parent.mkdir()
    folder.write_text("a file where the folder belongs")
    with pytest.raises(RunStateError, match="the data of clicks cannot be kept: "):
        opened(folder, said)
