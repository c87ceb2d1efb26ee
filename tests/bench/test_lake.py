"""The lake case: what it commits are rows of the sink, and what it came to is said beside the targets."""

from __future__ import annotations

import pytest

from effectively_once import ToIceberg, ToKafka
from effectively_once.ledger import digest
from effectively_once.ledger.layout import Layout
from effectively_once.pipeline.job import import_pipeline
from effectively_once.sinks.lake_files import LakeFiles
from tests.bench import lake
from tests.unit.ledger.memory_store import MemoryStore


def test_the_arms_differ_by_their_sink_alone() -> None:
    topic, table = (import_pipeline(f"{lake.MODULE}:{lake.ARMS[arm]}") for arm in (lake.TOPIC, lake.LAKE))
    assert [type(one.rows[0]) for one in (topic, table)] == [ToKafka, ToIceberg]
    assert topic.schema_of("accepted") == table.schema_of("accepted")


def test_rows_that_are_committed_are_the_sinks_and_no_two_are_equal() -> None:
    rows = lake._rows(50)
    files = LakeFiles(MemoryStore(), Layout("bench"), "accepted", lake.SHAPE)
    assert files.stage(0, rows).rows == 50
    assert len({digest.of_rows_in(rows.slice(n, 1)) for n in range(50)}) == 50


@pytest.mark.parametrize(("rate", "ms", "said"), [(60.0, 200.0, "met"), (40.0, 700.0, "MISSED")])
def test_both_numbers_are_said_beside_their_targets(rate: float, ms: float, said: str) -> None:
    text = lake._table({lake.TOPIC: [100.0], lake.LAKE: [rate]}, [ms] * 3)
    assert f"lake table / topic: {rate / 100:.2f} (target at least 0.5: {said})" in text
    assert f"commit: {ms:.1f} ms (target at most 500 ms: {said})" in text
