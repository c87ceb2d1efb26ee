"""A shard decides on its whole input or on nothing (R13), however Spark's side of its task ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from effectively_once.epoch import rows, task_token, whole_input
from effectively_once.errors import EndedTaskError, InputError
from infra.embedded.process import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.core]
ROWS, SHARDS = 30_000, 2
DIGESTED = ("partition", "offset")
BROKEN = 23_456
"""Offset of a row that cannot be had: some batches have been handed over by then."""
Batches = Iterable[pa.RecordBatch]
Required = Callable[[Batches], list[pa.RecordBatch]]
BY_INPUT: Required = partial(whole_input.require, digested=DIGESTED, where="test")
BY_KEY: Required = partial(whole_input.require, digested=(), where="test")


def source(spark: SparkSession) -> DataFrame:
    """Rows on their way to the first step, from four tasks."""
    return spark.range(0, ROWS, 1, 4).selectExpr(
        "'t' AS topic",
        "CAST(id % 4 AS INT) AS partition",
        "id AS offset",
        f"CAST(id % {SHARDS} AS INT) AS shard",
        "CONCAT('u', id % 37) AS user",
    )


def breaking(frame: DataFrame) -> DataFrame:
    """The same, up to a row that stands for a shuffle block that cannot be fetched."""
    broken = f"CASE WHEN offset = {BROKEN} THEN CAST(raise_error('no block') AS LONG) ELSE offset END AS offset"
    return frame.selectExpr(*(broken if name == "offset" else name for name in frame.columns))


def decide(batches: Batches, folder: Path, required: Required) -> Iterator[pa.RecordBatch]:
    """A step that writes down on how many rows it decides, or that it was refused its input."""
    told = folder / str(TaskContext.get().taskAttemptId())
    try:
        number = sum(batch.num_rows for batch in required(batches))
    except InputError as error:
        told.write_text(f"refused: {error}")
        raise
    told.write_text(str(number))
    yield pa.RecordBatch.from_pydict({"n": pa.array([number], pa.int64())})


def refused(text: str) -> bool:
    return "is not whole" in text


def part(text: str) -> bool:
    return 0 < int(text) < ROWS // SHARDS


def outcomes(frame: DataFrame, folder: Path, required: Required, broken: Callable[[str], bool] = refused) -> list[str]:
    """Run the step on every shard; what each attempt wrote down, that of a broken one among it."""
    step = partial(decide, folder=folder, required=required)
    try:
        frame.mapInArrow(step, "n long").collect()
    except PySparkException as error:
        assert "no block" in str(error)
        # The worker of the task that broke goes on when Spark has given the job up.
        wait_for("the broken shard", 30, lambda: any(map(broken, _read_refusals(folder))))
    return _read_refusals(folder)


def _read_refusals(folder: Path) -> list[str]:
    return sorted(text for path in folder.iterdir() if (text := path.read_text()))


def by_shard(spark: SparkSession) -> DataFrame:
    return whole_input.bring_together(source(spark), "shard", SHARDS, DIGESTED)


def by_user(spark: SparkSession) -> DataFrame:
    return rows.by_key(source(spark), "user", SHARDS)


@pytest.mark.parametrize(("frame", "required"), [(by_shard, BY_INPUT), (by_user, BY_KEY)])
def test_shards_get_all_rows_of_all_tasks(
    spark: SparkSession, tmp_path: Path, frame: Callable[[SparkSession], DataFrame], required: Required
) -> None:
    """And none of the closing rows; both sides make one digest."""
    assert sum(map(int, outcomes(frame(spark), tmp_path, required))) == ROWS


def test_input_that_ends_early_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """The shard whose task broke decides nothing; the other one, if Spark let it, on all of its rows."""
    found = outcomes(breaking(by_shard(spark)), tmp_path, BY_INPUT)
    assert {text for text in found if not refused(text)} <= {str(ROWS // SHARDS)}


def test_partials_that_end_early_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """The second step likewise."""
    (before := tmp_path / "before").mkdir()
    whole = outcomes(by_user(spark), before, BY_KEY)
    (broken := tmp_path / "broken").mkdir()
    found = outcomes(breaking(by_user(spark)), broken, BY_KEY)
    assert {text for text in found if not refused(text)} <= {*whole}


def test_without_the_proof_a_shard_decides_on_a_part(spark: SparkSession, tmp_path: Path) -> None:
    """The hole itself: Arrow takes a pipe that is closed between two batches for the end of the stream."""
    assert any(map(part, outcomes(breaking(by_shard(spark)), tmp_path, list, part)))


def test_killed_task_stops_before_it_shows(spark: SparkSession, tmp_path: Path) -> None:
    """The worker of a task that was cancelled learns it, though Spark has not ended it yet."""

    def wait(batches: Batches) -> Iterator[pa.RecordBatch]:
        attempt = TaskContext.get().taskAttemptId()
        yield from batches
        task_token.confirm(attempt, "test")
        (tmp_path / "begun").touch()
        try:
            while True:
                task_token.confirm(attempt, "test")
        except EndedTaskError as error:
            (tmp_path / "refused").write_text(str(error))
            raise

    def run() -> None:
        spark.sparkContext.setJobGroup("killed", "killed", interruptOnCancel=True)
        with pytest.raises(Exception, match="cancelled"):
            source(spark).limit(10).repartition(1).mapInArrow(
                wait, "topic string, partition int, offset long, shard int, user string"
            ).collect()

    job = Thread(target=run)
    job.start()
    wait_for("the task", 60, (tmp_path / "begun").exists)
    spark.sparkContext.cancelJobGroup("killed")
    wait_for("its refusal", 30, (tmp_path / "refused").exists)
    job.join(30)
    assert not job.is_alive()
