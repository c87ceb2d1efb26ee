"""A server that was away has its name (exit code 69) also where Spark's JVM met it alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from effectively_once.driver import main
from effectively_once.driver.driver import Driver
from effectively_once.driver.outage import outage
from effectively_once.errors import AccessError, CheckpointError, PipelineError, StaleDriverError, UnreachableError
from tests.settings import pipeline_settings
from tests.unit.library.test_main import Process

STORE, BROKER = "http://store:9000", "broker:9092"
PUT = "object store: conditional PUT of bucket/clicks/checkpoints/l1/offsets/7 failed: "
SILENT = "Unable to execute HTTP request: Connect to store:9000 failed: Connection refused (SDK Attempt Count: 18)"
TIMEOUT = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listOffsets"


class CapturedError(Exception):
    """As PySpark hands an exception of the JVM on: its causes are in the trace alone."""

    def __init__(self, said: str, trace: str = "") -> None:
        super().__init__(said)
        self._stackTrace = trace


def failed(said: str) -> str:
    return f"[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {said} SQLSTATE: XXKST"


@pytest.mark.parametrize(
    "said",
    [
        SILENT,
        "made by the fault link (Service: S3, Status Code: 503, Request ID: null) (SDK Attempt Count: 20)",
        "(Service: S3, Status Code: 409, Request ID: null)",
        "Acquire operation took longer than the configured maximum time.",
    ],
)
def test_a_store_that_does_not_answer_the_checkpoint_is_named(said: str) -> None:
    for error in (
        CapturedError(failed(PUT + said)),
        CapturedError(
            "Job aborted.",
            f"org.apache.spark.SparkException: Job aborted.\nCaused by: java.io.IOException: {PUT}{said}",
        ),
    ):
        found = outage(error, STORE, BROKER)
        assert isinstance(found, UnreachableError)
        assert found.where == STORE
        assert "conditional PUT of bucket/clicks/checkpoints/l1/offsets/7" in found.what


@pytest.mark.parametrize(
    "said",
    [
        "no room (Service: S3, Status Code: 507, Request ID: null)",
        "Storage backend has reached its minimum free drive threshold. Please delete a few objects to proceed. "
        "(Service: S3, Status Code: 507, Request ID: 1) (SDK Attempt Count: 20)",
        "XMinioStorageFull (Service: S3, Status Code: 500, Request ID: 1)",
        "StorageFull (Service: S3, Status Code: 503, Request ID: 1)",
        "it reached its minimum free drive threshold (Service: S3, Status Code: 500, Request ID: 1)",
    ],
)
def test_a_store_without_room_is_named_as_full_and_not_as_silent(said: str) -> None:
    found = outage(CapturedError(failed(PUT + said)), STORE, BROKER)
    assert isinstance(found, UnreachableError)
    assert found.where == STORE
    assert found.what.startswith("the object store has no room left and takes no conditional PUT of bucket/clicks/")
    assert found.todo.startswith("Make room on its disk")


def test_a_folder_of_logs_that_a_broker_lost_is_named_with_the_way_out() -> None:
    said = (
        "org.apache.kafka.common.errors.KafkaStorageException: Disk error when trying to access log file on the disk."
    )
    found = outage(CapturedError(failed("boom"), f"x\nCaused by: {said}\n\tat y"), STORE, BROKER)
    assert isinstance(found, UnreachableError)
    assert found.where == BROKER
    assert found.what.startswith("a disk of the Kafka broker is full or failed: Disk error")
    assert "kafka-log-dirs.sh" in found.todo


def test_the_cause_of_an_error_of_our_own_is_looked_at_too() -> None:
    try:
        try:
            raise CapturedError(failed(PUT + SILENT))
        except CapturedError as cause:
            raise RuntimeError("the query ended") from cause
    except RuntimeError as error:
        assert isinstance(outage(error, STORE, BROKER), UnreachableError)


@pytest.mark.parametrize("code", [401, 403])
def test_a_store_that_refuses_is_no_outage(code: int) -> None:
    said = f"Access Denied (Service: S3, Status Code: {code}, Request ID: 1)"
    found = outage(CapturedError(failed(PUT + said)), STORE, BROKER)
    assert isinstance(found, AccessError)


@pytest.mark.parametrize(
    "said", [TIMEOUT, TIMEOUT.replace("Timeout", "Disconnect"), TIMEOUT.replace("Timeout", "Network")]
)
def test_a_broker_that_does_not_answer_sparks_source_is_named(said: str) -> None:
    found = outage(CapturedError(failed("boom"), f"x\nCaused by: {said}\n\tat y"), STORE, BROKER)
    assert isinstance(found, UnreachableError)
    assert found.where == BROKER


@pytest.mark.parametrize(
    "said",
    [
        "checkpoint object s3://bucket/a does not exist",
        f"{PUT}(Service: S3, Status Code: 400, Request ID: 1)",
        f"{PUT}(Service: S3, Status Code: 501, Request ID: 1)",
        "java.lang.NullPointerException",
        "org.apache.kafka.common.errors.RecordTooLargeException: it is large",
    ],
)
def test_all_else_has_no_name(said: str) -> None:
    assert outage(CapturedError(failed(said), f"java.lang.RuntimeException: {said}"), STORE, BROKER) is None


class Named(Driver):
    """A driver without servers."""

    def __init__(self, plan: Any = None, ours: PipelineError | None = None) -> None:
        self.settings = pipeline_settings(s3_endpoint=STORE, kafka_bootstrap=BROKER)
        self.failure, self._ours = None, ours
        self.epoch_job: Any = SimpleNamespace(plan=plan)
        self.chain: Any = SimpleNamespace(still_ours=self._still_ours)

    def _still_ours(self) -> None:
        if self._ours is not None:
            raise self._ours


def test_a_driver_names_what_ended_its_query() -> None:
    """The store may be back by then: head is read."""
    assert isinstance(Named().name_error(CapturedError(failed(PUT + SILENT))), UnreachableError)
    assert Named().name_error(CapturedError(failed("boom"))) is None


def test_a_driver_that_was_replaced_says_that_first() -> None:
    why = StaleDriverError("driver a was replaced by b", "head", "Nothing.")
    assert Named(ours=why).name_error(CapturedError(failed(PUT + SILENT))) is why


def test_state_that_could_not_be_read_in_an_outage_is_not_told_to_be_lost() -> None:
    said = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state."
    trace = f"{said}\nCaused by: java.io.IOException: {PUT}{SILENT}"
    plan = SimpleNamespace()
    assert isinstance(Named(plan).name_error(CapturedError(failed(said), trace)), UnreachableError)
    assert isinstance(Named(plan).name_error(CapturedError(failed(said), said)), CheckpointError)


def test_a_start_that_finishes_an_epoch_ends_with_the_name_of_what_was_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(_: Any) -> None:
        raise CapturedError(failed(PUT + SILENT))

    work, process = main._work, Process(monkeypatch, standby=False)
    monkeypatch.setattr(main, "_work", work)
    process.driver.start, process.driver.name_error = start, Named().name_error
    assert process.run() == UnreachableError.exit_code
    assert process.order[-1] == "session stops"
    assert capsys.readouterr().err.startswith("UnreachableError: the object store does not answer a conditional PUT")
