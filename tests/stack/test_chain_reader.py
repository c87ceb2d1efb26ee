"""The harness' own reader of a bucket: it says what the product's readers say, and misses nothing in silence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from effectively_once.ledger import segments
from effectively_once.ledger.objects import Delete, Put, run
from effectively_once.operate.retention.compaction import Compaction
from effectively_once.sinks import manifest_span
from effectively_once.store.listing import S3ListingStore
from tests.harness.adapters import chain_reader
from tests.harness.adapters.chain_reader import ChainReader
from tests.harness.evidence import EvidenceError
from tests.stack.clicks import Clicks
from tests.unit.library.ledger_driver import global_counts
from tests.unit.library.names import GLOBAL_COUNTS

pytestmark = pytest.mark.stack

EPOCHS, IN_HEAD = 10, 4


@pytest.fixture
def clicks(clicks: Clicks, monkeypatch: pytest.MonkeyPatch) -> Clicks:
    """Run it for so many epochs that the first ones have left head."""
    monkeypatch.setattr(segments, "TAIL_LIMIT", IN_HEAD)
    clicks.start("first").run(EPOCHS)
    return clicks


@pytest.fixture
def reader(clicks: Clicks) -> ChainReader:
    return ChainReader(clicks.settings.bucket, clicks.layout.pipeline, clicks.settings.topic, patience_s=2)


def read_counts(reader: ChainReader) -> list[tuple[int, int, int]]:
    return [(epoch, row["window_start_ms"], row["count"]) for epoch, _, row in reader.rows(GLOBAL_COUNTS, EPOCHS - 1)]


def test_it_says_what_the_readers_of_the_product_say(clicks: Clicks, reader: ChainReader) -> None:
    head, evidence = clicks.head(), reader.evidence()
    records = run(segments.history(clicks.layout, head), clicks.store)
    assert head.segments, "all records are in head"
    told = [record.model_dump(mode="json", by_alias=True, exclude={"before"}) for record in records]
    assert evidence["epochs"] == told
    assert evidence["head"]["last_recorded"] == EPOCHS - 1
    assert read_counts(reader) == global_counts(EPOCHS)
    assert reader.read_published(GLOBAL_COUNTS, EPOCHS) is None
    progress, last = reader.progress(), records[-1]
    spans = last.ranges[clicks.settings.topic].items()
    assert progress.watermark_ms == last.watermark_ms
    assert progress.ends == {int(partition): end for partition, (_, end) in spans}


def test_a_span_stands_above_the_manifests_that_it_holds(
    clicks: Clicks, reader: ChainReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_span, "EPOCHS", 4)
    monkeypatch.setattr(chain_reader, "SPAN", 4)
    compaction = Compaction(S3ListingStore(clicks.settings.bucket), clicks.layout, [GLOBAL_COUNTS])
    compaction.carry_out(compaction.find())
    first = clicks.layout.manifest(GLOBAL_COUNTS, 1)
    assert reader._objects.body(first) is None, "nothing was compacted"
    # As a driver would that was replaced long ago.
    clicks.store.answer(Put(first, json.dumps({"files": [{"name": "none", "rows": 9}]}).encode(), None))
    assert read_counts(reader) == global_counts(EPOCHS)


@pytest.mark.parametrize("gone", ["manifest", "file", "segment"])
def test_what_is_missing_is_an_error_and_never_nothing(clicks: Clicks, reader: ChainReader, gone: str) -> None:
    epoch = next(epoch for epoch, _, _ in global_counts(EPOCHS))
    manifest = clicks.layout.manifest(GLOBAL_COUNTS, epoch)
    file: dict[str, Any] = json.loads(reader._objects.body(manifest) or b"")["files"][0]
    name = {"manifest": manifest, "file": file["name"], "segment": clicks.layout.segment(*clicks.head().segments[0])}[
        gone
    ]
    clicks.store.answer(Delete(name))
    with pytest.raises(EvidenceError, match=gone if gone != "file" else "the manifest names"):
        assert read_counts(reader) + reader.evidence()["epochs"]
