"""A machine without disk or memory is named, with whose it is and the setting that gives more."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from effectively_once.driver import main
from effectively_once.driver.outage import outage
from effectively_once.driver.shortage import name_shortage
from effectively_once.errors import ShortageError, UnreachableError
from tests.unit.library.test_main import Process
from tests.unit.library.test_outage import BROKER, PUT, STORE, CapturedError, failed

FULL = "No space left on device"
TASK = "Lost task 0.15 in stage 3.0 (TID 41) (10.1.2.3 executor 5): "
LOST = "ExecutorLostFailure (executor 7 exited caused by one of the running tasks) Reason: "
OF_KUBERNETES = (
    "The executor with id 7 exited with exit code 137(SIGKILL, possible container OOM).\n\nThe API gave the following "
    "container statuses:\n\n\t container name: executor\n\t container state: terminated\n\t exit code: 137\n\t "
    "termination reason: OOMKilled"
)
DRIVER_OVERHEAD = "pipelines.<name>.driver.memory_overhead_mib (spark.driver.memoryOverhead)"
EXECUTOR_HEAP = "pipelines.<name>.executors.memory_mib (spark.executor.memory)"
EXECUTOR_OVERHEAD = "pipelines.<name>.executors.memory_overhead_mib (spark.executor.memoryOverhead)"
KILLED = "was killed, as a container is that takes more memory than its limit: "


def named(text: str) -> ShortageError:
    found = name_shortage(text)
    assert isinstance(found, ShortageError)
    assert found.exit_code == 68
    assert "nothing was lost" in found.todo.lower()
    return found


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        (f"OSError: [Errno 28] {FULL}: '/scratch/a b'", f"the driver cannot write: {FULL}", "/scratch/a b"),
        (
            f"java.io.FileNotFoundException: /var/data/spark-1/temp_shuffle ({FULL})",
            f"the driver cannot write: {FULL}",
            "/var/data/spark-1/temp_shuffle",
        ),
        (
            f"Job aborted due to stage failure: {TASK}java.io.IOException: {FULL}",
            f"executor 5 cannot write: {FULL}",
            "host 10.1.2.3",
        ),
        (
            f"{TASK}org.apache.spark.api.python.PythonException: Traceback\nOSError: [Errno 122] Disk quota exceeded",
            "executor 5 cannot write: Disk quota exceeded",
            "host 10.1.2.3",
        ),
        (
            f"Lost task 0.0 in stage 0.0 (TID 0) (here executor driver): java.io.IOException: {FULL}",
            f"the driver cannot write: {FULL}",
            "host here",
        ),
        (f"java.io.IOException: {FULL}", f"the driver cannot write: {FULL}", "machine or pod of the driver"),
    ],
)
def test_a_disk_without_room_is_named_with_host_and_folder(text: str, what: str, where: str) -> None:
    found = named(text)
    assert (found.what, found.where) == (what, where)
    assert found.todo.startswith("Make room on that disk")
    assert "spark.local.dir" in found.todo


def test_a_disk_that_takes_no_writes_is_another_way_out() -> None:
    found = named(f"{TASK}java.nio.file.FileSystemException: /var/data/x: Read-only file system")
    assert found.what == "executor 5 cannot write, its file system is read-only"
    assert found.todo.startswith("Mount it writable")


@pytest.mark.parametrize(
    ("text", "what", "setting"),
    [
        (
            "java.lang.OutOfMemoryError: Java heap space\n\tat x",
            "the JVM of the driver has no memory left: OutOfMemoryError: Java heap space",
            "pipelines.<name>.driver.memory_mib (spark.driver.memory)",
        ),
        (
            f"{TASK}java.lang.OutOfMemoryError: GC overhead limit exceeded",
            "the JVM of executor 5 has no memory left: OutOfMemoryError: GC overhead limit exceeded",
            EXECUTOR_HEAP,
        ),
        (
            f"{TASK}java.lang.OutOfMemoryError: Cannot reserve bytes of Direct buffer memory",
            "the JVM of executor 5 has no memory left",
            EXECUTOR_OVERHEAD,
        ),
        (
            f"{TASK}org.apache.arrow.memory.OutOfMemoryException: Unable to allocate buffer",
            "the JVM of executor 5 has no memory left",
            EXECUTOR_OVERHEAD,
        ),
        (
            f"{TASK}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\nMemoryError",
            "the Python of executor 5 has no memory left: MemoryError",
            EXECUTOR_OVERHEAD,
        ),
        (
            f"{TASK}PythonException: Traceback:\npyarrow.lib.ArrowMemoryError: malloc of size 64 failed",
            "the Python of executor 5 has no memory left: pyarrow.lib.ArrowMemoryError",
            EXECUTOR_OVERHEAD,
        ),
        (f"{LOST}{OF_KUBERNETES}", f"executor 7 {KILLED}exited with exit code 137", EXECUTOR_OVERHEAD),
        (OF_KUBERNETES.partition("exit code: 137")[2], f"the driver {KILLED}OOMKilled", DRIVER_OVERHEAD),
        (f"{LOST}Command exited with code 137", f"executor 7 {KILLED}exited with code 137", EXECUTOR_OVERHEAD),
        (f"{LOST}Command exited with code 52", f"executor 7 {KILLED}exited with code 52", EXECUTOR_HEAP),
    ],
)
def test_memory_that_ran_out_names_the_setting_that_gives_more(text: str, what: str, setting: str) -> None:
    found = named(text)
    assert found.what.startswith(what)
    assert f"Raise {setting}, or lower shard_bytes_max" in found.todo


@pytest.mark.parametrize(
    "text",
    [
        f"{LOST}Command exited with code 1",
        f"{LOST}The executor with id 7 exited with exit code 143(SIGTERM).",
        "NotAMemoryError: a class of an author",
        "org.apache.arrow.vector.util.OversizedAllocationException: Memory required for vector capacity",
        'PythonException: Traceback:\npsycopg.errors.DiskFull: could not extend file "base/1": No space left on device',
        "ValueError: 137",
    ],
)
def test_all_else_is_no_shortage(text: str) -> None:
    """A database's disk is the database's, and a kill by somebody else is none."""
    assert name_shortage(text) is None


def test_what_ended_a_query_is_looked_through_with_its_causes() -> None:
    error = CapturedError(failed("Job aborted."), f"x\nCaused by: {TASK}java.io.IOException: No space left on device")
    found = outage(error, STORE, BROKER)
    assert isinstance(found, ShortageError)
    assert found.what == "executor 5 cannot write: No space left on device"


def test_a_store_that_says_it_in_the_same_words_is_the_store() -> None:
    said = "No space left on device (Service: S3, Status Code: 507, Request ID: null)"
    assert isinstance(outage(CapturedError(failed(f"{TASK}{PUT}{said}")), STORE, BROKER), UnreachableError)


def test_a_start_that_meets_a_full_disk_has_a_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before there is a query, and where no worker is asked."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/scratch")

    monkeypatch.setattr(main, "job_of", full)
    assert main.run(["settings.json"]) == ShortageError.exit_code
    told = capsys.readouterr().err
    assert told.startswith("ShortageError: the driver cannot write: No space left on device (/scratch). Make room")


def test_a_start_tries_the_scratch_folder_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[Any] = []

    def full(conf: Any) -> None:
        tried.append(conf)
        raise ShortageError("the driver cannot write", "folder /scratch", "Make room.")

    process = Process(monkeypatch, standby=False)
    monkeypatch.setattr(main, "try_scratch", full)
    monkeypatch.setenv(main.SPARK_CONF, '{"spark.local.dir": "/scratch"}')
    assert process.run() == ShortageError.exit_code
    assert (tried, process.order) == ([{"spark.local.dir": "/scratch"}], [])
    assert capsys.readouterr().err.startswith("ShortageError: the driver cannot write (folder /scratch)")
