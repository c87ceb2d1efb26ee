"""The plan of a pipeline with Spark's own state (R7), made once at the start, and what the driver asks of it.

Source -> judged, in shards -> first step (`stateful_step`) -> watermark -> the author's operators -> foreachBatch.
"""

from __future__ import annotations

from typing import Any

from pyspark import AccumulatorParam
from pyspark.errors import AnalysisException, PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.streaming import StreamingQuery

from effectively_once.driver import spark_state
from effectively_once.driver.checkpoints import WAYS_OUT
from effectively_once.epoch import chance, rows
from effectively_once.epoch.plan import each, plan_of
from effectively_once.epoch.stateful_step import PROPERTY, Errand, FirstStep, Notes, notes_of, spark_delay_ms
from effectively_once.errors import CheckpointError, SettingsError, StepError
from effectively_once.pipeline.job import Job
from effectively_once.pipeline.pipeline import Pipeline
from effectively_once.pipeline.stateful import EVENT_TIME, Stateful

DROPPED = "numRowsDroppedByWatermark"
_LOST = ("CANNOT_LOAD_STATE_STORE", "FAILED_TO_READ_STREAMING_STATE", "FAILED_READ_FILE", "INVALID_CHANGE_LOG_READER")


class StatefulPlan:
    """The static plan of one driver.

    Args:
        job: the pipeline.
        spark: its session; settings are made in it.

    """

    def __init__(self, job: Job, spark: SparkSession) -> None:
        assert job.pipeline.stateful is not None  # noqa: S101 - the driver asked
        self._job, self._spark, self._stateful = job, spark, job.pipeline.stateful
        for name, value in spark_state.settings(job.settings.shards).items():
            spark.conf.set(name, value)
        self._notes: Any = spark.sparkContext.accumulator({}, _ByShard())
        self._query: StreamingQuery | None = None

    def frame(self, source: DataFrame) -> DataFrame:
        """Build the plan on the stream of Kafka's rows.

        Raises:
            SettingsError: the function fails, gives other columns, uses the rows more than once, or has chance in it.

        """
        job, pipeline = self._job, self._job.pipeline
        judged = rows.in_shards(pipeline, rows.judge(pipeline, source), job.settings.shards)
        first = FirstStep(pipeline, job.settings, self._notes.add)
        accepted = judged.mapInArrow(first, from_arrow_schema(pipeline.row_schema))
        timed = accepted.withColumn(EVENT_TIME, f.timestamp_millis("event_time_ms")).withWatermark(
            EVENT_TIME, f"{spark_delay_ms(job.settings)} milliseconds"
        )
        results = _call(self._stateful, timed)
        # Spark repeats a batch by itself, at the time that the batch has.
        chance.refuse(results, "the stateful query", rows.where(self._stateful.function), clocks=False)
        used = _streams(results)
        if used != 1:
            raise SettingsError(
                f"the function uses its rows {used} times",
                rows.where(self._stateful.function),
                "Use them once: each use would be a run of its own of everything before it.",
            )
        if plan_of(results).toString().count("EventTimeWatermark ") != 1:
            raise SettingsError(
                "the function sets a watermark",
                rows.where(self._stateful.function),
                f"Leave it out: {EVENT_TIME} has one, and it is the chain's.",
            )
        return results

    def keep_query(self, query: StreamingQuery) -> None:
        """Keep the query, whose operators are asked after each batch."""
        self._query = query

    def hand(self, errand: Errand) -> None:
        """Tell the tasks of the batch that this thread is about to run what its epoch pins."""
        number = errand.declaration.epoch
        self._notes.value = {where: note for where, note in dict(self._notes.value).items() if where[0] == number}
        self._spark.sparkContext.setLocalProperty(PROPERTY, errand.encode())

    def notes(self, epoch: int) -> tuple[list[int], list[dict[str, Any]]]:
        """Shards whose first step is done, and what it told."""
        found: Notes = self._notes.value
        return notes_of(found, epoch)

    def refuse_dropped(self, epoch: int) -> None:
        """After a batch was run, and before its epoch is recorded: no operator may have dropped a row as too late.

        Raises:
            StepError: one has.

        """
        assert self._query is not None  # noqa: S101 - keep_query() comes before the first batch
        plan = self._query._jsq.streamingQuery().lastExecution().executedPlan()
        dropped = sum(_metric(plan, DROPPED))
        if dropped:
            raise StepError(
                f"Spark's watermark dropped {dropped} rows that were in time",
                f"epoch {epoch}, {rows.where(self._stateful.function)}",
                f"Let its operators go by {EVENT_TIME} alone. The epoch is not recorded; what it published stays.",
            )


def check(pipeline: Pipeline, spark: SparkSession) -> None:
    """Try the function on no rows.

    Raises:
        SettingsError: it fails, or gives other columns than were declared.

    """
    stateful = pipeline.stateful
    assert stateful is not None  # noqa: S101 - the driver asked
    none = spark.createDataFrame([], from_arrow_schema(pipeline.row_schema))
    given = _call(stateful, none.withColumn(EVENT_TIME, f.timestamp_millis("event_time_ms"))).schema
    found = {field.name: field.dataType for field in given}
    wrong = [f"{name} is not declared" for name in found if name not in stateful.schema.names]
    for column in stateful.schema:
        try:
            kind = to_arrow_type(found[column.name], timezone="UTC") if column.name in found else None
        except PySparkTypeError:
            kind = None
        if column.name not in found:
            wrong.append(f"{column.name} is missing")
        elif kind != column.type:
            wrong.append(f"{column.name} is {found[column.name].simpleString()} and must be {column.type}")
    if list(found) != stateful.schema.names and not wrong:
        wrong.append(f"the order is {', '.join(found)} and must be {', '.join(stateful.schema.names)}")
    if wrong:
        raise SettingsError(
            f"the function of the stateful query gives other columns than declared: {'; '.join(wrong)}",
            rows.where(stateful.function),
            "Correct it, or the declared schema.",
        )


def state_error(error: BaseException) -> CheckpointError | None:
    """Name a failure to load state; None for any other."""
    text = str(error)
    found = next((name for name in _LOST if f"[{name}" in text), None)
    if found is None:
        return None
    line = text[text.index(f"[{found}") :].partition("\n")[0].strip()
    return CheckpointError(f"Spark cannot load its state: {line[:300]}", "checkpoint of the pipeline", WAYS_OUT)


class _ByShard(AccumulatorParam):  # type: ignore[misc]
    """Merged so that a task which runs again adds nothing."""

    def zero(self, value: Notes) -> Notes:  # noqa: ARG002 - Spark's signature
        return {}

    def addInPlace(self, value1: Notes, value2: Notes) -> Notes:  # noqa: N802 - Spark's name
        return {**value1, **value2}


def _call(stateful: Stateful, frame: DataFrame) -> DataFrame:
    try:
        given = stateful.function(frame)
        if not isinstance(given, DataFrame):
            raise TypeError(f"it gives {type(given).__name__}, no data frame")
        given.schema  # noqa: B018 - asks Spark to analyse it
    except Exception as error:
        line = str(error).strip().partition("\n")[0][:300]
        raise SettingsError(
            f"the function of the stateful query fails on no rows: {type(error).__name__}: {line}",
            rows.where(stateful.function),
            "Correct it.",
        ) from error
    return given


def spark_refusal(error: AnalysisException, stateful: Stateful) -> SettingsError:
    """Name Spark's refusal to run the query as a stream in append mode."""
    return SettingsError(
        f"Spark does not take the stateful query: {str(error).strip().partition(chr(10))[0][:300]}",
        rows.where(stateful.function),
        "Correct it: what it gives must be final when it is given (append mode).",
    )


def _streams(frame: DataFrame) -> int:
    return sum(bool(leaf.isStreaming()) for leaf in each(plan_of(frame).collectLeaves()))


def _metric(plan: Any, name: str) -> list[int]:
    found = plan.metrics().get(name)
    mine = [int(found.get().value())] if found.isDefined() else []
    return mine + [value for child in each(plan.children()) for value in _metric(child, name)]
