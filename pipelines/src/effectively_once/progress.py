"""What the pipeline tells the outside while it works: a JSON line an event, in the file that the environment names.

Observers (the harness gates its kills on these lines) read the file while it grows. Without the variable nothing is
written.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

VARIABLE = "EFFECTIVELY_ONCE_EVENTS"


def is_observed() -> bool:
    """Whether anybody reads what is announced."""
    return bool(os.environ.get(VARIABLE))


def announce(event: str, **fields: Any) -> None:
    """Append one event; `t` is milliseconds since 1970.

    One `write` of less than a page with O_APPEND is not interleaved with other processes' lines.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return
    line = json.dumps({"t": int(time.time() * 1000), "event": event, **fields}, separators=(",", ":"))
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode() + b"\n")
    finally:
        os.close(file)
