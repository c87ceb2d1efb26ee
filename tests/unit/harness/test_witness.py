"""The witness notes processes and pods that come and go, by what kernel and API tell, and is told of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.embedded.process import identity
from tests.harness.adapters.witness import PodWitness, ProcessWitness
from tests.harness.history import History, read_history
from tests.harness.processes import started_s
from tests.unit.harness.fake_cluster import RUNS, UIDS, ended, pod
from tests.unit.harness.sleepers import WITH_CHILD, sleeper, soon

EVERY_S = 0.02


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "history.jsonl") as made:
        yield made


def read_processes(history: History, state: str) -> dict[str, dict[str, Any]]:
    if not history.path.stat().st_size:
        return {}
    events = [one for one in read_history(history.path) if one["state"] == state]
    return {one["process"]: one for one in events}


def numbers(history: History, state: str) -> dict[int, dict[str, Any]]:
    """By number; those of a test live at the same time."""
    return {int(who.partition("@")[0]): one for who, one in read_processes(history, state).items()}


def test_processes_are_noted_with_the_start_that_the_kernel_tells(history: History, tmp_path: Path) -> None:
    witness = ProcessWitness(history, every_s=EVERY_S)
    witness.start()
    try:
        child = sleeper(tmp_path, WITH_CHILD)
        who = identity(child.pid)
        assert who is not None
        # Whatever else this process has started, a server of another test perhaps, is its child as well.
        family = {child.pid, psutil.Process(child.pid).children()[0].pid}
        soon("both to be seen", lambda: family <= numbers(history, "seen").keys())
        assert abs((started_s(numbers(history, "seen")[child.pid]["process"]) or 0.0) - (started_s(who) or 0.0)) <= 0.02
        assert not family & numbers(history, "gone").keys()
        child.kill()
        soon("both to be gone", lambda: family <= numbers(history, "gone").keys())
        gone = numbers(history, "gone")[child.pid]
        assert gone["last"] <= gone["t"]
    finally:
        witness.stop()


def test_a_process_that_belongs_to_somebody_else_is_not_noted(history: History, tmp_path: Path) -> None:
    mine, other = sleeper(tmp_path, name="mine"), sleeper(tmp_path, name="other")
    witness = ProcessWitness(history, root=mine.pid, every_s=EVERY_S)
    try:
        witness.note(witness._look())
        witness.note(witness._look())
        assert numbers(history, "seen") == {}
    finally:
        mine.kill()
        other.kill()


class Blinking(ProcessWitness):
    """Its first look at /proc passes over a process that is born while it reads."""

    def __init__(self, history: History, unborn: int) -> None:
        super().__init__(history, every_s=EVERY_S)
        self._unborn = {unborn}

    def _numbers(self) -> set[int]:
        hidden, self._unborn = self._unborn, set()
        return super()._numbers() - hidden


def test_a_child_that_is_seen_before_its_parent_belongs_to_it(history: History, tmp_path: Path) -> None:
    child = sleeper(tmp_path, WITH_CHILD)
    grandchild = psutil.Process(child.pid).children()[0].pid
    witness = Blinking(history, child.pid)
    try:
        for _look in range(3):
            witness.note(witness._look())
        assert {child.pid, grandchild} <= numbers(history, "seen").keys()
    finally:
        child.kill()


def container(name: str, uid: str, cid: str, state: Any, restarts: int = 0) -> dict[str, Any]:
    made = pod(name, UIDS[uid], state=state)
    made["status"]["containerStatuses"][0] |= {"containerID": f"containerd://{cid}", "restartCount": restarts}
    return made


def test_containers_of_pods_are_noted_with_their_restarts_and_exit_codes(history: History) -> None:
    pods: list[dict[str, Any]] = [container("e-1", "a", "c" * 20, RUNS), pod("waiting", UIDS["b"])]
    witness = PodWitness(history, lambda: pods)
    for _ in range(2):
        witness.note(witness._look())
    who = f"e-1@{UIDS['a']}/{'c' * 12}"
    assert read_processes(history, "seen")[who]["started"] == RUNS["running"]["startedAt"]
    pods[:] = [container("e-1", "a", "c" * 20, ended(137, "OOMKilled"))]
    witness.note(witness._look())
    gone = read_processes(history, "gone")[who]
    assert (gone["code"], gone["reason"]) == (137, "OOMKilled")
    pods[:] = [container("e-1", "a", "d" * 20, RUNS, restarts=1)]
    for _ in range(3):
        witness.note(witness._look())
    again = read_processes(history, "seen")[f"e-1@{UIDS['a']}/{'d' * 12}"]
    assert again["restarts"] == 1
    pods.clear()
    witness.note(witness._look())
    assert len(read_processes(history, "gone")) == 2


def test_an_api_that_does_not_answer_is_asked_again(history: History) -> None:
    answers: list[Any] = [OSError("away"), [], OSError("away")]

    def read() -> Any:
        answer = answers.pop(0) if answers else []
        if isinstance(answer, OSError):
            raise answer
        return answer

    witness = PodWitness(history, read, every_s=EVERY_S)
    witness.start()
    soon("all answers", lambda: not answers)
    assert witness.is_alive()
    witness.stop()
