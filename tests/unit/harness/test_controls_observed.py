"""What a control's readers saw, as it is counted and written down."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.checkers import monotone
from tests.harness.controls.observed import Found, Message, read_committed, read_uncommitted
from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import RunDirectory


def row(id_: str, offset: int, partition: int = 0) -> dict[str, Any]:
    return {"id": id_, "user": "u1", "partition": partition, "offset": offset}


def message(id_: str, offset: int, partition: int = 0) -> Message:
    return (partition, offset), {"id": id_, "user": "u1"}


GO_ON = threading.Event()


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([row("a", 0), row("b", 1)], Found()),
        ([row("a", 0), row("b", 1), row("a", 0, partition=1)], Found(duplicated=1)),
        ([row("b", 4)], Found(missing=1)),
    ],
)
def test_records_too_many_and_records_lost_are_counted(
    tmp_path: Path, rows: list[dict[str, Any]], found: Found
) -> None:
    run = RunDirectory(tmp_path)
    assert read_committed(run, iter(rows), {"a", "b"}, GO_ON)[0] == found
    assert [*run.rows("accepted")] == [{"sink": "accepted", **one} for one in rows]


def test_what_a_stopped_reader_did_not_come_to_is_not_lost(tmp_path: Path) -> None:
    """Else stopping a run would make a control of loss show loss."""
    run, stop = RunDirectory(tmp_path), threading.Event()

    def rows() -> Iterator[dict[str, Any]]:
        yield row("a", 0)
        stop.set()

    with pytest.raises(InterruptedError):
        read_committed(run, rows(), {"a", "b"}, stop)
    with pytest.raises(EvidenceError, match="truncated"):
        [*run.rows("accepted")]


def test_a_reader_of_uncommitted_records_sees_what_oracle_3_calls_retracted(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    _, places = read_committed(run, iter([row("a", 3), row("b", 0, partition=1)]), {"a", "b"}, GO_ON)
    aborted = [message("a", 0), message("a", 3), message("b", 0, partition=1)]
    assert read_uncommitted(run, iter(aborted), places, GO_ON) == Found(retracted=1)
    compared = monotone.compare("accepted", run.concurrent_rows("accepted"), run.rows("accepted"))
    assert len(compared.broken) == 1 and "accepted/0@0 was seen" in compared.broken[0]
    assert (compared.seen, compared.unread) == (3, 0)


def test_where_nothing_was_aborted_both_readers_see_the_same(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    _, places = read_committed(run, iter([row("a", 0), row("b", 2)]), {"a", "b"}, GO_ON)
    assert read_uncommitted(run, iter([message("a", 0), message("b", 2)]), places, GO_ON) == Found()
    assert not monotone.compare("accepted", run.concurrent_rows("accepted"), run.rows("accepted")).broken
