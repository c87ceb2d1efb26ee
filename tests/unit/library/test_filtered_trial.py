"""A trial of a pipeline that leaves records out, without Spark: what its author sees of them."""

from __future__ import annotations

import pytest

from effectively_once import Count, Pipeline, ToKafka, Windowed
from effectively_once.errors import SettingsError
from tests.fuzz.rows import Row
from tests.fuzz.without_spark import plain_trial

PIPELINE = Pipeline(
    lambda frame: frame,
    "user string",
    rows=(ToKafka("accepted"),),
    windows=(Windowed("user", {"n": Count()}, ToKafka("per_user")),),
    window_ms=100,
    lateness_ms=0,
    filtered=("bot", "probe"),
)


def mark(row: Row) -> str | None:
    return row["user"] if row["user"] in ("bot", "probe", "boot") else None


def record(id_: str | None, user: str | None = "ann", time_ms: int = 5) -> dict[str, object]:
    return {"id": id_, "user": user, "event_time_ms": time_ms}


@pytest.mark.parametrize("shards", [1, 3])
def test_it_shows_what_is_left_out_and_a_repeat_shows_the_same(shards: int) -> None:
    records = [record("a", "bot", 900), record("a"), record("a"), record(None, "probe"), record("b", None)]
    with plain_trial(PIPELINE, shards, mark) as trial:
        outputs = trial.epoch(records)
        assert [row["source"][2] for row in outputs["accepted"]] == [1]
        assert [(row["source"][2], row["reason"]) for row in outputs["dead_letter"]] == [(4, "missing_user")]
        shown = [(row["source"][2], row["reason"]) for row in trial.filtered]
        assert shown == [(0, "bot"), (3, "probe")]
        counts = trial.last.counts
        assert trial.last.filtered == {"bot": 1, "probe": 1}
        assert (counts.read, counts.accepted, counts.duplicate, counts.malformed) == (5, 1, 1, 1)
        assert trial.watermark_ms == 5, "a time that is left out moves nothing"
        assert trial.repeat() == outputs
        assert [(row["source"][2], row["reason"]) for row in trial.filtered] == shown
        # The window closes with what was accepted in it.
        assert [row["id"] for row in trial.epoch([record("c", "ann", 500), record("a")])["accepted"]] == ["c"]
        assert (trial.last.filtered, trial.filtered) == ({}, [])
        (result,) = trial.epoch([])["per_user"]
        assert (result["user"], result["window_start_ms"], result["n"]) == ("ann", 0, 1)


def test_it_names_a_mark_that_is_not_declared() -> None:
    with plain_trial(PIPELINE, 2, mark) as trial, pytest.raises(SettingsError, match="records with 'boot', which"):
        trial.epoch([record("a"), record("b", "boot")])


def test_it_refuses_rows_that_are_gone_and_names_the_way_out() -> None:
    with plain_trial(PIPELINE, 1) as trial:
        trial._offset, trial._sent = 1, [("a record",)]
        with pytest.raises(SettingsError, match=r"0 rows for 1 records .*column filtered \(Pipeline\(filtered=...\)\)"):
            trial._one_a_record(PIPELINE.judged.empty_table())
