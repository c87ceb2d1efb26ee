"""Spark operator 2.5.2 forgets a driver: between the driver's pod and the status that tells of it, the operator ends.

    python -m tests.upstream.operator_submission NAMESPACE APPLICATION [--wait-s 90]

The operator sets the submission's id before it submits, and writes it to the status after (`submitSparkApplication`,
`reconcilePendingRerunSparkApplication`). Killed in between, it leaves a driver that runs, and a status `PENDING_RERUN`
without an id. When it is back:

- it sees the pod, says "Resources associated with SparkApplication still exist", and asks for no second look;
- it waits for the pod's end, but drops all events of a pod whose submission id is not the status' (`event_handler.go`).

So nothing follows that driver when it ends. This writes the status that such a kill leaves, which needs no lucky
moment, deletes the driver's pod, sees for some time that nothing follows, then changes the object: a driver follows.
With a plain `kubectl`; the application is one that runs and may be struck, on a cluster with the operator.

Exit codes: 0 it is so, and was healed; 1 it is not so: a driver followed by itself; 2 it could not be tried.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

RESOURCE = "sparkapplications.sparkoperator.k8s.io"
NEVER_WRITTEN = {
    "status": {
        "applicationState": {"state": "PENDING_RERUN", "errorMessage": ""},
        "submissionID": "",
        "driverInfo": {"podName": "", "webUIServiceName": ""},
    },
}
TOUCH = {"metadata": {"annotations": {"effectively-once/touched": "operator-submission"}}}
UNTOUCH = {"metadata": {"annotations": {"effectively-once/touched": None}}}
WAIT_S, DRIVER_S, POLL_S, ASK_S = 90.0, 120.0, 1.0, 30.0


class CannotTryError(Exception):
    """The state that is to be shown could not be made; the message says why."""


Kubectl = Callable[[Sequence[str]], str]


def kubectl(words: Sequence[str]) -> str:
    """What `kubectl` answers. Raises CannotTryError with its last words."""
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, timeout=ASK_S, check=False)
    if done.returncode:
        raise CannotTryError(f"kubectl {words[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout


@dataclass(frozen=True)
class Application:
    """One SparkApplication.

    Attributes:
        namespace: of it.
        name: of it.
        ask: sends a command of kubectl.
        wait: lets time pass; True ends the wait.
        clock: in seconds.
    """

    namespace: str
    name: str
    ask: Kubectl = kubectl
    wait: Callable[[float], bool] = threading.Event().wait
    clock: Callable[[], float] = time.monotonic

    def state(self) -> str:
        """As the operator wrote it."""
        found: str = self._read(["get", RESOURCE, self.name])["status"]["applicationState"]["state"]
        return found

    def drivers(self) -> set[str]:
        """Uids of the drivers' pods that are there."""
        label = f"spark-role=driver,sparkoperator.k8s.io/app-name={self.name}"
        return {pod["metadata"]["uid"] for pod in self._read(["get", "pods", "--selector", label])["items"]}

    def patch(self, change: dict[str, Any], *, status: bool = False) -> None:
        """Merge a change into it."""
        words = ["--subresource=status"] if status else []
        self.ask(["-n", self.namespace, "patch", RESOURCE, self.name, "--type=merge", "-p", json.dumps(change), *words])

    def end_drivers(self) -> None:
        """Delete the drivers' pods, and return when these are gone."""
        former = self.drivers()
        label = f"spark-role=driver,sparkoperator.k8s.io/app-name={self.name}"
        self.ask(["-n", self.namespace, "delete", "pods", "--selector", label, "--grace-period=1", "--wait=false"])
        if not self.within(DRIVER_S, lambda: not former & self.drivers()):
            raise CannotTryError(f"the driver's pod of {self.name} is still there after {DRIVER_S:.0f} s")

    def within(self, seconds: float, holds: Callable[[], bool]) -> bool:
        """Whether something comes true in that time."""
        deadline = self.clock() + seconds
        while not holds():
            if self.clock() > deadline or self.wait(POLL_S):
                return False
        return True

    def _read(self, words: Sequence[str]) -> Any:
        return json.loads(self.ask(["-n", self.namespace, *words, "-o", "json"]))


def reproduce(application: Application, say: Callable[[str], object], wait_s: float = WAIT_S) -> bool:
    """Whether the operator forgets the driver; the application has a driver again afterwards, either way.

    Raises:
        CannotTryError: it does not run, or has no driver again.
    """
    if application.state() != "RUNNING" or not application.drivers():
        raise CannotTryError(f"{application.name} is {application.state()}: name an application that runs")
    application.patch(NEVER_WRITTEN, status=True)
    # The operator has looked at it, and left it: else another status would be there by now.
    if application.within(5.0, lambda: application.state() != "PENDING_RERUN"):
        raise CannotTryError(f"the operator wrote {application.state()}, though the driver's pod is there")
    say("the status is what a kill between pod and status leaves: PENDING_RERUN, and a driver runs")
    application.end_drivers()
    say(f"the driver is gone; for {wait_s:.0f} s a next one is looked for")
    try:
        if application.within(wait_s, lambda: bool(application.drivers())):
            say("a driver followed by itself: the operator did not forget it")
            return False
        say(f"none followed, and the state is {application.state()}: the operator has forgotten the driver")
    finally:
        application.patch(TOUCH)
        application.patch(UNTOUCH)
        if not application.within(DRIVER_S, lambda: bool(application.drivers())):
            raise CannotTryError(f"no driver of {application.name} after the object was changed: look at the operator")
    say("the object was changed, and a driver is there")
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Do it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.upstream.operator_submission")
    parser.add_argument("namespace")
    parser.add_argument("application")
    parser.add_argument("--wait-s", type=float, default=WAIT_S, help="how long nothing is to follow (%(default)s)")
    given = parser.parse_args(arguments)
    try:
        shown = reproduce(
            Application(given.namespace, given.application),
            lambda line: print(line, flush=True),  # noqa: T201
            given.wait_s,
        )
    except CannotTryError as error:
        sys.stderr.write(f"✗ {error}\n")
        return 2
    return 0 if shown else 1


if __name__ == "__main__":
    sys.exit(main())
