"""Sessions are those that plain Python finds in the accepted views; a trial cannot keep Spark's state, and says so."""

from collections import defaultdict
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from effectively_once import Outputs, PipelineError, Trial, trial_session
from records import lines
from sessions import pipeline, sessions

GAP_MS = 30 * 60_000


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return trial_session()


@pytest.fixture(scope="module")
def published(spark: SparkSession) -> Outputs:
    """What the same pipeline publishes without its state."""
    found: Outputs = {}
    trial, sent = Trial(replace(pipeline, stateful=None), spark), lines(1000, seed=7)
    for first in range(0, 1000, 200):
        for sink, rows in trial.epoch(sent[first : first + 200]).items():
            found.setdefault(sink, []).extend(rows)
    return found


def test_a_session_ends_after_half_an_hour_without_a_view(spark: SparkSession, published: Outputs) -> None:
    times: dict[str, list[list[int]]] = defaultdict(list)
    for view in sorted(published["views"], key=lambda view: view["event_time_ms"]):
        of_user = times[view["user"]]
        if not of_user or view["event_time_ms"] - of_user[-1][-1] >= GAP_MS:
            of_user.append([])
        of_user[-1].append(view["event_time_ms"])
    due = {(user, some[0], some[-1], len(some)) for user, of_user in times.items() for some in of_user}
    views = [(view["user"], view["event_time_ms"]) for view in published["views"]]
    rows = spark.createDataFrame(views, "user string, event_time_ms long")
    found = sessions(rows.withColumn("event_time", f.timestamp_millis("event_time_ms")))
    ms = found.select("user", f.unix_millis("began"), f.unix_millis("last_view"), "views")
    assert {tuple(row) for row in ms.collect()} == due
    assert len(due) > len(times)


def test_a_view_is_accepted_once_and_one_of_nobody_is_a_dead_letter(published: Outputs) -> None:
    accepted = [view["id"] for view in published["views"]]
    assert len(accepted) == len(set(accepted)) < 1000
    assert {row["reason"] for row in published["dead_letter"]} == {"missing_user", "bad_user", "late"}


def test_a_trial_refuses_state_of_sparks_own(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="a trial has no state of Spark's own"):
        Trial(pipeline, spark)
