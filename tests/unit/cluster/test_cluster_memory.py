"""An executor that runs out of memory: what is done beside its JVM, and that only a kill for want of memory counts."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from infra.embedded.process import Child
from tests.harness.adapters.drivers import DELETE_NOW, NoProcessError
from tests.harness.adapters.pod_log import EXECUTOR, Pod
from tests.harness.adapters.pods import PodDrivers
from tests.harness.faults import cluster_memory
from tests.harness.faults.cluster_memory import StarvedExecutor
from tests.unit.cluster.fake_platform import FakePlatform, ProcShell
from tests.unit.harness.sleepers import sleeper, soon
from tests.unit.harness.test_armed import FakeSession

CALL = {"pod": "exec-1", "pod_uid": "u1"}
SIZES = {"executors": {"memoryMib": 640, "memoryOverheadMib": 512}}


def executor(uid: str, code: int | None = None, reason: str = "") -> Pod:
    """An executor's pod."""
    return Pod(
        f"exec-{uid}", uid, EXECUTOR, "uc", "spark-kubernetes-executor", started=True, exit_code=code, reason=reason
    )


class FakeDrivers:
    """Two executors, of which one ends at the word, as `end` says."""

    def __init__(self, end: Pod | None, values: dict[str, Any] = SIZES, *, silent: bool = False) -> None:
        self.values, self.cluster, self.log = values, FakePlatform(), self
        self.known = {"u1": executor("u1"), "u2": executor("u2")}
        self.scripts: list[str] = []
        self.armed_for: list[str] = []
        self.opened: list[FakeSession] = []
        known = self.known

        class Session(FakeSession):
            def write_stdin(self, data: str) -> None:
                super().write_stdin(data)
                if end is not None:
                    known[end.uid] = end

        def session(script: str) -> FakeSession:
            self.scripts.append(script)
            self.opened.append(Session("armed 7", "starve 7", silent=silent))
            return self.opened[-1]

        self.cluster.sessions = session

    def arm(self, kind: str) -> None:
        self.armed_for.append(kind)

    def executors(self) -> list[str]:
        return [one.who for one in self.known.values() if one.runs]

    def pods(self, role: str) -> list[Pod]:
        return list(self.known.values())

    def pod(self, uid: str) -> Pod | None:
        return self.known.get(uid)


def starving(drivers: FakeDrivers) -> StarvedExecutor:
    return StarvedExecutor(cast("PodDrivers", drivers), ended=threading.Event())


def test_an_executor_that_ends_for_want_of_memory_was_struck() -> None:
    drivers = FakeDrivers(executor("u1", 137, "OOMKilled"))
    fault = starving(drivers)
    fault.arm()
    assert drivers.armed_for == [DELETE_NOW], "every executor is there, and the drivers open no session"
    ((who, at),) = fault.strike(CALL)
    assert (who, at > 0) == ("exec-u1@u1", True)
    assert fault.after() == []
    drivers.known["u3"] = executor("u3")
    assert fault.after() == ["exec-u3@u3"]
    assert fault.evidence() == {"ended_as": "OOMKilled"}


@pytest.mark.parametrize("end", [executor("u1", 137, "Error"), executor("u1", 1), None])
def test_another_end_and_none_are_misses(end: Pod | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_memory, "TOLD_S", 0.2)
    fault = starving(FakeDrivers(end))
    fault.arm()
    with pytest.raises(NoProcessError, match="memory"):
        fault.strike(CALL)


def test_a_session_that_goes_on_has_starved_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the container, and not before."""
    monkeypatch.setattr(cluster_memory, "STARVED_S", 0.2)
    drivers = FakeDrivers(executor("u1", 137, "OOMKilled"), silent=True)
    fault = starving(drivers)
    fault.arm()
    with pytest.raises(NoProcessError, match=r"did not run out of memory within 0 s"):
        fault.strike(CALL)
    assert all(one.closed for one in drivers.opened), "who waits for the word is not left behind"


DECLARED = {"event": "epoch", "state": "declared", "epoch": 3, "pod": "driver", "pod_uid": "d1"}


@pytest.mark.parametrize(("of", "uid"), [(0, "u1"), (1, "u2"), (2, "u1")])
def test_after_a_declaration_it_is_the_executor_that_was_drawn(of: int, uid: str) -> None:
    drivers = cast("PodDrivers", FakeDrivers(executor(uid, 137, "OOMKilled")))
    ((who, _),) = StarvedExecutor(drivers, ended=threading.Event(), of=of).strike(DECLARED)
    assert who == f"exec-{uid}@{uid}"


@pytest.mark.parametrize("event", [{"pod": "x", "pod_uid": "u9"}, {"pod": "driver"}, DECLARED])
def test_who_is_no_running_executor_is_not_struck(event: dict[str, Any]) -> None:
    drivers = FakeDrivers(None)
    if event is DECLARED:
        drivers.known.clear()
    with pytest.raises(NoProcessError, match="does not run any more"):
        starving(drivers).strike(event)


def test_no_more_is_taken_than_the_container_may_have() -> None:
    """Without a limit on the container it would otherwise be the machine's memory."""
    drivers = FakeDrivers(None)
    starving(drivers).arm()
    ((takers, share_mib),) = re.findall(r"range\((\d+) - 1\).*bytearray\((\d+) << 20\)", drivers.scripts[0], re.DOTALL)
    assert 1000 < int(takers) * int(share_mib) <= 640 + 512
    with pytest.raises(NoProcessError, match="memory of exec-u1@u1 is not known"):
        starving(FakeDrivers(None, {})).strike(CALL)


def badness(resident: int, tables: int, adjustment: int, limit: int) -> int:
    """What the kernel compares processes by (mm/oom_kill.c), in pages: the greatest is killed."""
    return resident + tables + adjustment * limit // 1000


@pytest.mark.parametrize(("takers", "jvm_killed"), [(1, False), (cluster_memory.TAKERS, True)])
def test_of_all_processes_of_the_container_the_jvm_is_the_greatest(takers: int, jvm_killed: bool) -> None:
    """Resident pages, page tables and adjustments as the kernel told them when it killed the one that took it all."""
    limit = 1152 * 256
    jvm = badness(109_959, 305, 1000, limit)
    others = [badness(11_716, 36, 953, limit), badness(52_406, 221, 953, limit)]
    taken, interpreter = 145_984, 1_248
    assert jvm > max(others)
    assert (jvm > badness(interpreter + taken // takers, 301, 953, limit)) is jvm_killed
    # Whatever share each may have by then.
    share = 1152 // takers * 256
    assert (jvm > badness(interpreter + share, 301, 953, limit)) is jvm_killed


@pytest.fixture
def jvm(tmp_path: Path) -> Iterator[Child]:
    victim = sleeper(tmp_path)
    yield victim
    victim.kill()


@pytest.fixture
def shell(tmp_path: Path, jvm: Child) -> Iterator[ProcShell]:
    """Four takers of 96 MiB that wait for the word beside it."""
    proc, tools = tmp_path / "proc", tmp_path / "bin"
    proc.mkdir()
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    made = ProcShell(proc, f"PATH={tools}:$PATH\n{cluster_memory.starving(96, takers=4)}", "java", jvm.pid)
    assert made.readline_stdout(5) == f"armed {jvm.pid}\n"
    yield made
    for one in takers_of(made) if made.is_open() else ():
        one.kill()
    made.close()


def test_the_jvm_is_the_one_to_be_killed_and_equal_shares_are_really_taken(jvm: Child, shell: ProcShell) -> None:
    first, *others = takers_of(shell)
    assert not others
    assert memory_of(first) < 24 << 20
    shell.write_stdin("go\n")
    assert shell.readline_stdout(5) == f"starve {jvm.pid}\n"
    soon("all shares to be taken", lambda: [memory_of(one) > 24 << 20 for one in takers_of(shell)] == [True] * 4)
    assert max(memory_of(one) for one in takers_of(shell)) < 48 << 20, "an interpreter and a share"
    assert Path(f"/proc/{jvm.pid}/oom_score_adj").read_text() == "1000\n"
    # They keep it, and the session lasts, as long as nobody kills them.
    with pytest.raises(psutil.TimeoutExpired):
        first.wait(0.5)


def test_without_the_word_nothing_is_taken(jvm: Child, shell: ProcShell) -> None:
    shell.close()
    assert shell.process.returncode == 1
    assert Path(f"/proc/{jvm.pid}/oom_score_adj").read_text() != "1000\n"


def takers_of(shell: ProcShell) -> list[psutil.Process]:
    first = psutil.Process(shell.process.pid)
    return [first, *first.children()]


def memory_of(process: psutil.Process) -> int:
    return int(process.memory_info().rss)
