"""An executor that runs out of memory: what is done beside its JVM, and that only a kill for want of memory counts."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness.adapters.drivers import DELETE_NOW, NoProcessError
from tests.harness.adapters.pod_log import EXECUTOR, Pod
from tests.harness.adapters.pods import PodDrivers
from tests.harness.adapters.server_pods import FIND
from tests.harness.faults import cluster_memory
from tests.harness.faults.cluster_memory import STARVE, StarvedExecutor
from tests.unit.cluster.fake_platform import FakePlatform, Shell
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

    def __init__(self, end: Pod | None, values: dict[str, Any] = SIZES) -> None:
        self.values, self.cluster, self.log = values, FakePlatform(), self
        self.known = {"u1": executor("u1"), "u2": executor("u2")}
        self.scripts: list[str] = []
        self.armed_for: list[str] = []
        known = self.known

        class Session(FakeSession):
            def write_stdin(self, data: str) -> None:
                super().write_stdin(data)
                if end is not None:
                    known[end.uid] = end

        def session(script: str) -> FakeSession:
            self.scripts.append(script)
            return Session("armed 7", "starve 7")

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
    monkeypatch.setattr(cluster_memory, "STARVED_S", 0.2)
    fault = starving(FakeDrivers(end))
    fault.arm()
    with pytest.raises(NoProcessError, match="memory"):
        fault.strike(CALL)


@pytest.mark.parametrize("call", [{"pod": "x", "pod_uid": "u9"}, {"pod": "driver"}])
def test_who_is_no_running_executor_is_not_struck(call: dict[str, str]) -> None:
    with pytest.raises(NoProcessError, match="does not run any more"):
        starving(FakeDrivers(None)).strike(call)


def test_no_more_is_taken_than_the_container_may_have() -> None:
    """Without a limit on the container it would otherwise be the machine's memory."""
    drivers = FakeDrivers(None)
    starving(drivers).arm()
    assert f"range({(640 + 512) // cluster_memory.CHUNK_MIB})" in drivers.scripts[0]
    with pytest.raises(NoProcessError, match="memory of exec-u1@u1 is not known"):
        starving(FakeDrivers(None, {})).strike(CALL)


def test_the_jvm_is_the_one_to_be_killed_and_the_memory_is_really_taken(tmp_path: Path) -> None:
    folder = tmp_path / "proc"
    folder.mkdir()
    victim = sleeper(tmp_path)
    # In the place of the interpreter: one that notes what it was to run, and whether it runs.
    tools = tmp_path / "bin"
    tools.mkdir()
    taken = tmp_path / "taken"
    (tools / "python3").write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "$2; import resource; '
        f"open('{taken}', 'w').write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))\"\n"
    )
    (tools / "python3").chmod(0o755)
    script = f"PATH={tools}:$PATH\n" + FIND.format(program="java") + STARVE.format(chunk=8, chunks=6)
    shell = Shell(folder, script, "java", victim.pid)
    assert shell.readline_stdout(5) == f"armed {victim.pid}\n"
    assert not taken.exists()
    shell.write_stdin("go\n")
    assert shell.readline_stdout(5) == f"starve {victim.pid}\n"
    soon("the memory to be taken", lambda: taken.exists() and taken.read_text())
    assert int(taken.read_text()) > 48 * 1024
    assert Path(f"/proc/{victim.pid}/oom_score_adj").read_text() == "1000\n"
    shell.close()
    victim.kill()
