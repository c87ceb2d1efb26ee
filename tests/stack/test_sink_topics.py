"""What a start asks of the topics of sinks, on a real broker (R10)."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from effectively_once.errors import SinkError
from effectively_once.pipeline.sinks import MESSAGE_BYTES
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from tests.stack.conftest import Configure, Topic
from tests.stack.lines import SHARDS, Lines

pytestmark = pytest.mark.stack


@pytest.fixture
def lines(stack: EmbeddedStack, pipeline: str, tmp_path: Path) -> Lines:
    """Publish two epochs to a pipeline whose one sink is a topic."""
    made = Lines(stack, "postgresql://127.0.0.1:1/none", pipeline, tmp_path, job="narrow")
    made.create()
    made.start("first").run(2)
    return made


def test_a_rows_topic_that_was_made_anew_between_two_runs_is_refused(
    lines: Lines, topic: Topic, admin: AdminClient
) -> None:
    """All marks are where they should be, and all former output is gone."""
    lines.start("second").run(1)
    name = f"{lines.layout.pipeline}.accepted"
    admin.delete_topics([name])[name].result(30)
    wait_for("the topic gone", 30, lambda: name not in admin.list_topics(timeout=10).topics)
    topic(name, SHARDS, max_message_bytes=str(MESSAGE_BYTES))
    before = lines.head()
    with pytest.raises(SinkError, match=f"deleted and created again: its id was .*topic {name}.*restore"):
        lines.start("third")
    assert lines.head() == before, "nobody was fenced"


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_progress_topic_that_would_lose_its_marks_is_refused_until_it_is_mended(
    lines: Lines, configure: Configure, policy: str
) -> None:
    name = f"{lines.layout.pipeline}.accepted.progress"
    configure(name, cleanup_policy=policy)
    with pytest.raises(SinkError, match=f"cleanup.policy={policy}.*--topic {name} --add-config cleanup.policy=compact"):
        lines.start("second")
    configure(name, cleanup_policy="compact")
    lines.start("second").run(1)
