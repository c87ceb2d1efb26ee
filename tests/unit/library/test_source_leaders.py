"""Ends of a topic that was just made, or whose broker has just restarted: asked for again, of its leaders of now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from effectively_once.errors import AccessError, PipelineError, UnreachableError
from effectively_once.sinks import leaders
from effectively_once.sources.kafka import KafkaSource
from tests.settings import pipeline_settings
from tests.unit.harness.test_leaders import Answer


class Changing:
    """A client that is refused with each of some codes in turn, then answered."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.looked = 0

    def poll(self, timeout: float) -> None:
        pass

    def list_topics(self, _topic: str, timeout: float) -> None:
        self.looked += 1

    def list_offsets(self, wanted: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Answer]:
        told: Any = KafkaException(KafkaError(self.codes.pop(0))) if self.codes else SimpleNamespace(offset=7)
        return {one: Answer(told) for one in wanted}


def source(*codes: int, patience_s: float = 5.0) -> tuple[KafkaSource, Changing]:
    settings = pipeline_settings().model_copy(update={"start_patience_s": patience_s})
    made, client = KafkaSource(settings), Changing(*codes)
    vars(made)["_admin"] = client
    return made, client


def test_leaders_that_change_are_looked_for_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "WAIT_S", 0.0)
    asked, client = source(*leaders.MOVING)
    assert asked.committed_ends({"events": ["0", "2"]}) == {"events": {"0": 7, "2": 7}}
    assert client.looked == len(leaders.MOVING)


@pytest.mark.parametrize(
    ("code", "patience_s", "kind", "says"),
    [
        (KafkaError.NOT_LEADER_FOR_PARTITION, 0.0, UnreachableError, "does not answer"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 5.0, AccessError, "does not let it use the topic"),
    ],
)
def test_any_other_refusal_and_the_end_of_patience_are_named(
    code: int, patience_s: float, kind: type[PipelineError], says: str
) -> None:
    asked, client = source(code, code, patience_s=patience_s)
    with pytest.raises(kind, match=says):
        asked.committed_ends({"events": ["0"]})
    assert client.codes == [code]
