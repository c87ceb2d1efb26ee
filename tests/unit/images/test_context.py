"""A build context depends on contents alone, and everybody in the image can read it."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from infra.cluster.engine import Engine, EngineError
from infra.images import context
from tests.unit.cluster.fake_engine import FakeDocker


def _written(files: dict[str, Path | bytes]) -> bytes:
    out = io.BytesIO()
    context.write(out, files)
    return out.getvalue()


def _members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive.getmembers()}


def _folder(root: Path, *, at: int) -> Path:
    """A folder as a private cache has it, written at the time `at`."""
    inner = root / "jars" / "inner"
    inner.mkdir(parents=True)
    (root / "jars" / "b.jar").write_bytes(b"b")
    (root / "jars" / "a.jar").write_bytes(b"a")
    (inner / "run").write_text("#!/bin/sh\n")
    (inner / "link").symlink_to("run")
    for path in (root / "jars" / "b.jar", root / "jars" / "a.jar"):
        path.chmod(0o600)
        os.utime(path, (at, at))
    (inner / "run").chmod(0o700)
    inner.chmod(0o700)
    return root / "jars"


def test_equal_contents_give_equal_bytes_whenever_they_were_written(tmp_path: Path) -> None:
    one, two = (_folder(tmp_path / name, at=at) for name, at in (("one", 1_000_000_000), ("two", 1_700_000_000)))
    files: dict[str, Path | bytes] = {"Dockerfile": b"FROM scratch\n", "entry": tmp_path / "one" / "jars" / "a.jar"}
    same = _written({"jars": one, **files})
    assert same == _written({**files, "jars": two})
    (two / "a.jar").write_bytes(b"A")
    assert same != _written({"jars": two, **files})


def test_what_is_private_in_the_cache_is_readable_in_the_image(tmp_path: Path) -> None:
    members = _members(_written({"jars": _folder(tmp_path, at=1), "text": b"x"}))
    assert set(members) == {
        "text",
        "jars",
        "jars/a.jar",
        "jars/b.jar",
        "jars/inner",
        "jars/inner/run",
        "jars/inner/link",
    }
    for name, member in members.items():
        wanted = 0o555 if member.isdir() or name.endswith("/run") else 0o444
        assert member.mode & wanted == wanted or member.issym(), name
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", ""), name
    assert not members["jars/a.jar"].mode & 0o111


def test_compiled_leftovers_do_not_get_into_an_image(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__pycache__" / "x.cpython-311.pyc").touch()
    (package / "old.pyc").touch()
    (package / "x.py").touch()
    assert set(_members(_written({"package": package}))) == {"package", "package/x.py"}


def test_links_inside_a_folder_stay_links_and_those_to_an_input_are_followed(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "real", at=1)
    (tmp_path / "folder").symlink_to(folder)
    (tmp_path / "file").symlink_to(folder / "a.jar")
    data = _written({"jars": tmp_path / "folder", "one.jar": tmp_path / "file"})
    members = _members(data)
    assert members["jars"].isdir()
    assert members["jars/inner/link"].linkname == "run"
    assert members["one.jar"].isfile()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        content = archive.extractfile("one.jar")
        assert content is not None
        assert content.read() == b"a"


def test_an_input_that_is_not_there_fails_the_build(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _written({"jars": tmp_path / "gone"})


def test_the_engine_gets_the_context_and_the_arguments(machine: Engine, docker: FakeDocker, tmp_path: Path) -> None:
    docker.answers({"build*": f"cat >{tmp_path / 'got'}; echo 'Successfully built'"})
    context.build(machine, "x:1", {"Dockerfile": b"FROM scratch\n"}, {"PARENT": "base:1"}, tmp_path / "logs" / "x.log")
    assert (tmp_path / "got").read_bytes() == _written({"Dockerfile": b"FROM scratch\n"})
    assert docker.calls[-1].endswith("--tag x:1 --build-arg PARENT=base:1 -")
    assert "Successfully built" in (tmp_path / "logs" / "x.log").read_text()


@pytest.mark.parametrize("reads", ["cat >/dev/null", ":"], ids=["after reading", "without reading"])
def test_a_failed_build_is_reported_with_the_end_of_its_log(
    reads: str, machine: Engine, docker: FakeDocker, tmp_path: Path
) -> None:
    docker.answers({"build*": f"{reads}; echo 'E: Unable to locate package'; exit 1"})
    # More than a pipe holds, so that an engine that does not read is noticed.
    files: dict[str, Path | bytes] = {"Dockerfile": b"FROM scratch\n", "much": bytes(1_000_000)}
    with pytest.raises(EngineError, match="Unable to locate package") as caught:
        context.build(machine, "x:1", files, {}, tmp_path / "x.log")
    assert str(tmp_path / "x.log") in str(caught.value)
