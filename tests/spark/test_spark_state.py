"""A pipeline whose state is Spark's own (R7, second kind): exact through kills, refused without its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from effectively_once.driver.stateful_plan import StatefulPlan, check, spark_refusal
from effectively_once.epoch.rows import KAFKA
from effectively_once.errors import SettingsError
from effectively_once.ledger.objects import Delete, body_of, run
from effectively_once.pipeline.job import Job, import_pipeline
from effectively_once.pipeline.pipeline import Pipeline
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.harness.checkers.reference import Outcome
from tests.settings import pipeline_settings
from tests.spark.attacked import HEAD, cases
from tests.spark.counted import JOB, PROCESSED_S, AttackedCounted, Counted, assert_counted
from tests.spark.outputs import rows
from tests.spark.records import late, mixture

pytestmark = [pytest.mark.spark, pytest.mark.core]

IN_TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "dedup_begun": ("dedup_begun", {"shard": 0}),
    "ids_decided": ("ids_decided", {"shard": 0}),
    "rows_kept": ("rows_kept", {"shard": 0}),
    "accepted_committed": ("committed", {"sink": "accepted", "shard": 0}),
    "dead_letter_published": ("published", {"sink": "dead_letter", "shard": 1}),
    "results_begun": ("windows_begun", {"shard": 1}),
    "results_open": ("transaction_open", {"sink": "user_counts", "shard": 1}),
    "results_committed": ("committed", {"sink": "user_counts", "shard": 1}),
}
IN_DRIVER: dict[str, tuple[str, dict[str, Any]]] = {
    "batch_planned": ("batch_planned", {}),
    "head_put": ("put", {"key": HEAD}),
    "declared": ("declared", {}),
    "job_done": ("job_done", {}),
    "recorded": ("epoch_published", {}),
}
CORE = ("recorded-driver",)
"""Repeated for its state alone, as in no other pipeline. The others need minutes and are left to `make test-all`."""
SEED, LATE = 7, 40
CHECKPOINT, STEP = 74, 71
ENDED_S = 90.0
LOCAL = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
Make = Callable[..., Counted]


@pytest.fixture(scope="module")
def new_counted(stack: EmbeddedStack, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Make a pipeline with topics of its own; its drivers are ended with the session."""
    made: list[Counted] = []

    def make(name: str, **settings: object) -> Counted:
        changes = {"job": JOB, **settings}
        counted = Counted(toolchain, stack.endpoints, tmp_path_factory.mktemp(name), name, changes)
        made.append(counted)
        counted.create_topics()
        return counted

    yield make
    for counted in made:
        counted.end()


@pytest.fixture(scope="module")
def attacked_counted(new_counted: Make) -> AttackedCounted:
    """One pipeline for all points."""
    return AttackedCounted.begun(new_counted("counted"), epochs=2)


@pytest.mark.parametrize("case", cases(IN_TASKS, IN_DRIVER, CORE))
def test_killed_at(attacked_counted: AttackedCounted, case: str) -> None:
    """Every output is exact after it; a driver that was killed between record and Spark's commit left both apart."""
    attacked, counted = attacked_counted, attacked_counted.pipeline

    def apart() -> None:
        if case.startswith("recorded-"):
            assert counted.head().declared is None
            assert max(counted.batches("commits")) == max(counted.batches("offsets")) - 1

    attacked.killed_at(case, {**IN_TASKS, **IN_DRIVER}, dead=apart)
    attacked.send()
    attacked.exact()


@pytest.mark.slow
def test_duplicates_and_late_records_over_several_epochs(new_counted: Make) -> None:
    """Results are those of the accepted rows, each window once, also after a stop in order; head has one lineage."""
    counted = new_counted("counted_all", epoch_rows_max=400)
    driver = counted.start()
    counted.send(mixture(SEED, 1200))
    counted.wait_processed(driver)
    counted.send(late(SEED, LATE))
    counted.wait_processed(driver)
    driver.stop(30)
    assert driver.status() == 0, driver.post_mortem()
    assert counted.head().declared is None
    again = counted.start()
    counted.send(mixture(SEED, 400, first=1200))
    counted.wait_processed(again)
    expected = assert_counted(counted)
    outcomes = [Outcome(outcome) for outcome in expected.outcomes]
    assert outcomes.count(Outcome.LATE) == LATE
    assert min(map(outcomes.count, (Outcome.DUPLICATE, Outcome.MALFORMED))) > 0
    assert len({record.lineage for record in counted.epochs()}) == 1
    again.stop(30)


@pytest.mark.slow
def test_a_result_that_no_sink_could_hold_is_a_dead_letter_and_nothing_stops(new_counted: Make) -> None:
    """Of every second user the mean is NaN: those results are dead letters, and all rows are published."""
    counted = new_counted("counted_unfit", job=f"{JOB}:unfit_pipeline")
    driver = counted.start()
    counted.send(mixture(SEED, 1200))
    counted.wait_processed(driver)
    counted.send(late(SEED, LATE))
    counted.wait_processed(driver)
    driver.stop(30)
    assert driver.status() == 0, driver.post_mortem()
    refused = [row for row in rows(counted, "dead_letter") if row["reason"] == "bad_result"]
    shown = rows(counted, "user_counts")
    assert {json.loads(row["value"])["bad_result"] for row in refused} == {"mean is not a finite number"}
    assert all(row["mean"] == 1.0 for row in shown)
    assert shown
    assert refused


@pytest.mark.slow
def test_a_first_start_on_an_idle_topic_publishes_an_epoch_of_nothing_and_goes_on(new_counted: Make) -> None:
    """Its first batch covers no record, so no task stands before the first step (R13)."""
    counted = new_counted("counted_idle")
    driver = counted.start()
    wait_for("an epoch of nothing", PROCESSED_S, lambda: bool(counted.events("epoch", state="published")), driver)
    counted.send(mixture(SEED, 200))
    counted.wait_processed(driver)
    assert_counted(counted)
    first = counted.epochs()[0]
    assert (first.epoch, first.reads_nothing, first.is_abandoned) == (0, True, False)
    driver.stop(30)


@pytest.fixture(scope="module")
def stopped(new_counted: Make) -> Counted:
    """Run a pipeline for two epochs, both committed, and stop it in order; each test leaves it as it was."""
    counted = new_counted("counted_stopped", epoch_rows_max=100)
    counted.send(mixture(SEED, 200))
    driver = counted.start()
    counted.wait_processed(driver)
    wait_for("Spark's commit", ENDED_S, lambda: counted.batches("commits") == [0, 1], driver)
    driver.stop(30)
    assert driver.status() == 0, driver.post_mortem()
    return counted


GONE = [
    ("", "it is gone"),
    pytest.param("offsets/1", "its batch 1 is not epoch 1 of the chain", marks=pytest.mark.slow),
    pytest.param("commits/", "commits/0 is missing", marks=pytest.mark.slow),
    pytest.param("state/", "the folder state/ is gone", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("gone", "says"), GONE)
def test_without_its_checkpoint_it_is_refused_by_name(stopped: Counted, gone: str, says: str) -> None:
    """Counting would begin anew, and nothing would tell: so the start ends with what to do."""
    kept = _delete(stopped, gone)
    _assert_refused(stopped, f"the state of the pipeline is in Spark's checkpoint, and {says}")
    _restore(stopped, kept)
    assert_counted(stopped)


@pytest.mark.slow
def test_state_that_is_damaged_is_refused_by_name_and_goes_on_when_it_is_restored(stopped: Counted) -> None:
    """Spark finds it out itself."""
    kept = _delete(stopped, "state/0/0/2")
    assert kept, "state has other names"
    stopped.send(mixture(SEED, 40, first=200))
    _assert_refused(stopped, "Spark cannot load its state: [")
    _restore(stopped, kept)
    driver = stopped.start()
    stopped.wait_processed(driver)
    assert_counted(stopped)
    driver.stop(30)


def _delete(counted: Counted, gone: str) -> dict[str, bytes]:
    kept = {}
    for name in list(counted.store.names(f"{counted.checkpoint}/{gone}")):
        body = run(body_of(name), counted.store)
        assert body is not None
        kept[name] = body
        counted.store.answer(Delete(name))
    return kept


def _restore(counted: Counted, kept: dict[str, bytes]) -> None:
    for name, body in kept.items():
        counted.overwrite(name, body)


def _assert_refused(counted: Counted, says: str) -> None:
    driver = counted.start()
    assert driver.wait(ENDED_S), driver.post_mortem()
    assert driver.status() == CHECKPOINT, driver.post_mortem()
    last = driver.log.read_text().rstrip("\n").rsplit("\n", 1)[-1]
    assert last.startswith(f"CheckpointError: {says}"), last
    assert "Put the objects of this folder back" in last


@pytest.mark.slow
def test_rows_that_sparks_watermark_drops_stop_the_job_by_name(new_counted: Make) -> None:
    """The epoch is not recorded, and Spark does not commit its batch: every start ends so."""
    counted = new_counted("counted_shifted", job="tests.spark.counted_job:shifted_pipeline")
    driver = counted.start()
    counted.send(mixture(SEED, 200))
    counted.wait_processed(driver)
    # Spark drops by the watermark of the batch before.
    counted.send(mixture(SEED, 200, first=1200))
    counted.wait_processed(driver)
    counted.send(mixture(SEED, 200, first=2400))
    assert driver.wait(ENDED_S), driver.post_mortem()
    assert driver.status() == STEP, driver.post_mortem()
    assert "StepError: Spark's watermark dropped " in driver.log.read_text().rstrip("\n").rsplit("\n", 1)[-1]
    assert counted.head().declared is not None
    assert max(counted.batches("commits")) < max(counted.batches("offsets"))


UNFIT = {
    "unclosed": "Spark does not take the stateful query: ",
    "delayed": "the function sets a watermark",
    "doubled": "the function uses its rows 2 times",
    "drawn": "the stateful query answers otherwise in a repeat: rand ",
    "renamed": "the function of the stateful query gives other columns than declared: number is not declared",
}


def source_of(spark: SparkSession, name: str) -> tuple[Pipeline, SparkSession, DataFrame]:
    """A declaration, a session of its own, and a stream of Kafka's columns."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.checkpointFileManagerClass", LOCAL)
    columns = [f.lit(None).cast(kind).alias(it) for it, kind in (pair.split() for pair in KAFKA.split(", "))]
    return import_pipeline(f"{JOB}:{name}_pipeline"), session, session.readStream.format("rate").load().select(*columns)


@pytest.mark.parametrize("name", UNFIT)
def test_a_function_that_cannot_work_is_refused_when_it_is_started(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """By a sentence; none of them is left to the first epoch that would go wrong."""
    found, session, source = source_of(spark, name)
    made = Job(found, pipeline_settings(**found.defaults))
    assert found.stateful is not None
    with pytest.raises(SettingsError, match=UNFIT[name]):
        check(found, session)
        frame = StatefulPlan(made, session).frame(source)
        try:
            frame.writeStream.format("noop").option("checkpointLocation", f"file:{tmp_path}").start().stop()
        except AnalysisException as error:
            raise spark_refusal(error, found.stateful) from error


def test_the_time_of_a_batch_is_no_chance_to_a_stateful_query(spark: SparkSession) -> None:
    """Spark pins it with the batch, and repeats the batch with it."""
    found, session, source = source_of(spark, "timed")
    check(found, session)
    assert StatefulPlan(Job(found, pipeline_settings(**found.defaults)), session).frame(source).isStreaming


@pytest.mark.slow
@pytest.mark.parametrize("name", ["accepted_committed", "results_open", "declared", "job_done", "recorded"])
def test_a_driver_that_was_replaced_while_held_changes_nothing(attacked_counted: AttackedCounted, name: str) -> None:
    """What it does when it wakes comes too late, or is the same."""
    attacked = attacked_counted
    point, where = {**IN_TASKS, **IN_DRIVER}[name]
    attacked.replaced_while_held(point, where)
    attacked.exact()
