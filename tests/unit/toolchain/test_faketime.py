"""libfaketime is built from a pinned source; a process that it is preloaded into sees the clock that a file says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.toolchain import command
from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.command import ToolchainError
from infra.toolchain.faketime import HOW, LOCK, NAME, SOURCE, find_faketime, format_offset, preload

ASK = """
import sys, threading, time
for _ in sys.stdin:
    began, waited = time.monotonic(), threading.Event().wait(0.05)
    time.sleep(0.01)
    print(time.time(), time.monotonic() - began, flush=True)
"""


def _shared() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("*faketime*")}  # noqa: S108 - of shared memory, not of files


def library() -> Path:
    """The real one where this machine has it already, or can have it."""
    try:
        return find_faketime(Cache(cache_root()))
    except ToolchainError as why:
        pytest.skip(str(why))


def test_a_running_process_sees_its_clock_step_and_no_wait_does(tmp_path: Path) -> None:
    """Forwards, backwards and right again; sleeps and waits take as long as ever, and nothing is left in /dev/shm."""
    file, before = tmp_path / "offset", _shared()
    file.write_text(format_offset(0))
    asked = subprocess.Popen(
        [sys.executable, "-c", ASK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **preload(library(), file)},
    )
    assert asked.stdin is not None
    assert asked.stdout is not None
    try:
        for seconds in (0, 120, -3600, 3600, 0):
            file.with_suffix(".new").write_text(format_offset(seconds))
            file.with_suffix(".new").replace(file)
            asked.stdin.write("\n")
            asked.stdin.flush()
            clock, took = map(float, asked.stdout.readline().split())
            assert clock - time.time() == pytest.approx(seconds, abs=5.0)
            assert 0.06 <= took < 5.0
    finally:
        asked.kill()
        asked.wait()
    assert _shared() <= before


def test_what_is_written_is_an_offset_of_one_length() -> None:
    assert {len(format_offset(seconds)) for seconds in (0, 1, -1, 120, -3600, 86_400)} == {8}
    assert [format_offset(0), format_offset(120), format_offset(-3600)] == ["+0000000", "+0000120", "-0003600"]


def test_what_was_preloaded_before_still_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert preload(Path("/l"), Path("/f"))["LD_PRELOAD"] == "/l"
    monkeypatch.setenv("LD_PRELOAD", "/other.so")
    assert preload(Path("/l"), Path("/f"))["LD_PRELOAD"] == "/l:/other.so"


def test_the_source_is_pinned_by_its_hash() -> None:
    assert LOCK.read_text().startswith("libfaketime==")
    assert LOCK.read_text().count("--hash=sha256:") == 1


def test_without_a_compiler_it_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolchainError) as why:
        find_faketime(Cache(tmp_path))
    assert str(why.value) == HOW


def test_a_library_that_moves_no_clock_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built of a source that does nothing: it is refused, and the next time it is tried again."""
    steps: list[str] = []

    def run(what: str, argv: Sequence[Any], **options: Any) -> None:
        words = [str(word) for word in argv]
        if "pip" in words:
            folder = Path(words[words.index("--target") + 1]) / SOURCE
            folder.mkdir(parents=True)
            (folder / "libfaketime.c").write_text("int nothing;\n")
            (folder / "libfaketime.map").write_text("{ local: nothing; };\n")
            steps.append("fetched")
        else:
            subprocess.run(words, cwd=options["cwd"], check=True)
            steps.append("built")

    library()
    monkeypatch.setattr(command, "run", run)
    for _ in range(2):
        with pytest.raises(ToolchainError, match="does not move the clock"):
            find_faketime(Cache(tmp_path))
    assert steps == ["fetched", "built"] * 2
    assert not list(tmp_path.glob(f"faketime-*/{NAME}"))
