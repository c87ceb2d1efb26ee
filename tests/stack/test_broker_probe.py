"""What the broker says of its topics' settings."""

from __future__ import annotations

import pytest

from effectively_once.driver.broker_probe import TopicFacts, ask, judge
from infra.embedded.stack import EmbeddedStack
from tests.settings import pipeline_settings
from tests.stack.conftest import Topic

pytestmark = pytest.mark.stack


def test_an_input_of_an_hour_is_warned_of(stack: EmbeddedStack, pipeline: str, topic: Topic) -> None:
    events = topic(f"events-{pipeline}", 2, retention_ms="3600000")
    topic(f"{pipeline}.accepted", 2)
    topic(f"{pipeline}.accepted.progress", 2, cleanup_policy="compact")
    settings = pipeline_settings(pipeline=pipeline, topic=events, kafka_bootstrap=stack.endpoints.kafka_bootstrap)
    facts = ask(settings, ["accepted"])
    assert len(facts) == 3
    assert facts[events] == TopicFacts(copies=1, in_sync=1, min_insync=1, retention_ms=3_600_000, retention_bytes=-1)
    assert [given.name for given in judge(settings, facts)] == ["retention"]
