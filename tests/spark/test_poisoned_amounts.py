"""What becomes of each poison in the pipeline that `make new-pipeline` makes, as docs/reference/poison.md says it."""

from __future__ import annotations

import importlib
from collections import defaultdict
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from effectively_once import KafkaRecord, Trial
from infra.new_pipeline import new_pipeline
from tests.harness.workload.poisoned_amounts import BEYOND, FIRST_MS, KEY, POISONS, TIME, WITHIN, lines, main

pytestmark = pytest.mark.spark

ACCEPTED, GOOD, EPOCH_ROWS = "accepted", 1_600, 200
OUTCOMES = {
    "a megabyte of undecodable bytes": "malformed",
    "an id that is not UTF-8": "malformed",
    "a key with a NUL, escaped": ACCEPTED,
    "a key that is a lone surrogate": "malformed",
    "single quotes": "malformed",
    "an empty object": "missing_id",
    "something behind it": "malformed",
    "cut off": "malformed",
    "id empty": "missing_id",
    "id null": "missing_id",
    "id 1": "bad_id",
    "id '1'": ACCEPTED,
    "id true": "bad_id",
    "id 'true'": ACCEPTED,
    "id twice": "duplicate_key",
    "amount NaN": "malformed",
    "amount Infinity": "malformed",
    "amount 1e999": "bad_amount",
    "amount beyond 64 bits": "bad_amount",
    "amount of 40 digits": "bad_amount",
    "amount 1.5": "bad_amount",
    "amount as text": "bad_amount",
    "amount true": "bad_amount",
    "amount null": "missing_amount",
    "the year 2262": "ahead",
    "time beyond 64 bits": "bad_time",
    "time beyond Spark": "bad_time",
    "time as text": "bad_time",
    "time null": "bad_time",
    "the first millisecond of 1970": "late",
    "key null": "missing_key",
    "key 1": "bad_key",
    "key of a megabyte": ACCEPTED,
}


@pytest.fixture
def trial(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """Of the pipeline of a folder as `make new-pipeline` makes it."""
    new_pipeline("amounts_made", tmp_path / "amounts")
    monkeypatch.syspath_prepend(str(tmp_path / "amounts" / "src"))
    return Trial(importlib.import_module("amounts_made").pipeline, spark)


def test_every_poison_has_the_outcome_that_is_written_down_and_no_sum_stops_anything(trial: Trial) -> None:
    sent = [line for line in lines(GOOD) if line]
    named = {one.line.split(b'"event_time_ms"')[0]: one.name for one in POISONS}
    assert len(named) == len(POISONS)
    names = {at: name for at, line in enumerate(sent) if (name := named.get(line.split(b'"event_time_ms"')[0]))}
    outputs: dict[str, list[dict[str, object]]] = defaultdict(list)
    for first in range(0, len(sent), EPOCH_ROWS):
        records = [KafkaRecord(line, timestamp_ms=FIRST_MS) for line in sent[first : first + EPOCH_ROWS]]
        for sink, rows in trial.epoch(records).items():
            outputs[sink] += rows
    reasons = {}
    for row in outputs["dead_letter"]:
        source = row["source"]
        assert isinstance(source, list | tuple)
        if source[0] == "trial":
            reasons[names[source[2]]] = row["reason"]
    sums = {name for key in (*BEYOND, *WITHIN) for name in names.values() if name.startswith(f"{key}, ")}
    assert {name: reasons.get(name, ACCEPTED) for name in names.values() if name not in sums} == OUTCOMES
    assert not sums & reasons.keys()
    letters = [orjson.loads(str(row["value"])) for row in outputs["dead_letter"] if row["reason"] == "sum_too_large"]
    assert sorted(one[KEY] for one in letters) == sorted(BEYOND)
    shown = {row[KEY]: row["amount"] for row in outputs["per_minute"]}
    assert [shown.get(key) for key in BEYOND] == [None, None]
    assert {key: shown[key] for key in WITHIN} == {key: sum(amounts) for key, amounts in WITHIN.items()}


def test_the_file_is_written_alike_each_time(tmp_path: Path) -> None:
    path = tmp_path / "amounts.jsonl"
    assert main([str(path)]) == 0
    first = path.read_bytes()
    assert (main([str(path)]), path.read_bytes()) == (0, first)
    assert first.count(TIME.encode()) > len(POISONS)
