"""Where the partition of progress marks ends: asked again while its leader changes, and only then."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from effectively_once.sinks.kafka import _ends


class FakeConsumer:
    """Fails with each of the codes in turn, then answers."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def get_watermark_offsets(self, _where: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return 3, 9


def test_a_leader_that_is_changing_is_waited_for() -> None:
    """A topic that was just made, or a broker that has just restarted."""
    consumer = FakeConsumer(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    assert _ends(consumer, TopicPartition("t", 0), 5.0) == (3, 9)


@pytest.mark.parametrize(
    ("code", "timeout_s"), [(KafkaError.NOT_LEADER_FOR_PARTITION, 0.0), (KafkaError.UNKNOWN_TOPIC_OR_PART, 5.0)]
)
def test_any_other_refusal_and_the_end_of_patience_are_passed_on(code: int, timeout_s: float) -> None:
    """The caller names them."""
    with pytest.raises(KafkaException):
        _ends(FakeConsumer(code, code), TopicPartition("t", 0), timeout_s)
