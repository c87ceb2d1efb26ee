"""SIGKILL of an executor's JVM from afar, without the time it takes to get there: the session is open beforehand."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Protocol

from tests.harness.adapters.drivers import NoProcessError

ARMED_S, FIRED_S = 15.0, 3.0

# tini is PID 1 and immune to signals from inside; the JVM below it is the executor. `read` and `kill` are builtins:
# between the word and the signal no process is started.
SCRIPT = """
victim=
for folder in /proc/[0-9]*; do
  name=
  { read -r name < "$folder/comm"; } 2>/dev/null
  if [ "$name" = java ]; then victim=${folder#/proc/}; fi
done
if [ -z "$victim" ]; then echo "no JVM"; exit 1; fi
echo "armed $victim"
read -r go || exit 1
echo "kill $victim"
kill -9 "$victim"
"""


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


class ArmedKill:
    """A shell in an executor's container that waits for a word to kill the JVM."""

    def __init__(self, session: Session | Any, who: str) -> None:
        """Wait until the shell has found the JVM. Raises NoProcessError."""
        self.who, self._session = who, session
        told = session.readline_stdout(timeout=ARMED_S).split()
        if len(told) != 2 or told[0] != "armed":
            self.close()
            raise NoProcessError(f"{who}: no JVM to kill ({' '.join(told) or 'no answer'})")
        self.pid = int(told[1])

    def word(self) -> None:
        """Say the word; `struck` tells what came of it. Raises NoProcessError."""
        try:
            self._session.write_stdin("go\n")
        except Exception as error:
            raise NoProcessError(f"{self.who}: the session has ended ({error})") from error

    def struck(self) -> tuple[int, bool]:
        """When the kill had been called at the latest, on this machine's clock (ms), and whether the shell said so.

        A container that ends takes the shell with it, now and then before its last line has left: then the end of the
        container has to tell.

        Raises:
            NoProcessError: the shell said something else, or lives on in silence.
        """
        told = ""
        with suppress(Exception):
            told = self._session.readline_stdout(timeout=FIRED_S).strip()
        silent = not told and self._session.is_open()
        at = time.time_ns() // 1_000_000
        self.close()
        if silent or told not in ("", f"kill {self.pid}"):
            raise NoProcessError(f"{self.who}: the shell did not kill ({told or 'no answer'})")
        return at, bool(told)

    def close(self) -> None:
        """End the session: a shell that gets no word ends without killing."""
        with suppress(Exception):
            self._session.close()
