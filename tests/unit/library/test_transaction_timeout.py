"""How long the broker lets a transaction stay open is a setting, and every producer of a sink is opened with it."""

from __future__ import annotations

from typing import Any

import pytest

from effectively_once.epoch import publishing
from effectively_once.operate.dead_letters.dead_letter_topic import BEYOND_S, DeadLetterTopic
from effectively_once.sinks import kafka
from effectively_once_jobs.user_counts import pipeline
from tests.settings import pipeline_settings

SETTINGS = pipeline_settings(pipeline="counts")
OPENED: list[dict[str, Any]] = []


class Producer:
    """Notes what it was opened with."""

    def __init__(self, settings: dict[str, Any]) -> None:
        OPENED.append(settings)

    def list_topics(self, *_: Any, **__: Any) -> None: ...

    def init_transactions(self, *_: Any) -> None: ...


@pytest.mark.parametrize("seconds", [None, 10])
def test_a_producer_is_opened_with_the_setting(seconds: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "Producer", Producer)
    OPENED.clear()
    changed = {} if seconds is None else {"transaction_timeout_s": seconds}
    sink = publishing.open_sink(pipeline, SETTINGS.model_copy(update=changed), "accepted", 0, lambda _: None)
    sink._open(1)  # type: ignore[attr-defined]
    assert OPENED[0]["transaction.timeout.ms"] == (60_000 if seconds is None else 10_000)
    assert OPENED[0]["transactional.id"] == "counts.accepted.0"


def test_dead_letters_are_waited_for_longer_than_a_transaction_may_be_open() -> None:
    long = SETTINGS.model_copy(update={"transaction_timeout_s": 600})
    assert DeadLetterTopic(long)._silence_s == 600 + BEYOND_S
    assert DeadLetterTopic(long, silence_s=0.5)._silence_s == 0.5
