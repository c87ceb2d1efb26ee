"""A driver that is started again when it has ended, as a cluster does it, with a pause that grows."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from infra.embedded.process import Child
from infra.errors import UserError

PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Before each start again; the last from then on, and the first again when an epoch was published meanwhile."""
_NAMED = re.compile(r"^\w+(Error|Exception|Interrupt): .*", re.MULTILINE)


class Supervised:
    """One driver after the other.

    Args:
        child: the first.
        start: starts the next one, with the author's code as it is then. It may raise a UserError that says why not.
        say: is given what the user has to know.
        sleep: of a test.

    """

    def __init__(
        self,
        child: Child,
        start: Callable[[], Child],
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.child = child
        self._start, self._say, self._sleep = start, say, sleep
        self._failures = 0

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the driver; False if it still runs after `timeout_s`."""
        return self.child.wait(timeout_s)

    def make_progress(self) -> None:
        """Note that an epoch was published: what fails next fails for the first time."""
        self._failures = 0

    def start_again(self) -> None:
        """Say why the driver has ended and what helps, pause, and start it; again and again, until one is started."""
        why = explain(self.child)
        while True:
            pause_s = PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
            self._failures += 1
            self._say(
                f"✗ {why}\n"
                f"  it is started again in {pause_s:.0f} s, with your files as they are then; what is published stays"
            )
            self._sleep(pause_s)
            try:
                self.child = self._start()
            except UserError as error:
                why = str(error)
            else:
                return

    def stop(self, grace_s: float) -> None:
        """End the driver that runs."""
        self.child.stop(grace_s)


def explain(child: Child) -> str:
    """Say how a driver ended, in the words of its error: what happened, where, and what to do."""
    status = child.status()
    if status == 0:
        return "the driver has ended as it was asked to (drain); `effectively-once resume` lets it go on"
    said = child.post_mortem()
    named = list(_NAMED.finditer(said))
    return f"the driver has ended with {status}: {named[-1][0]}\n  its log is {child.log}" if named else said
