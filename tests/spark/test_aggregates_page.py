"""The example of docs/reference/aggregates.md as a trial: its transform in Spark, and everything behind it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from effectively_once import Trial
from tests.unit.library.aggregates_page import ORDERS, RESULT, declared

pytestmark = [pytest.mark.spark, pytest.mark.core]


def test_the_example_of_the_page_is_published_as_it_shows(spark: SparkSession) -> None:
    trial = Trial(declared(), spark, 2)
    trial.epoch(ORDERS[:2])
    closer = {**ORDERS[0], "id": "closer", "event_time_ms": 10**9}
    (refused,) = trial.epoch([*ORDERS[2:], closer, {**closer, "id": "bad", "amount": "1,50"}])["dead_letter"]
    assert refused["reason"] == "missing_amount"
    outputs = trial.epoch([])
    assert outputs["per_day"] == [RESULT]
    assert trial.repeat() == outputs
