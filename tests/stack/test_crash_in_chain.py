"""A SIGKILL while epoch records move from head to a segment: nothing of the history is lost or there twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from effectively_once.ledger import chain
from effectively_once.ledger.objects import run
from effectively_once.ledger.segments import TAIL_LIMIT, history
from effectively_once.store.object_store import S3ObjectStore
from tests.spark.held import Held, kill
from tests.stack.modules import start_module
from tests.unit.ledger.samples import LAYOUT, declaration, record_of

pytestmark = pytest.mark.stack

CHECKOUT = Path(__file__).parents[2]
EPOCHS, ENDED_S = TAIL_LIMIT + 6, 60.0
SEGMENT = r".*/segments/.*"


@pytest.mark.parametrize(("point", "segments"), [("put", 0), ("put_done", 1)])
def test_killed_while_a_segment_is_written(store: S3ObjectStore, tmp_path: Path, point: str, segments: int) -> None:
    held = Held(tmp_path / "points")
    held.folder.mkdir()
    held.ask(point, key=SEGMENT)
    where = store.address.endpoint, store.address.bucket
    first = start_module("extend_chain", *where, "first", str(EPOCHS), log=tmp_path / "first.log", held=held)
    process = held.wait(first)
    assert process.pid == first.pid
    kill(process)
    assert first.wait(ENDED_S)
    written = list(store.names(f"{LAYOUT.pipeline}/segments/"))
    assert len(written) == segments
    head = run(chain.read(LAYOUT), store)
    assert head.segments == (), "head must not name a segment before it is there"

    second = start_module("extend_chain", *where, "second", str(EPOCHS), log=tmp_path / "second.log", held=held)
    assert second.wait(ENDED_S)
    assert second.status() == 0, second.post_mortem()
    head = run(chain.read(LAYOUT), store)
    assert len(head.segments) == 1
    assert list(store.names(f"{LAYOUT.pipeline}/segments/")) == [LAYOUT.segment(*head.segments[0])]
    records = [record.model_copy(update={"before": None}) for record in run(history(LAYOUT, head), store)]
    assert records == [record_of(declaration(n), 1) for n in range(EPOCHS)]
