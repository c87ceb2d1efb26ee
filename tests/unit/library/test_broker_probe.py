"""What a start warns of, and refuses, by the settings of topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from effectively_once.driver.broker_probe import TopicFacts, find_stalled, judge
from effectively_once.driver.metrics import Metrics
from effectively_once.errors import SinkError
from tests.settings import pipeline_settings

DAY_MS = 86_400_000
KEPT = TopicFacts(copies=3, in_sync=3, min_insync=2, retention_ms=7 * DAY_MS, retention_bytes=-1)


def warned(settings: dict[str, Any] | None = None, *, accepted: TopicFacts = KEPT, **of_input: int) -> list[str]:
    events = replace(KEPT, **of_input)
    found = judge(pipeline_settings(**(settings or {})), {"events": events, "clicks.accepted": accepted})
    assert all(given.what and given.todo and given.where.startswith("topic ") for given in found)
    return [f"{given.name} {given.where}" for given in found]


@pytest.mark.parametrize(
    ("retention_ms", "says"),
    [
        (DAY_MS + 120_000, []),
        (DAY_MS + 119_999, ["retention topic events"]),
        (0, ["retention topic events"]),
        (-1, []),
    ],
)
def test_an_input_that_is_kept_shorter_than_an_outage_and_lateness_is_warned_of(
    retention_ms: int, says: list[str]
) -> None:
    """A day by default, and two minutes of lateness; -1 is for ever."""
    assert warned(retention_ms=retention_ms) == says


def test_the_outage_is_stated() -> None:
    assert warned({"outage_ms": 1_000}, retention_ms=130_000) == []
    assert warned({"outage_ms": 8 * DAY_MS}) == ["retention topic events"]


def test_an_input_that_is_cut_by_size_is_warned_of() -> None:
    assert warned(retention_bytes=1 << 30) == ["retention_bytes topic events"]


def test_only_the_inputs_time_counts() -> None:
    """What a sink's topic keeps is for its readers to say."""
    assert warned(accepted=replace(KEPT, retention_ms=1_000)) == []


def test_one_replica_of_several_that_acknowledges_alone_is_warned_of() -> None:
    one = replace(KEPT, min_insync=1)
    assert warned(accepted=one) == ["min_insync topic clicks.accepted"]
    assert warned(min_insync=1) == ["min_insync topic events"]
    assert warned(accepted=replace(one, copies=1)) == []


def test_a_sink_that_could_commit_nothing_is_refused() -> None:
    with pytest.raises(SinkError, match=r"min\.insync\.replicas is 2 and .* has 1 replicas.*clicks\.accepted"):
        warned(accepted=replace(KEPT, copies=1))


def test_a_sink_that_takes_nothing_for_now_is_named_and_the_input_is_not() -> None:
    """The start goes on: a replica that comes back mends it, and nothing of ours is written to the input."""
    away = replace(KEPT, in_sync=1)
    assert find_stalled(pipeline_settings(), {"events": away, "clicks.accepted": away}) == ["clicks.accepted"]
    assert find_stalled(pipeline_settings(), {"events": KEPT, "clicks.accepted": replace(KEPT, in_sync=2)}) == []


def test_warnings_are_a_metric() -> None:
    metrics = Metrics("uc")
    metrics.show_warnings(["retention"])

    def value(name: str) -> float | None:
        labels = {"pipeline": "uc", "warning": name}
        return metrics.registry.get_sample_value("effectively_once_start_warning", labels)

    assert (value("retention"), value("min_insync")) == (1, 0)
    metrics.show_warnings([])
    assert value("retention") == 0
