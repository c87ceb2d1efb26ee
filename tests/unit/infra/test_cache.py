"""The artefact cache: built once, never half, whatever interrupts it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from infra.toolchain.cache import Cache, cache_root, digest, file_lock


def _build_counting(directory: Path) -> None:
    with (directory.parent / "builds").open("a") as log:
        log.write("built\n")
    time.sleep(0.2)  # long enough that the other builders arrive meanwhile
    (directory / "content").write_text("whole")


def _get(root: Path) -> None:
    path = Cache(root).get("thing", "a" * 64, _build_counting)
    if (path / "content").read_text() != "whole":
        os._exit(7)


def test_concurrent_builders_build_once_and_all_get_the_whole_artefact(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    builders = [context.Process(target=_get, args=(tmp_path,)) for _ in range(4)]
    for one in builders:
        one.start()
    for one in builders:
        one.join(30)
    assert [one.exitcode for one in builders] == [0, 0, 0, 0]
    assert (tmp_path / "builds").read_text() == "built\n"


def _build_for_ever(root: Path, in_place: bool, begun: Event) -> None:
    def build(directory: Path) -> None:
        (directory / "half").write_text("half")
        begun.set()
        signal.pause()

    Cache(root).get("thing", "a" * 64, build, in_place=in_place)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_killed_build_is_not_believed_and_leaves_nothing_after_the_next(tmp_path: Path, in_place: bool) -> None:
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    builder = context.Process(target=_build_for_ever, args=(tmp_path, in_place, begun))
    builder.start()
    assert begun.wait(30)
    assert builder.pid is not None
    os.kill(builder.pid, signal.SIGKILL)
    builder.join(30)
    cache = Cache(tmp_path)
    assert not cache.has("thing", "a" * 64)
    path = cache.get("thing", "a" * 64, _build_counting, in_place=in_place)
    assert sorted(entry.name for entry in path.iterdir()) == [".complete", "content"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["builds", "locks", path.name]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_failed_build_raises_and_is_tried_again(tmp_path: Path, in_place: bool) -> None:
    cache = Cache(tmp_path)

    def fail(directory: Path) -> None:
        (directory / "half").write_text("half")
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        cache.get("thing", "b", fail, in_place=in_place)
    assert [entry.name for entry in tmp_path.iterdir()] == ["locks"]
    assert (cache.get("thing", "b", _build_counting, in_place=in_place) / "content").exists()


def test_a_forgotten_artefact_is_built_anew(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.get("thing", "c", _build_counting)
    cache.forget("thing", "c")
    cache.get("thing", "c", _build_counting)
    assert (tmp_path / "builds").read_text() == "built\nbuilt\n"


def test_who_waits_is_told_so(tmp_path: Path) -> None:
    told: list[str] = []
    with file_lock(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            with file_lock(tmp_path / "lock", (tmp_path / "waits").touch):
                os._exit(0)
        deadline = time.monotonic() + 10
        while not (tmp_path / "waits").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        told.append(str((tmp_path / "waits").exists()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert told == ["True"]


def test_the_digest_depends_on_names_values_and_their_borders() -> None:
    digests = {
        digest({"a": "b"}),
        digest({"a": "c"}),
        digest({"ab": ""}),
        digest({"a": "b", "c": ""}),
        digest({"a": "", "c": "b"}),
    }
    assert len(digests) == 5
    assert digest({"a": "1", "b": "2"}) == digest({"b": b"2", "a": b"1"})


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"EFFECTIVELY_ONCE_CACHE": "/big/cache", "XDG_CACHE_HOME": "/xdg"}, "/big/cache"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/effectively-once"),
        ({"XDG_CACHE_HOME": "not/absolute"}, str(Path.home() / ".cache" / "effectively-once")),
        ({}, str(Path.home() / ".cache" / "effectively-once")),
    ],
)
def test_the_cache_root_follows_the_environment(env: dict[str, str], expected: str) -> None:
    assert str(cache_root(env)) == expected
