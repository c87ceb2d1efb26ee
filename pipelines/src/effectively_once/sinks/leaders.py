"""Leaders of partitions that are just changing: whoever asked the wrong one asks again for a while."""

from __future__ import annotations

from collections.abc import Callable

import tenacity
from confluent_kafka import KafkaError, KafkaException

MOVING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
"""Answers while a partition gets its first leader, or another one: asked again, that one tells."""
WAIT_S = 0.1
"""Between two questions."""


def ask_again(timeout_s: float, before: Callable[[tenacity.RetryCallState], None] | None = None) -> tenacity.Retrying:
    """Return what calls a function again while leaders change; its last error after `timeout_s`, any other at once.

    Args:
        timeout_s: for all calls together.
        before: called before each further call. An AdminClient asks the leaders that it knows, and notices only when
            it is asked for the topic that there are others.

    """
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(
            lambda error: isinstance(error, KafkaException) and error.args[0].code() in MOVING
        ),
        wait=tenacity.wait_fixed(WAIT_S),
        stop=tenacity.stop_after_delay(timeout_s),
        before_sleep=before,
        reraise=True,
    )
