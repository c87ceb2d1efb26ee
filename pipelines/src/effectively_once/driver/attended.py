"""Time in which a driver was awake and its broker answered: only what passes then is anybody's silence (R6)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from effectively_once.errors import PipelineError

LOOK_EVERY_S = 1.0
CLOSE_S = 5.0
"""Between two looks further apart the driver stood still or the broker was away, and nobody could be heard.

Some looks long, so that a busy machine or a slow answer does not stop time; well below any `idle_ms` of use.
"""

log = structlog.get_logger()


class Attended:
    """One per driver: a clock that stands while nobody could be heard.

    Args:
        look: asks the broker; raises PipelineError when it does not answer.
        now_s: seconds from any beginning, which go on while the process stands still.

    """

    def __init__(self, look: Callable[[], object], now_s: Callable[[], float] = time.monotonic) -> None:
        self._look, self._now_s = look, now_s
        self._last_s: float | None = None
        self._attended_s = 0.0

    def seconds(self) -> float:
        """Return how long the broker has been looked at, up to the last look."""
        return self._attended_s

    def look(self) -> None:
        """Look once, and count the time since the look before if that was a moment ago and was answered."""
        try:
            self._look()
        except PipelineError as error:
            self._last_s = None
            # Whether the pipeline can go on without its broker shows at the next epoch.
            log.warning("the broker does not answer: nobody's silence counts", error=str(error))
            return
        now, last = self._now_s(), self._last_s
        if last is not None and now - last <= CLOSE_S:
            self._attended_s += now - last
        self._last_s = now

    def start(self, stopping: threading.Event) -> None:
        """Look in a thread of its own until `stopping` is set: an epoch may take longer than looks may be apart."""
        threading.Thread(target=self._run, args=(stopping,), name="attended", daemon=True).start()

    def _run(self, stopping: threading.Event) -> None:
        while True:
            self.look()
            if stopping.wait(LOOK_EVERY_S):
                return
