"""A server in a pod that stands still as long as a session holds it, and goes on whatever becomes of the session."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any

from tests.harness.adapters.armed import ARMED_S, FIRED_S, STILL_S, Session
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.server_pods import FIND, ServerPod, ServerPods

# The shell continues it at the word, or when the session ends; where the shell is gone, the sleeper does. It is not to
# do so in the middle of the next fault.
STOP = """
kill -STOP "$victim"
(sleep {longest}; kill -CONT "$victim") </dev/null >/dev/null 2>&1 &
sleeper=$!
tries=0 state=
while [ "$state" != T ] && [ "$tries" -lt 500 ]; do
  {{ read -r line < "/proc/$victim/stat"; }} 2>/dev/null || exit 1
  line=${{line##*) }}
  state=${{line%% *}} tries=$((tries + 1))
  [ "$state" = T ] || sleep 0.01
done
if [ "$state" = T ]; then echo "stop $victim"; fi
read -r go
kill -CONT "$victim"
kill "$sleeper"
echo "go on $victim"
"""
CONTINUE = 'kill -CONT {pid} && echo "go on {pid}"; read -r _'


class HeldStop:
    """A shell beside a server that stops it at the word and continues it at the next.

    Args:
        server: whose pod it is.
        pod: where the shell is.
        longest_s: after so long the server is continued in any case.

    Raises:
        NoProcessError: there is no server in that pod, or the pod cannot be entered.
    """

    def __init__(self, server: ServerPods, pod: ServerPod, longest_s: float) -> None:
        self._server, self.pod = server, pod
        script = FIND.format(program=server.program) + STOP.format(longest=math.ceil(longest_s))
        self._session: Session | Any = server.cluster.enter(pod.name, pod.container, script)
        told = self._session.readline_stdout(timeout=ARMED_S).split()
        if len(told) != 2 or told[0] != "armed":
            self.close()
            raise NoProcessError(f"{pod.who}: no {server.program} to stop ({' '.join(told) or 'no answer'})")
        self._pid = int(told[1])

    def stop(self) -> int:
        """Stop it; when it stood still at the latest, on this machine's clock (ms).

        Raises:
            NoProcessError: it does not stand still; it is continued.
        """
        told = ""
        with suppress(Exception):
            self._session.write_stdin("go\n")
            told = self._session.readline_stdout(timeout=STILL_S).strip()
        at = time.time_ns() // 1_000_000
        if told != f"stop {self._pid}":
            self.close()
            raise NoProcessError(f"{self.pod.who}: {self._server.program} was not stopped ({told or 'no answer'})")
        return at

    def resume(self) -> None:
        """Continue it: by the shell, and where that does not answer by another one.

        Raises:
            NoProcessError: the pod cannot be entered: it is gone, or the sleeper has to see to it.
        """
        told = ""
        with suppress(Exception):
            self._session.write_stdin("go\n")
            told = self._session.readline_stdout(timeout=FIRED_S).strip()
        self.close()
        if told != f"go on {self._pid}":
            session = self._server.cluster.enter(self.pod.name, self.pod.container, CONTINUE.format(pid=self._pid))
            session.readline_stdout(timeout=ARMED_S)
            session.close()

    def close(self) -> None:
        """End the session: what stands still is continued."""
        with suppress(Exception):
            self._session.close()
