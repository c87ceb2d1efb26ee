"""Waiting for what is not there yet: until when, and the evidence where it does not come."""

from __future__ import annotations

from collections.abc import Callable

import tenacity

from effectively_once.errors import UnreachableError

REQUEST_TIMEOUT_S = 5.0
PAUSE_S = 0.5


class NotYetError(Exception):
    """Something that is waited for is not there; the message is the evidence."""


def until(what: str, where: str, deadline_s: float, attempt: Callable[[], None], pause_s: float = PAUSE_S) -> None:
    """Repeat `attempt` until it no longer raises NotYetError.

    Raises:
        UnreachableError: the deadline passed; it carries the evidence of the last attempt.

    """
    try:
        tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(NotYetError),
            wait=tenacity.wait_fixed(pause_s),
            stop=tenacity.stop_after_delay(deadline_s),
            reraise=True,
        )(attempt)
    except NotYetError as last:
        raise UnreachableError(
            f"{what}: not done within {deadline_s:g} s; {last}",
            where,
            "Check that it runs and is reachable from here; then run this again, it goes on where it stopped.",
        ) from last
