"""Any record through Spark's own reading of it: a trial publishes what plain Python makes of the same bytes."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from effectively_once import Trial
from tests.fuzz.chosen import RECORDS, drawn
from tests.fuzz.records import many
from tests.fuzz.trial_run import TrialRun
from tests.spark.fuzzed_job import pipeline

pytestmark = pytest.mark.spark

OUTCOMES = {
    "accepted",
    "duplicate",
    "late",
    "malformed",
    "duplicate_key",
    "bad_time",
    "missing_id",
    "bad_at",
    "bad_day",
    "bad_level",
    "bad_text",
    "results",
}
SHARDS = 2


def test_no_record_stops_a_trial(spark: SparkSession) -> None:
    """Neither reading them, nor judging, nor any sink."""
    run = TrialRun(Trial(pipeline, spark, SHARDS), pipeline, SHARDS)
    run.all([many(drawn(1), 800, far=False), many(drawn(2), 400, far=True)])
    assert (+run.outcomes).keys() >= OUTCOMES


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_no_record_of_a_hundred_thousand_stops_a_trial(spark: SparkSession) -> None:
    """In trials of 5,000: each ends with records of a far future, which close every window."""
    read = 0
    for seed in range(-(-RECORDS // 5_000)):
        run = TrialRun(Trial(pipeline, spark, SHARDS), pipeline, SHARDS)
        run.all([many(drawn(100 * seed + part), 1_000, far=part == 4) for part in range(5)])
        read += run.outcomes["read"]
    assert read >= RECORDS
