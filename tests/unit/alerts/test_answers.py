"""What Prometheus and Alertmanager answer, as it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.alerts.answers import (
    Active,
    AnswerError,
    Target,
    list_active,
    list_received,
    list_targets,
    read_data,
    read_health,
    read_rows,
)


def test_an_error_and_what_is_no_answer_are_told_with_what_was_asked() -> None:
    assert read_data(b'{"status": "success", "data": {"a": 1}}', "up") == {"a": 1}
    with pytest.raises(AnswerError, match="sum\\(: bad_data: parse error"):
        read_data(b'{"status": "error", "errorType": "bad_data", "error": "parse error"}', "sum(")
    for body in (b"", b"<html>", b"[]", b'{"status": "success"}'):
        with pytest.raises(AnswerError, match="up: Prometheus answered"):
            read_data(body, "up")


def test_an_alert_that_is_pending_does_not_fire() -> None:
    labels = {"alertname": "DriverAway", "pipeline": "uc", "severity": "critical"}
    told = {"alerts": [{"labels": labels, "state": state} for state in ("pending", "firing")]}
    assert list_active(told) == [Active(labels, fires=False), Active(labels, fires=True)]
    assert list_active(told)[1].says == "DriverAway {'pipeline': 'uc'}"


def test_a_target_that_does_not_answer_says_why() -> None:
    labels = {"job": "minio", "instance": "minio:9000"}
    told: list[dict[str, Any]] = [
        {"labels": labels, "health": "down", "lastError": "refused"},
        {"labels": labels, "health": "up", "lastError": ""},
        # It was not asked yet.
        {"labels": labels, "health": "unknown"},
    ]
    assert list_targets({"activeTargets": told}) == [
        Target("minio", "minio:9000", up=False, error="refused"),
        Target("minio", "minio:9000", up=True, error=""),
        Target("minio", "minio:9000", up=False, error=""),
    ]


def test_a_rule_that_fails_or_was_never_evaluated_is_not_healthy() -> None:
    rules = [
        {"type": "alerting", "name": "A", "health": "ok"},
        {"type": "alerting", "name": "B", "health": "err", "lastError": "many-to-many"},
        {"type": "alerting", "name": "C", "health": "unknown"},
        {"type": "recording", "name": "D", "health": "err"},
    ]
    health = read_health({"groups": [{"rules": rules}]})
    assert health == {"A": "", "B": "err: many-to-many", "C": "unknown: not evaluated"}


def test_rows_are_of_a_vector_alone() -> None:
    told = {"resultType": "vector", "result": [{"metric": {"pod": "x"}, "value": [1.5, "2"]}]}
    assert read_rows(told) == [({"pod": "x"}, 2.0)]
    with pytest.raises(AnswerError, match="type matrix"):
        read_rows({"resultType": "matrix", "result": []})


def test_of_an_alert_that_is_active_and_inhibited_the_first_counts() -> None:
    told = [
        {"labels": {"alertname": name}, "status": {"state": state}}
        for name, state in (("A", "active"), ("A", "suppressed"), ("B", "suppressed"))
    ]
    assert list_received(json.dumps(told).encode()) == {"A": "active", "B": "suppressed"}
    with pytest.raises(AnswerError, match="Alertmanager answered"):
        list_received(b"{}x")
