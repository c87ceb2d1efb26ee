"""The object-store sink: staged files become visible by one create-once manifest an epoch (R8)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from effectively_once.errors import SinkError, UnreachableError
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import Answer, Delete, Lost, Put, Request, Written
from effectively_once.sinks.manifest import ManifestSink
from effectively_once.sinks.publish import Published
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from infra.embedded.ports import free_ports
from infra.embedded.stack import EmbeddedStack

pytestmark = pytest.mark.stack

LAYOUT = Layout("counts")
SINK = "global_counts"
SCHEMA = pa.schema([("window_start_ms", pa.int64()), ("count", pa.int64())])

KILLED_BEFORE_ITS_MANIFEST = """
import sys
import pyarrow as pa
from effectively_once.ledger.layout import Layout
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from effectively_once.sinks.manifest import ManifestSink

class Hanging(S3ObjectStore):
    def answer(self, request):
        if request.key.endswith("000000000.json"):
            print("staged", flush=True)
            sys.stdin.read()
        return super().answer(request)

store = Hanging(BucketAddress(sys.argv[1], sys.argv[2]))
ManifestSink(store, Layout("counts"), "global_counts").publish(0, 1, pa.table({"window_start_ms": [0], "count": [9]}))
"""


def _table(*counts: int) -> pa.Table:
    rows = [{"window_start_ms": 60_000 * n, "count": count} for n, count in enumerate(counts)]
    return pa.Table.from_pylist(rows, SCHEMA)


def _counts(sink: ManifestSink, last_epoch: int) -> list[tuple[int, int]]:
    return [(epoch, row["count"]) for epoch, _, row in sink.rows(last_epoch)]


def _files(store: S3ObjectStore) -> list[str]:
    return list(store.names(f"{LAYOUT.pipeline}/{SINK}/data/"))


@pytest.fixture
def sink(store: S3ObjectStore) -> ManifestSink:
    """Open a sink in the test's bucket."""
    return ManifestSink(store, LAYOUT, SINK)


def test_what_was_published_is_read_in_order_of_epochs(sink: ManifestSink) -> None:
    for epoch, table in enumerate((_table(1, 2), _table(), _table(3))):
        rows, published = sink.publish(epoch, 1, table)
        assert (rows.rows, published) == (table.num_rows, Published.NOW)
    assert _counts(sink, 2) == [(0, 1), (0, 2), (2, 3)]
    assert _counts(sink, 0) == [(0, 1), (0, 2)]


def test_an_epoch_without_rows_has_a_manifest_and_no_file(sink: ManifestSink, store: S3ObjectStore) -> None:
    assert not sink.has(0)
    sink.publish(0, 1, _table())
    manifest = sink.manifest(0)
    assert manifest is not None
    assert (manifest["files"], manifest["rows"]) == ([], 0)
    assert (sink.has(0), sink.has(1)) == (True, False)
    assert _files(store) == []


@pytest.mark.parametrize("generation", [1, 2])
def test_a_repeat_is_a_no_op(sink: ManifestSink, generation: int) -> None:
    first, _ = sink.publish(0, 1, _table(1, 2))
    kept = sink.manifest(0)
    shuffled = _table(1, 2).take([1, 0])
    for repeat in (_table(1, 2), shuffled):
        assert sink.publish(0, generation, repeat) == (first, Published.BEFORE)
    assert sink.manifest(0) == kept
    assert _counts(sink, 0) == [(0, 1), (0, 2)]


@pytest.mark.parametrize("repeat", [(1,), (1, 3), (1, 2, 3), ()])
def test_a_repeat_with_other_rows_is_an_error_and_changes_nothing(sink: ManifestSink, repeat: tuple[int, ...]) -> None:
    sink.publish(0, 1, _table(1, 2))
    with pytest.raises(SinkError, match=r"epoch 0 is published with digest .*its repeat has .*000000000\.json"):
        sink.publish(0, 2, _table(*repeat))
    assert _counts(sink, 0) == [(0, 1), (0, 2)]


def test_files_that_no_manifest_names_are_not_read(sink: ManifestSink, store: S3ObjectStore) -> None:
    sink.publish(0, 1, _table(1))
    sink.publish(0, 2, _table(1))  # its repeat staged a file of its own
    store.answer(Put(LAYOUT.staged_file(SINK, 0, "orphan"), b"not even parquet", None))
    assert len(_files(store)) == 3
    assert _counts(sink, 0) == [(0, 1)]


def test_a_publisher_killed_between_file_and_manifest_leaves_nothing_visible(
    sink: ManifestSink, store: S3ObjectStore, stack: EmbeddedStack
) -> None:
    environment = {**os.environ, "PYTHONPATH": ":".join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", KILLED_BEFORE_ITS_MANIFEST, store.address.endpoint, store.address.bucket]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as publisher:
        assert publisher.stdout is not None
        assert publisher.stdout.readline() == b"staged\n"
        publisher.send_signal(signal.SIGKILL)
        assert publisher.wait(30) == -signal.SIGKILL
    assert len(_files(store)) == 1
    assert not sink.has(0)
    with pytest.raises(SinkError, match="a manifest is missing"):
        list(sink.rows(0))
    assert sink.publish(0, 2, _table(9))[1] is Published.NOW
    assert _counts(sink, 0) == [(0, 9)]


def test_of_two_publishers_of_one_epoch_one_wins_and_the_other_finds_it_published(store: S3ObjectStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        for epoch in range(5):

            def publish(generation: int, epoch: int = epoch) -> Published:
                return ManifestSink(store, LAYOUT, SINK).publish(epoch, generation, _table(epoch))[1]

            assert sorted(pool.map(publish, range(8))) == [Published.BEFORE] * 7 + [Published.NOW]
    assert _counts(ManifestSink(store, LAYOUT, SINK), 4) == [(epoch, epoch) for epoch in range(5)]


class _Losing(S3ObjectStore):
    """Loses the answer of every first put of a name: with `applied` the put took place."""

    def __init__(self, address: BucketAddress, applied: bool) -> None:
        super().__init__(address)
        self._applied, self._lost = applied, set[str]()

    def answer(self, request: Request) -> Answer:
        if not isinstance(request, Put) or request.key in self._lost:
            return super().answer(request)
        self._lost.add(request.key)
        if self._applied:
            assert isinstance(super().answer(request), Written)
        return Lost()


@pytest.mark.parametrize("applied", [True, False])
def test_lost_answers_are_settled(store: S3ObjectStore, applied: bool) -> None:
    sink = ManifestSink(_Losing(store.address, applied), LAYOUT, SINK)
    assert sink.publish(0, 1, _table(1, 2))[1] is Published.NOW
    assert _counts(ManifestSink(store, LAYOUT, SINK), 0) == [(0, 1), (0, 2)]


def test_the_store_may_be_restarted_between_epochs(sink: ManifestSink, stack: EmbeddedStack) -> None:
    sink.publish(0, 1, _table(1))
    stack.object_store.kill()
    stack.object_store.restart()
    sink.publish(1, 1, _table(2))
    assert _counts(sink, 1) == [(0, 1), (1, 2)]


def _missing(sink: ManifestSink, store: S3ObjectStore) -> Iterator[tuple[str, str]]:
    manifest = sink.manifest(1)
    assert manifest is not None
    yield manifest["files"][0]["name"], "a file that a manifest names is missing"
    yield LAYOUT.manifest(SINK, 1), "a manifest is missing"


def test_a_missing_file_or_manifest_is_named_and_never_skipped(sink: ManifestSink, store: S3ObjectStore) -> None:
    for epoch in range(3):
        sink.publish(epoch, 1, _table(epoch))
    for name, says in _missing(sink, store):
        store.answer(Delete(name))
        with pytest.raises(SinkError, match=f"{says} .{name}"):
            list(sink.rows(2))


def test_a_damaged_manifest_is_named(sink: ManifestSink, store: S3ObjectStore) -> None:
    key = LAYOUT.manifest(SINK, 0)
    store.answer(Put(key, b'{"epoch": 0, "fi', None))
    store.answer(Put(LAYOUT.manifest(SINK, 1), b'{"epoch": 1}', None))
    with pytest.raises(SinkError, match="a manifest is damaged"):
        sink.has(1)
    for ask in (lambda: sink.publish(0, 1, _table(1)), lambda: list(sink.rows(0)), lambda: sink.has(0)):
        with pytest.raises(SinkError, match=f"a manifest is damaged .{key}"):
            ask()


def test_a_store_that_does_not_answer_is_named() -> None:
    (port,) = free_ports(1)
    store = S3ObjectStore(BucketAddress(f"http://127.0.0.1:{port}", "any"), patience_s=0.3)
    with pytest.raises(UnreachableError, match="the object store does not answer"):
        ManifestSink(store, LAYOUT, SINK).publish(0, 1, _table(1))
