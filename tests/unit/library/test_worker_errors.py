"""A named error keeps its name on the way from a Python worker to the driver."""

from __future__ import annotations

import pickle
import traceback

import pytest

from effectively_once import errors
from effectively_once.driver.worker_errors import name_error
from effectively_once.errors import ChainError, PipelineError, SinkError, UnreachableError
from effectively_once.sinks.publish import FencedError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PipelineError)]
CASES = [
    ("what happened", "where it did", "What to do."),
    ("the store does not answer: Max retries (Caused by NewConnectionError(x))", "http://127.0.0.1:1", "Check it."),
    ("a mark (of 3) is wrong", "sink accepted shard 0", "Restore it (from a backup). Then start."),
]


def _as_spark_tells(error: BaseException) -> RuntimeError:
    """Wrap an error as Spark's Python worker does: a traceback in the middle of a longer text."""
    told = "".join(traceback.format_exception(error))
    return RuntimeError(f"Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times:\n{told}\n\tat org.x.Y")


@pytest.mark.parametrize("case", CASES, ids=["plain", "brackets in what", "brackets everywhere"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_named_error_is_found_in_what_spark_tells(kind: type[PipelineError], case: tuple[str, str, str]) -> None:
    found = name_error(_as_spark_tells(kind(*case)))
    assert type(found) is kind
    assert str(found) == str(kind(*case))


def test_the_error_that_was_raised_is_found_and_not_its_cause() -> None:
    try:
        try:
            raise ValueError("low level")
        except ValueError as cause:
            raise ChainError("a delta is corrupt", "some/key", "Restore it.") from cause
    except ChainError as error:
        assert str(name_error(_as_spark_tells(error))) == "a delta is corrupt (some/key). Restore it."


def test_a_named_error_of_the_driver_itself_is_itself() -> None:
    error = SinkError("what", "where", "todo")
    assert name_error(error) is error


def test_anything_else_has_no_name() -> None:
    for other in (
        RuntimeError("ExecutorLostFailure (executor 1 exited (SIGKILL)). It is gone"),
        _as_spark_tells(ValueError("effectively")),
        _as_spark_tells(FencedError("sink accepted shard 0")),
        RuntimeError("effectively_once.errors.NoSuchError: what (where). todo"),
        RuntimeError("effectively_once.errors.annotations: what (where). todo"),
    ):
        assert name_error(other) is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_named_error_survives_pickling(kind: type[PipelineError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("what", "where", "todo")))  # noqa: S301 - our own bytes
    assert type(copy) is kind
    assert (copy.what, copy.where, copy.todo) == ("what", "where", "todo")


def test_an_error_of_a_client_that_has_several_lines_is_found_too() -> None:
    error = UnreachableError("no answer: first line\nsecond line", "127.0.0.1:9092", "Check the broker.")
    assert "\n" not in str(error)
    assert str(name_error(_as_spark_tells(error))) == str(error)


def test_what_spark_adds_to_the_line_is_no_part_of_it() -> None:
    """It tells a state by which a stage was ended, or nothing."""
    error = SinkError("a row is larger than the topic takes", "topic p.rows", "Raise it.")
    ended = RuntimeError(f"Job 0 cancelled because effectively_once.errors.SinkError: {error} SQLSTATE: XXKDA\n\tat x")
    assert str(name_error(ended)) == str(error)
