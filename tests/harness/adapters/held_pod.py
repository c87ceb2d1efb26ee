"""Processes in a pod that stand still as long as a session holds them, and go on whatever becomes of the session."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.harness.adapters.armed import ARMED_S, FIRED_S, STILL_S, Session
from tests.harness.adapters.cluster import Cluster
from tests.harness.adapters.drivers import NoProcessError
from tests.harness.adapters.pod_shell import Enterable, ask_shell
from tests.harness.adapters.server_pods import LOCATE

FIND_JVM = """
victim=
for folder in /proc/[0-9]*; do
  line=
  { read -r line < "$folder/stat"; } 2>/dev/null
  set -- $line
  if [ "${2-}" = "(java)" ]; then victim=$1; fi
done
if [ -z "$victim" ]; then echo "no JVM"; exit 1; fi
"""
# A worker is a child of the process that forks workers, which is a child of the JVM: the last one that was forked. What
# stands behind the name, which may hold anything, is state and parent.
FIND_WORKER = f"""{FIND_JVM}
jvm=$victim victim=
for folder in /proc/[0-9]*; do
  line=
  {{ read -r line < "$folder/stat"; }} 2>/dev/null
  own=${{line%% *}}
  set -- ${{line##*) }}
  line=
  {{ read -r line < "${{folder%/*}}/${{2-}}/stat"; }} 2>/dev/null
  set -- ${{line##*) }}
  if [ "${{2-}}" = "$jvm" ] && [ "$own" -gt "${{victim:-0}}" ]; then victim=$own; fi
done
if [ -z "$victim" ]; then echo "no Python worker"; exit 1; fi
"""
# The shell continues them at the word, or when the session ends; where the shell is gone, the sleeper does. It is not
# to do so in the middle of the next fault.
HOLD = """
kill -STOP {whom}
(sleep {longest}; kill -CONT {whom}) </dev/null >/dev/null 2>&1 &
sleeper=$!
tries=0 state=
while [ "$state" != T ] && [ "$tries" -lt 500 ]; do
  {{ read -r line < "/proc/$victim/stat"; }} 2>/dev/null || break
  line=${{line##*) }}
  state=${{line%% *}} tries=$((tries + 1))
  [ "$state" = T ] || sleep 0.01
done
if [ "$state" = T ]; then echo "stop $victim"; else echo "moves $victim"; fi
read -r go
kill -CONT {whom}
kill "$sleeper"
echo "go on $victim"
"""
CONTINUE = "kill -CONT {whom}; echo continued"
ALONE, EVERYTHING = '"$victim"', "-1"


@dataclass(frozen=True)
class Held:
    """Who in a container stands still.

    Attributes:
        what: for messages.
        find: script that sets `victim`, or ends.
        whom: ALONE, or EVERYTHING but the container's first process and the shell.
        late: whether the victim is found only at the word, which may name its number.
    """

    what: str
    find: str
    whom: str = EVERYTHING
    late: bool = False

    def script(self, longest_s: float) -> str:
        """What a shell does: find, say so, wait for the word, stop, wait for the next, continue."""
        hold = HOLD.format(whom=self.whom, longest=math.ceil(longest_s))
        named = 'read -r go named || exit 1\nif [ -n "$named" ]; then victim=$named; fi\n'
        if self.late:
            return f'echo "armed 0"\n{named}if [ -z "$named" ]; then\n{self.find}\nfi\n{hold}'
        return f'{self.find}\necho "armed $victim"\n{named}{hold}'


EXECUTOR = Held("executor", FIND_JVM)
"""The JVM with its Python workers."""
EXECUTOR_JVM = Held("executor JVM", FIND_JVM, ALONE)
PYTHON_WORKER = Held("python worker", FIND_WORKER, ALONE, late=True)
DRIVER = Held("driver", FIND_JVM)
"""The driver's Python process with its JVM: nothing else is in its pod."""


def server_held(what: str, program: str, whom: str = EVERYTHING) -> Held:
    """A server with all the processes below it, as sessions of a database are, or alone."""
    return Held(what, LOCATE.format(program=program), whom)


class HeldPod:
    """A shell in a container that stops processes there at the word, and continues them at the next.

    Args:
        cluster: the namespace.
        pod: where the shell is.
        held: who stands still.
        longest_s: after so long they are continued in any case.

    Raises:
        NoProcessError: there is nobody to stop, or the pod cannot be entered.
    """

    def __init__(self, cluster: Cluster, pod: Enterable, held: Held, longest_s: float) -> None:
        self._cluster, self._pod, self._held = cluster, pod, held
        self._session: Session | Any = cluster.enter(pod.name, pod.container, held.script(longest_s))
        told = self._session.readline_stdout(timeout=ARMED_S).split()
        if len(told) != 2 or told[0] != "armed":
            self.close()
            raise NoProcessError(f"{pod.who}: no {held.what} to stop ({' '.join(told) or 'no answer'})")
        self.pid = 0

    def stop(self, number: int | None = None) -> int:
        """Stop them; when they stood still at the latest, on this machine's clock (ms).

        Args:
            number: of the process, as its container numbers it; left out it is looked for.

        Raises:
            NoProcessError: it does not stand still; all are continued.
        """
        told = self._ask(f"go {number or ''}\n", STILL_S).split()
        at = time.time_ns() // 1_000_000
        if len(told) != 2 or told[0] != "stop":
            self.close()
            why = " ".join(told) or "no answer"
            raise NoProcessError(f"{self._pod.who}: {self._held.what} was not stopped ({why})")
        self.pid = int(told[1])
        return at

    def resume(self) -> None:
        """Continue them: by the shell, and where that does not answer by another one.

        Raises:
            NoProcessError: the pod cannot be entered: it is gone, or the sleeper has to see to it.
        """
        told = self._ask("go\n", FIRED_S)
        self.close()
        if told != f"go on {self.pid}":
            whom = EVERYTHING if self._held.whom == EVERYTHING else str(self.pid)
            ask_shell(self._cluster, self._pod, CONTINUE.format(whom=whom))

    def close(self) -> None:
        """End the session: what stands still is continued."""
        with suppress(Exception):
            self._session.close()

    def _ask(self, word: str, patience_s: float) -> str:
        """What the shell answers to a word; nothing where it does not."""
        with suppress(Exception):
            self._session.write_stdin(word)
            return str(self._session.readline_stdout(timeout=patience_s)).strip()
        return ""
