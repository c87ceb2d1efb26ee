"""Recorded steps on the real object store: of many answers one counts, also when their processes are killed (R4)."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from effectively_once.epoch.recorded import add_recorded, records_of
from effectively_once.errors import ChainError, SinkError
from effectively_once.ledger.objects import Absent, Found, Get, Put, delete_all, run
from effectively_once.pipeline.recorded_step import RecordedStep
from effectively_once.store.object_store import S3ObjectStore
from infra.embedded.process import Child
from tests.spark.held import Held, kill
from tests.stack.modules import start_module
from tests.stack.record_step import ADDS, EPOCH, LAYOUT, ROWS, SHARD, by

pytestmark = pytest.mark.stack

CHECKOUT = Path(__file__).parents[2]
KEY, ENDED_S = LAYOUT.step_record("signed", EPOCH, SHARD), 30.0


def test_attempts_that_run_the_code_at_once_all_return_the_winners_answer(store: S3ObjectStore) -> None:
    """All of them have found no record when the first one answers."""
    attempts = 8
    for epoch in range(10):
        together = threading.Barrier(attempts)
        with ThreadPoolExecutor(attempts) as pool:
            asked = [pool.submit(_raced, store, epoch, str(number), together) for number in range(attempts)]
            answers = [one.result() for one in asked]
        (winner,) = {answer for answer, _ in answers}
        assert [another for _, another in answers] == [str(number) != winner for number in range(attempts)]


def _raced(store: S3ObjectStore, epoch: int, name: str, together: threading.Barrier) -> tuple[str, bool]:
    def answer(rows: pa.Table) -> pa.Table:
        together.wait(30)
        return pa.table({"by": [name] * rows.num_rows})

    step = RecordedStep("signed", answer, ADDS)
    added, another = add_recorded(step, store, LAYOUT, epoch=epoch, shard=SHARD, rows=ROWS)
    (one,) = set(added["by"].to_pylist())
    return one, another


@pytest.mark.parametrize(("point", "counts"), [("put", "second"), ("put_done", "first")])
def test_killed_while_an_answer_is_recorded(store: S3ObjectStore, tmp_path: Path, point: str, counts: str) -> None:
    """Before the put the call has happened for nothing, and the next attempt calls again; after it nobody calls."""
    held, calls = Held(tmp_path / "points"), tmp_path / "calls"
    held.folder.mkdir()
    held.ask(point, key=KEY)
    first = _attempt(store, tmp_path, calls, held)
    process = held.wait(first)
    assert process.pid == first.pid
    kill(process)
    assert first.wait(ENDED_S)
    assert calls.read_text().split() == [str(first.pid)]
    assert isinstance(store.answer(Get(KEY)), Found if counts == "first" else Absent)

    answer, another = by(store, "second", calls)
    assert (answer, another) == ((str(first.pid), True) if counts == "first" else ("second", False))
    assert by(store, "third", calls) == (answer, True)
    assert calls.read_text().split() == [str(first.pid), *(["second"] if counts == "second" else [])]


def test_what_a_large_step_gave_comes_back_whole(store: S3ObjectStore) -> None:
    number = 100_000
    rows = pa.table({"id": [f"id-{n}" for n in range(number)]})
    step = RecordedStep("signed", lambda _: pa.table({"by": [os.urandom(40).hex() for _ in range(number)]}), ADDS)
    first = add_recorded(step, store, LAYOUT, epoch=EPOCH, shard=SHARD, rows=rows)
    assert add_recorded(step, store, LAYOUT, epoch=EPOCH, shard=SHARD, rows=rows) == (first[0], True)
    with pytest.raises(SinkError, match="id differ in content or order"):
        add_recorded(step, store, LAYOUT, epoch=EPOCH, shard=SHARD, rows=rows.take(list(reversed(range(number)))))


def test_a_record_that_was_cut_off_is_refused(store: S3ObjectStore, tmp_path: Path) -> None:
    by(store, "first", tmp_path / "calls")
    whole = store.answer(Get(KEY))
    assert isinstance(whole, Found)
    store.answer(Put(KEY, whole.body[:-1], whole.etag))
    with pytest.raises(ChainError, match=f"damaged: its checksum is wrong .{KEY}"):
        by(store, "second", tmp_path / "calls")


def test_what_was_collected_is_gone(store: S3ObjectStore) -> None:
    step = RecordedStep("signed", lambda rows: pa.table({"by": ["x"] * rows.num_rows}), ADDS)
    for epoch in (2, 3):
        for shard in (0, 1):
            add_recorded(step, store, LAYOUT, epoch=epoch, shard=shard, rows=ROWS)
    run(delete_all(records_of(["signed"], LAYOUT, epoch=2, shards=4)), store)
    assert list(store.names(f"{LAYOUT.pipeline}/recorded/")) == [
        LAYOUT.step_record("signed", 3, shard) for shard in (0, 1)
    ]


def _attempt(store: S3ObjectStore, folder: Path, calls: Path, held: Held) -> Child:
    where = store.address.endpoint, store.address.bucket
    return start_module("record_step", *where, str(calls), log=folder / "attempt.log", held=held)
