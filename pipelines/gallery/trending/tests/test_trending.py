"""Every five minutes each page has the views and visitors of the hour before, each view once."""

import json

import pytest

from effectively_once import Outputs, Trial, trial_session
from records import START_MS, lines
from trending import MINUTE_MS, pipeline

HOUR_MS = 60 * MINUTE_MS


@pytest.fixture(scope="module")
def published() -> Outputs:
    """All that 1,000 records come to, sent in five epochs."""
    found: Outputs = {}
    trial, sent = Trial(pipeline, trial_session()), lines(1000, seed=7)
    for first in range(0, 1000, 200):
        for sink, rows in trial.epoch(sent[first : first + 200]).items():
            found.setdefault(sink, []).extend(rows)
    return found


def test_a_result_has_the_views_of_its_hour_however_often_they_were_sent(published: Outputs) -> None:
    refused = {row["id"] for row in published["dead_letter"]}
    views = {view["id"]: view for view in map(json.loads, lines(1000, seed=7)) if view["id"] not in refused}.values()
    due = {}
    # The first hour has but five minutes with views. 800 records are 2:13, and a window closes five minutes late.
    for start_ms in range(START_MS - 55 * MINUTE_MS, START_MS + 70 * MINUTE_MS, 5 * MINUTE_MS):
        within = [view for view in views if start_ms <= view["event_time_ms"] < start_ms + HOUR_MS]
        for page in {view["page"] for view in within}:
            visitors = [view["visitor"] for view in within if view["page"] == page]
            due[page, start_ms] = (len(visitors), len(set(visitors)))
    found = {(row["page"], row["window_start_ms"]): (row["views"], row["visitors"]) for row in published["last_hour"]}
    assert found == due
    assert len(found) == len(published["last_hour"])


def test_a_view_of_no_page_or_an_hour_late_is_a_dead_letter(published: Outputs) -> None:
    assert {row["reason"] for row in published["dead_letter"]} == {"missing_page", "bad_page", "late"}
