"""Records that come by the clock, whatever becomes of those before them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

from tests.harness.workload.record import Planned


def pace_out(records: Iterable[Planned], per_s: int, stop: threading.Event) -> Iterator[Planned]:
    """Give records out when each is due; none any more when `stop` is set."""
    began = time.monotonic()
    for number, record in enumerate(records):
        wait_s = began + number / per_s - time.monotonic()
        if wait_s > 0 and stop.wait(wait_s):
            return
        yield record
