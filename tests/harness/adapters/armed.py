"""Signals to what runs in a pod, from afar, without the time it takes to get there: the session is open beforehand."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from tests.harness.adapters.drivers import NoProcessError

ARMED_S, FIRED_S, STILL_S = 15.0, 3.0, 10.0
"""A JVM stands still once each of its threads had its turn to notice: on a busy machine not at once."""

# tini is PID 1 and immune to signals from inside; the JVM below it is what makes the container a driver or executor.
# Between the word and the signal no process is started: `read` and `kill` are builtins.
_FIND = """
victim=
for folder in /proc/[0-9]*; do
  name=
  { read -r name < "$folder/comm"; } 2>/dev/null
  if [ "$name" = java ]; then victim=${folder#/proc/}; fi
done
"""
# A driver that makes no Spark session is Python alone.
_ELSE_PYTHON = """
for folder in /proc/[0-9]*; do
  name=
  { read -r name < "$folder/comm"; } 2>/dev/null
  if [ -z "$victim" ] && [ "$name" = python3 ]; then victim=${folder#/proc/}; fi
done
"""
_ARM = """
if [ -z "$victim" ]; then echo "no JVM"; exit 1; fi
echo "armed $victim"
read -r go || exit 1
"""
_KILL = """echo "kill $victim"
kill -9 "$victim"
"""
# -1 is everything in the container but PID 1, which then ends with the driver's code, and this shell.
_KILL_ALL = """echo "kill $victim"
kill -9 -1
"""
_STOP_ALL = """kill -STOP -1
tries=0 state=
while [ "$state" != T ] && [ "$tries" -lt 500 ]; do
  { read -r line < "/proc/$victim/stat"; } 2>/dev/null || exit 1
  line=${line##*) }
  state=${line%% *} tries=$((tries + 1))
  if [ "$state" != T ]; then sleep 0.01; fi
done
if [ "$state" = T ]; then
  echo "stop $victim"
  # The last line of a shell that ends is lost now and then: it stays until the session is closed.
  read -r go
fi
"""


@dataclass(frozen=True)
class Word:
    """What a shell does at the word, and what it answers within `patience_s`: `says`, and the number of its process."""

    script: str
    says: str
    patience_s: float = FIRED_S


KILL = Word(_FIND + _ARM + _KILL, "kill")
"""SIGKILL of the JVM."""
KILL_ALL = Word(_FIND + _ARM + _KILL_ALL, "kill")
"""SIGKILL of everything below PID 1: a driver is a Python process and its JVM."""
KILL_ANY = Word(_FIND + _ELSE_PYTHON + _ARM + _KILL_ALL, "kill")
"""The same for a driver that may have no JVM."""
STOP_ALL = Word(_FIND + _ARM + _STOP_ALL, "stop", STILL_S)
"""SIGSTOP of everything below PID 1; the answer comes when the JVM stands still."""


class Session(Protocol):
    """The part of kubernetes' WSClient that is used."""

    def readline_stdout(self, timeout: float | None = None) -> str:
        """One line, or an empty text when there is none in time."""

    def write_stdin(self, data: str) -> None:
        """Hand text to the script."""

    def is_open(self) -> bool:
        """Whether the other end still is there."""

    def close(self) -> None:
        """End the session."""


class ArmedSignal:
    """A shell in a container that runs the script of a `Word` and waits for the word to send its signal."""

    def __init__(self, session: Session | Any, who: str, word: Word = KILL) -> None:
        """Wait until the shell has found the JVM. Raises NoProcessError."""
        self.who, self._session, self._says, self._patience_s = who, session, word.says, word.patience_s
        told = session.readline_stdout(timeout=ARMED_S).split()
        if len(told) != 2 or told[0] != "armed":
            self.close()
            raise NoProcessError(f"{who}: no JVM to {self._says} ({' '.join(told) or 'no answer'})")
        self.pid = int(told[1])

    def word(self) -> None:
        """Say the word; `struck` tells what came of it. Raises NoProcessError."""
        try:
            self._session.write_stdin("go\n")
        except Exception as error:
            raise NoProcessError(f"{self.who}: the session has ended ({error})") from error

    def struck(self) -> tuple[int, bool]:
        """When the signal had been sent at the latest, on this machine's clock (ms), and whether the shell said so.

        A container that ends takes the shell with it, now and then before its last line has left: then the end of the
        container has to tell.

        Raises:
            NoProcessError: the shell said something else, or lives on in silence.
        """
        told = ""
        with suppress(Exception):
            told = self._session.readline_stdout(timeout=self._patience_s).strip()
        silent = not told and self._session.is_open()
        at = time.time_ns() // 1_000_000
        self.close()
        if silent or told not in ("", f"{self._says} {self.pid}"):
            raise NoProcessError(f"{self.who}: the shell did not {self._says} ({told or 'no answer'})")
        return at, bool(told)

    def close(self) -> None:
        """End the session: a shell that gets no word ends without a signal."""
        with suppress(Exception):
            self._session.close()
