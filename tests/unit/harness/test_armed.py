"""The armed kill: the shell's script on a /proc of its own, and what the session's answers come to."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.harness.adapters.armed import SCRIPT, ArmedKill
from tests.harness.adapters.drivers import NoProcessError


def script_in(folder: Path, processes: dict[int, str]) -> str:
    """The script on a fabricated /proc; instead of killing it tells whom."""
    for pid, name in processes.items():
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "comm").write_text(name + "\n")
    (folder / "4711").mkdir()  # one that has just ended
    return SCRIPT.replace("/proc", str(folder)).replace('kill -9 "$victim"', 'echo "SIGKILL $victim"')


def test_the_jvm_is_found_and_killed_at_the_word(tmp_path: Path) -> None:
    script = script_in(tmp_path, {1: "tini", 12: "java", 40: "python3"})
    done = subprocess.run(["sh", "-c", script], input="go\n", capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["armed 12", "kill 12", "SIGKILL 12"]


def test_nothing_is_killed_without_the_word(tmp_path: Path) -> None:
    script = script_in(tmp_path, {1: "tini", 12: "java"})
    done = subprocess.run(["sh", "-c", script], input="", capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["armed 12"]
    assert done.returncode == 1


def test_a_container_without_a_jvm_is_said(tmp_path: Path) -> None:
    script = script_in(tmp_path, {1: "tini"})
    done = subprocess.run(["sh", "-c", script], input="go\n", capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["no JVM"]


class FakeSession:
    """A session that answers with the lines it was given."""

    def __init__(self, *lines: str, silent: bool = False) -> None:
        self.silent = silent
        self.lines, self.said, self.closed = list(lines), "", False

    def readline_stdout(self, timeout: float | None = None) -> str:
        return self.lines.pop(0) if self.lines else ""

    def is_open(self) -> bool:
        return self.silent and not self.closed

    def write_stdin(self, data: str) -> None:
        if self.closed:
            raise BrokenPipeError
        self.said += data

    def close(self) -> None:
        self.closed = True


def test_the_time_of_a_kill_is_that_of_the_shells_answer() -> None:
    session = FakeSession("armed 12", "kill 12")
    armed = ArmedKill(session, "pod@uid")
    assert session.said == ""
    before = time.time_ns() // 1_000_000
    armed.word()
    at, said = armed.struck()
    assert said
    assert before <= at <= time.time_ns() // 1_000_000
    assert session.said == "go\n"
    assert session.closed


@pytest.mark.parametrize("line", ["", "no JVM", "sh: not found"])
def test_a_session_that_is_not_armed_is_refused(line: str) -> None:
    session = FakeSession(line)
    with pytest.raises(NoProcessError, match="pod@uid"):
        ArmedKill(session, "pod@uid")
    assert session.closed


def test_a_shell_that_says_something_else_did_not_kill() -> None:
    armed = ArmedKill(FakeSession("armed 12", "kill 13"), "pod@uid")
    armed.word()
    with pytest.raises(NoProcessError):
        armed.struck()


def test_a_shell_that_lives_on_in_silence_did_not_kill() -> None:
    armed = ArmedKill(FakeSession("armed 12", silent=True), "pod@uid")
    armed.word()
    with pytest.raises(NoProcessError, match="no answer"):
        armed.struck()


def test_an_answer_that_is_lost_leaves_open_whether_it_killed() -> None:
    armed = ArmedKill(FakeSession("armed 12", ""), "pod@uid")
    armed.word()
    before = time.time_ns() // 1_000_000
    at, said = armed.struck()
    assert not said
    assert at >= before


def test_a_session_that_has_ended_kills_nobody() -> None:
    session = FakeSession("armed 12")
    armed = ArmedKill(session, "pod@uid")
    session.close()
    with pytest.raises(NoProcessError):
        armed.word()
