"""Armed signals: the shells' scripts on a /proc of their own, and what the session's answers come to."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.harness.adapters.armed import KILL, KILL_ALL, KILL_ANY, STOP_ALL, ArmedSignal, Word
from tests.harness.adapters.drivers import NoProcessError


def script_in(folder: Path, processes: dict[int, str], word: Word = KILL) -> str:
    """The script on a fabricated /proc; it sends no signal, but tells which and to whom, and does not sleep."""
    for pid, name in processes.items():
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "comm").write_text(name + "\n")
    (folder / "4711").mkdir()  # one that has just ended
    script = word.script.replace("/proc", str(folder)).replace('kill -9 "$victim"', 'echo "SIGKILL $victim"')
    script = script.replace("sleep 0.01", ":")
    return script.replace("kill -9 -1", "echo SIGKILL everything").replace("kill -STOP -1", "echo SIGSTOP everything")


EVERYTHING = "SIGKILL everything"


VICTIMS: dict[str, tuple[Word, dict[int, str], list[str]]] = {
    "the JVM": (KILL, {12: "java", 40: "python3"}, ["armed 12", "kill 12", "SIGKILL 12"]),
    "a driver and all below pid 1": (KILL_ALL, {7: "python3", 12: "java"}, ["armed 12", "kill 12", EVERYTHING]),
    "a driver of Python alone": (KILL_ANY, {7: "python3"}, ["armed 7", "kill 7", EVERYTHING]),
    "a driver of both": (KILL_ANY, {7: "python3", 12: "java"}, ["armed 12", "kill 12", EVERYTHING]),
    "no JVM yet": (KILL_ALL, {7: "python3"}, ["no JVM"]),
    "nobody to kill": (KILL_ANY, {}, ["no JVM"]),
    "nobody to stop": (STOP_ALL, {}, ["no JVM"]),
}


@pytest.mark.parametrize("what", VICTIMS)
def test_who_is_to_be_killed_is_found_and_falls_at_the_word(tmp_path: Path, what: str) -> None:
    word, processes, said = VICTIMS[what]
    script = script_in(tmp_path, {1: "tini", **processes}, word)
    done = subprocess.run(["sh", "-c", script], input="go\n", capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == said


@pytest.mark.parametrize(("state", "answer"), [("T", ["stop 12"]), ("S", [])])
def test_a_stop_is_told_once_the_jvm_stands_still(tmp_path: Path, state: str, answer: list[str]) -> None:
    script = script_in(tmp_path, {1: "tini", 12: "java"}, STOP_ALL)
    (tmp_path / "12" / "stat").write_text(f"12 (Thread (1) x) {state} 1 12 1\n")
    done = subprocess.run(["sh", "-c", script], input="go\n", capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["armed 12", "SIGSTOP everything", *answer]


@pytest.mark.parametrize("word", [KILL, KILL_ALL, KILL_ANY, STOP_ALL])
def test_no_signal_is_sent_without_the_word(tmp_path: Path, word: Word) -> None:
    script = script_in(tmp_path, {1: "tini", 12: "java"}, word)
    done = subprocess.run(["sh", "-c", script], input="", capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["armed 12"]
    assert done.returncode == 1


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
    armed = ArmedSignal(session, "pod@uid")
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
        ArmedSignal(session, "pod@uid")
    assert session.closed


@pytest.mark.parametrize(
    ("session", "says"),
    [
        (FakeSession("armed 12", "kill 13"), r"did not kill \(kill 13\)"),
        (FakeSession("armed 12", "stop 12"), r"did not kill \(stop 12\)"),
        (FakeSession("armed 12", silent=True), "no answer"),
    ],
)
def test_a_shell_that_says_something_else_or_lives_on_in_silence_did_not_kill(session: FakeSession, says: str) -> None:
    armed = ArmedSignal(session, "pod@uid")
    armed.word()
    with pytest.raises(NoProcessError, match=says):
        armed.struck()


def test_a_stop_is_answered_in_its_own_words() -> None:
    armed = ArmedSignal(FakeSession("armed 12", "stop 12"), "pod@uid", STOP_ALL)
    armed.word()
    assert armed.struck()[1]


def test_an_answer_that_is_lost_leaves_open_whether_it_killed() -> None:
    armed = ArmedSignal(FakeSession("armed 12", ""), "pod@uid")
    armed.word()
    before = time.time_ns() // 1_000_000
    at, said = armed.struck()
    assert not said
    assert at >= before


def test_a_session_that_has_ended_kills_nobody() -> None:
    session = FakeSession("armed 12")
    armed = ArmedSignal(session, "pod@uid")
    session.close()
    with pytest.raises(NoProcessError):
        armed.word()
