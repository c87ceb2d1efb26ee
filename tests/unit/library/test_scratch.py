"""A start tries each folder that Spark writes into, and leaves nothing there."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from effectively_once.driver import scratch
from effectively_once.driver.scratch import DEFAULT, SETTING, TRIED, VARIABLE, try_scratch
from effectively_once.errors import ShortageError


class Full:
    """A file on a disk that takes no more than a name."""

    def __init__(self, wrong: int) -> None:
        self._wrong = wrong

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, body: bytes) -> None:
        assert len(body) == len(TRIED) == 1 << 20
        raise OSError(self._wrong, os.strerror(self._wrong))


@pytest.mark.parametrize(
    ("wrong", "says", "todo"),
    [
        (errno.ENOSPC, "No space left on device", "Make room on that disk"),
        (errno.EDQUOT, "Disk quota exceeded", "Make room on that disk"),
        (errno.EROFS, "Read-only file system", "Mount it writable"),
        (errno.EACCES, "Permission denied", "Mount it writable"),
    ],
)
def test_a_folder_that_takes_no_file_is_named_with_the_way_out(
    wrong: int, says: str, todo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full(wrong))
    with pytest.raises(ShortageError) as error:
        try_scratch({SETTING: str(tmp_path)}, {})
    assert error.value.what == f"the driver cannot write where Spark keeps its temporary files: {says}"
    assert error.value.where == f"folder {tmp_path}"
    assert error.value.todo.startswith(todo)


def test_a_folder_is_made_where_it_is_missing_as_spark_does_and_is_left_empty(tmp_path: Path) -> None:
    try_scratch({SETTING: str(tmp_path / "a" / "b")}, {})
    assert [*(tmp_path / "a" / "b").iterdir()] == []


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ShortageError, match=f"folder {tmp_path}/file/below"):
        try_scratch({SETTING: f"{tmp_path}/file/below"}, {})


@pytest.mark.parametrize(
    ("conf", "environment", "folders"),
    [
        ({}, {}, [DEFAULT]),
        ({SETTING: "/one, /two"}, {}, ["/one", "/two"]),
        ({SETTING: "/one"}, {VARIABLE: "/of-the-pod"}, ["/of-the-pod"]),
        ({SETTING: "/one"}, {VARIABLE: ""}, ["/one"]),
    ],
)
def test_each_folder_is_tried_that_spark_takes(
    conf: Mapping[str, str], environment: Mapping[str, str], folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable wins over the setting, and without both it is Java's."""
    tried: list[Any] = []
    monkeypatch.setattr(scratch, "_write", tried.append)
    try_scratch(conf, environment)
    assert tried == [Path(folder) for folder in folders]
