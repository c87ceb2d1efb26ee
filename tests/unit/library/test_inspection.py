"""What is told of a pipeline: as text, as JSON, and by the exit code."""

from __future__ import annotations

import json
from functools import cache

import pytest

from effectively_once.errors import CheckpointError, SinkError
from effectively_once.ledger import chain, interventions
from effectively_once.ledger.as_shown import AsShown
from effectively_once.ledger.head import Head
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.loss import Loss
from effectively_once.ledger.objects import run
from effectively_once.operate.abandon.abandonment import make_record
from effectively_once.operate.inspect.inspection import CheckpointFacts, DeltaFacts, Finding, Inspection, MarkFacts
from effectively_once.operate.inspect.inspection_text import lines
from effectively_once.operate.inspect.start_check import StartCheck
from tests.unit.ledger.memory_store import MemoryStore
from tests.unit.ledger.samples import due_of
from tests.unit.library.ledger_driver import LedgerDriver


@cache
def _head() -> Head:
    """Seventy epochs and a declared one."""
    driver = LedgerDriver.started(MemoryStore(), Layout("clicks"))
    driver.run(70)
    next(driver.steps())
    return driver.held.head


@pytest.fixture
def inspection() -> Inspection:
    return Inspection(
        "clicks",
        "http://store/data/clicks",
        _head(),
        4321,
        [MarkFacts("accepted", 0, 69, 1), MarkFacts("accepted", 1, None), MarkFacts("global_counts", None, 69, 1)],
        {"ids": DeltaFacts(8, 4, 1234, 5678)},
        CheckpointFacts("000001-abcd", 3, 900, True),
        StartCheck("a driver would start"),
    )


def test_the_text_tells_each_fact_in_a_line(inspection: Inspection) -> None:
    assert list(lines(inspection)) == [
        "pipeline    clicks at http://store/data/clicks",
        "head        sequence 72, generation 1, owner first, 4,321 bytes",
        "recorded    epoch 69 (lineage 000001-abcd batch 69), watermark 68900 ms, events 0:690-700",
        "declared    epoch 70 (lineage 000001-abcd batch 70), watermark 69900 ms, events 0:700-710",
        "floor       67",
        "segments    1, epochs 0 to 31",
        "marks       accepted: shard 0 epoch 69, shard 1 none",
        "marks       global_counts: epoch 69",
        "deltas      ids: 8 live, 1,234 rows; 4 inline, 4 objects of 5,678 bytes",
        "checkpoint  lineage 000001-abcd: 3 objects of 900 bytes; it fits the chain",
        "start       a driver would start",
    ]
    assert inspection.exit_code == 0


def test_findings_come_last_and_the_first_gives_the_exit_code(inspection: Inspection) -> None:
    inspection.findings = [
        Finding("checkpoint", CheckpointError("it is damaged", "offsets/9", "Delete it.")),
        Finding("start", SinkError("a mark lies outside", "sink accepted shard 1", "Restore both.")),
    ]
    assert list(lines(inspection))[-2:] == [
        "damage      checkpoint: it is damaged (offsets/9). Delete it.",
        "refusal     start: a mark lies outside (sink accepted shard 1). Restore both.",
    ]
    assert inspection.exit_code == CheckpointError.exit_code
    assert inspection.as_json()["findings"][1] == {
        "part": "start",
        "error": "SinkError",
        "what": "a mark lies outside",
        "where": "sink accepted shard 1",
        "todo": "Restore both.",
    }


def test_an_epoch_that_is_visible_or_to_be_repaired_is_told(inspection: Inspection) -> None:
    """And which command helps where no repeat can finish it."""
    assert inspection.head is not None
    assert inspection.head.declared is not None
    inspection.marks = [MarkFacts("accepted", 0, 70, 1), MarkFacts("accepted", 1, 69), MarkFacts("totals", None, 70)]
    assert "visible     epoch 70 in accepted 0, totals; if repeats are refused: effectively-once repair" in lines(
        inspection
    )
    store, layout = MemoryStore(), Layout("clicks")
    store.objects[layout.head] = inspection.head.encode()
    held = run(chain.take_over(layout, "operator", {}), store)
    shown = {"0": AsShown(rows=1), "1": AsShown()}
    held = run(interventions.finish_as_shown(layout, held, shown, "b" * 64), store)
    inspection.head = held.head
    assert "repair      epoch 70 is to be finished as shards 0, 1 show it; then the rest" in lines(inspection)
    assert inspection.as_json()["head"]["declared"]["shown"]["0"]["rows"] == 1
    declared = held.head.declared
    assert declared is not None
    held = run(chain.record(layout, held, make_record(declared, 1, {}, [])), store)
    inspection.head = held.head
    due = due_of(held.head)
    assert "repair      epoch 70 was finished as it was shown; epoch 71 is to take what it left" in lines(inspection)
    inspection.head = run(chain.declare(layout, held, due, None, 0), store).head
    assert "repair      epoch 71 takes what epoch 70 left of its input" in lines(inspection)


def test_input_that_was_given_up_is_told_with_its_epoch_and_time(inspection: Inspection) -> None:
    inspection.lost = {41: Loss(offsets={"events": {"0": (410, 1_410), "2": (0, 7)}}, at_ms=1_750_000_000_000)}
    told = "1,007 offsets, given up by epoch 41 at 2025-06-15T15:06:40+00:00: events 0:410-1410 2:0-7"
    assert f"lost        {told}" in list(lines(inspection))
    assert inspection.as_json()["lost"] == [
        {"epoch": 41, "offsets": {"events": {"0": [410, 1410], "2": [0, 7]}}, "at_ms": 1_750_000_000_000}
    ]
    assert inspection.exit_code == 0


def test_json_has_what_the_text_has(inspection: Inspection) -> None:
    told = json.loads(json.dumps(inspection.as_json()))
    head = told["head"]
    assert (head["generation"], head["owner"], head["last_recorded"], head["floor"]) == (1, "first", 69, 67)
    assert (head["recorded"]["epoch"], head["declared"]["epoch"]) == (69, 70)
    assert head["recorded"]["ranges"] == {"events": {"0": [690, 700]}}
    assert (head["segments"], head["bytes"], head["settings"]["shards"]) == ([[0, 31]], 4321, 2)
    assert told["marks"][0] == {"sink": "accepted", "shard": 0, "epoch": 69, "generation": 1}
    assert told["deltas"] == {"ids": {"deltas": 8, "inline": 4, "rows": 1234, "bytes": 5678}}
    checkpoint = {"lineage": "000001-abcd", "objects": 3, "bytes": 900, "fits": True, "holds_state": False}
    assert told["checkpoint"] == checkpoint
    assert (told["start"], told["findings"]) == ("a driver would start", [])


def test_what_is_not_there_is_told_as_that() -> None:
    found = Inspection("clicks", "http://store/data/clicks")
    assert list(lines(found)) == ["pipeline    clicks at http://store/data/clicks"]
    assert found.as_json()["head"] is None
    found.head = LedgerDriver.started(MemoryStore(), Layout("clicks")).held.head
    assert list(lines(found))[2:] == ["recorded    no epoch", "declared    no epoch", "floor       0", "segments    0"]
