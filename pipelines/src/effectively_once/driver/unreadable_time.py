"""A Kafka timestamp that Spark's source cannot read, told by what Spark's JVM fails with."""

from __future__ import annotations

from collections.abc import Callable

from effectively_once.driver.outage import texts_of
from effectively_once.errors import SourceError
from effectively_once.ledger.offsets import Ranges
from effectively_once.sinks.kafka_shard import consumer_of
from effectively_once.sources import unreadable

_FAILED = "java.lang.ArithmeticException: long overflow"
"""A transform's own arithmetic has Spark's name: `SparkArithmeticException: [ARITHMETIC_OVERFLOW]`."""
_IN_SOURCE = "KafkaRecordToRowConverter"
Find = Callable[[], unreadable.Unreadable | None]


def unreadable_time(
    error: BaseException, topic: str, bootstrap: str, find: Find, *, stateful: bool
) -> SourceError | None:
    """Name a failure of Spark behind which such a record is; None for any other.

    Args:
        error: what the query or the session ended with.
        topic: the input.
        bootstrap: its broker.
        find: looks for the record in what the epoch reads.
        stateful: whether the pipeline's state is Spark's own.

    """
    texts = [text for text in texts_of(error) if _FAILED in text]
    if not texts:
        return None
    found = find()
    if found is None and not any(_IN_SOURCE in text for text in texts):
        return None
    return unreadable.refusal(found, topic, bootstrap, stateful=stateful)


def find_unreadable(bootstrap: str, ranges: Ranges) -> unreadable.Unreadable | None:
    """Look for the record in what an epoch reads."""
    return unreadable.find(lambda: consumer_of(bootstrap, "read_committed"), ranges)
