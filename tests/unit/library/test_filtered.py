"""Records that a transform leaves out: declared, counted by reason, in no sink, and without an id or a time."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectively_once import Pipeline
from effectively_once.epoch import between, division, epoch
from effectively_once.epoch.filtered import UNDECLARED
from effectively_once.epoch.rows import empty
from effectively_once.epoch.stateful_step import Errand
from effectively_once.epoch.stateful_step import decide as decide_with_state
from effectively_once.epoch.summary import Summary
from effectively_once.errors import SettingsError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.delta import Delta
from effectively_once.ledger.epoch_record import EpochRecord
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.mistakes import MOST_FILTERED
from effectively_once.state.deltas import Named
from effectively_once.testing import left_out
from tests.depth import examples
from tests.unit.ledger.samples import declaration, record_of
from tests.unit.library.one_epoch import COLUMNS, PIPELINE, ROWS, STATEFUL, Place, table

REASONS = ("bot", "probe")
FILTERING = replace(PIPELINE, filtered=REASONS)


def marked(mark: str = "bot", **row: Any) -> dict[str, Any]:
    """A row that is left out. Judged ones have no id: with one here, whatever took it would be seen."""
    return {"reason": "filtered", "filtered": mark, **row}


WRONG: list[tuple[Any, str]] = [
    ("bot", r"filtered is a tuple, each of it text, not 'bot' \(Pipeline\)"),
    (("bot", 1), "filtered is a tuple, each of it text"),
    (("Bot",), "filtered has 'Bot': a reason is small letters, digits and _"),
    (("",), "filtered has '': a reason is small letters"),
    (("x" * 42,), "filtered has 'x{42}': a reason is"),
    (("bot", "bot"), "filtered has 'bot' twice"),
    ([f"r{n}" for n in range(MOST_FILTERED + 1)], "filtered has 41 reasons, at most 40 are possible"),
]


@pytest.mark.parametrize(("reasons", "says"), WRONG)
def test_a_reason_that_cannot_be_one_is_refused(reasons: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=f"^{says}"):
        replace(PIPELINE, filtered=reasons)


@pytest.mark.parametrize("name", ["filtered", "Filtered"])
def test_the_column_is_the_librarys_where_reasons_are_declared_and_the_authors_where_none_is(name: str) -> None:
    columns = pa.schema([*COLUMNS, (name, pa.string())])
    assert name in replace(PIPELINE, columns=columns).row_schema.names
    with pytest.raises(SettingsError, match=f"^column '{name}' is the library's own where filtered is declared"):
        replace(FILTERING, columns=columns)


def test_no_sink_has_the_column_and_state_does_not_depend_on_it() -> None:
    assert replace(PIPELINE, filtered=tuple(f"r{n}" for n in range(MOST_FILTERED))).filtered[-1] == "r39"
    assert empty(FILTERING).schema.names == [*FILTERING.input.names, "filtered", "reason", "value", "shard"]
    assert empty(PIPELINE).schema.names == [*PIPELINE.input.names, "reason", "value", "shard"]
    assert (FILTERING.row_schema, FILTERING.bound) == (PIPELINE.row_schema, PIPELINE.bound)


def ids_of(told: dict[str, Any], number: int = 0) -> dict[str, dict[int, list[Named]]]:
    return {"ids": {0: [Named(number, Delta(**told["deltas"]["ids"]))]}}


def test_what_is_left_out_is_counted_and_nothing_else_comes_of_it() -> None:
    """Its id is unknown, also to the next epoch, and its time moves no watermark."""
    rows = [
        marked(id="a", event_time_ms=900),
        {"id": "a", "event_time_ms": 7},
        marked("probe", id="b"),
        marked(id="c"),
        {"id": "x", "reason": "bad", "value": b"?"},
    ]
    place = Place()
    carried, told = place.dedup(table(rows, FILTERING), FILTERING)
    assert told["filtered"] == {"bot": 2, "probe": 1}
    assert [told[name] for name in ("read", "accepted", "duplicate", "late", "malformed")] == [5, 1, 0, 0, 1]
    assert told["max_event_time_ms"] == 7
    assert told["letters"] == {"bad": 1}
    assert place.published["orders", 0]["offset"].to_pylist() == [1]
    assert [json.loads(value)["source"][2] for _, value in place.published["accepted", 0]] == [1]
    assert [json.loads(value)["source"][2] for _, value in place.published[DEAD_LETTER, 0]] == [4]
    assert {row["key"] for row in carried.to_pylist() if row["of"] == "per_id"} == {"a"}
    assert told["deltas"]["ids"]["rows"] == 1
    later = [{"id": name, "offset": 9} for name in "abc"]
    _, told = place.dedup(table(later, FILTERING), FILTERING, number=1, named=ids_of(told))
    assert (told["accepted"], told["duplicate"], told["filtered"]) == (2, 1, {})


def test_a_repeat_of_the_epoch_comes_to_the_same() -> None:
    rows = table([marked(id="a"), {"id": "a"}, {"id": "a"}, marked("probe", id="b")], FILTERING)
    first, again = Place(), Place()
    _, told = first.dedup(rows, FILTERING)
    _, other = again.dedup(rows.take([3, 1, 0, 2]), FILTERING, batches=1)
    assert {**told, "ms": None} == {**other, "ms": None}
    assert first.published == again.published
    _, repeated = first.dedup(rows, FILTERING)
    assert {**told, "ms": None} == {**repeated, "ms": None}


@settings(max_examples=examples(60))
@given(ROWS, st.lists(st.sampled_from([None, None, *REASONS]), min_size=12, max_size=12))
def test_what_became_of_the_rows_adds_up_and_others_are_decided_as_if_these_had_not_come(
    rows: list[dict[str, Any]], marks: list[str | None]
) -> None:
    numbered = [{**row, "offset": number} for number, row in enumerate(rows)]
    # What an author refuses has no mark any more.
    marks = [mark if row["reason"] is None else None for mark, row in zip(marks, rows, strict=False)]
    judged = [row if mark is None else {**row, **marked(mark)} for row, mark in zip(numbered, marks, strict=True)]
    place, without = Place(), Place()
    _, told = place.dedup(table(judged, FILTERING), FILTERING)
    _, other = without.dedup(table([row for row in judged if "filtered" not in row]))
    assert place.published == without.published
    same = ("accepted", "duplicate", "late", "malformed", "max_event_time_ms", "letters")
    assert [told[name] for name in same] == [other[name] for name in same]
    assert told["filtered"] == dict(Counter(mark for mark in marks if mark is not None))
    assert told["read"] == sum(told[name] for name in same[:4]) + sum(told["filtered"].values()) == len(rows)


def test_without_ids_it_is_left_out_alike() -> None:
    pipeline = Pipeline(lambda frame: frame, COLUMNS, ids="coordinates", rows=PIPELINE.rows[1:], filtered=REASONS)
    place = Place()
    _, told = place.dedup(table([{}, marked(), {}], pipeline), pipeline)
    assert (told["accepted"], told["duplicate"], told["filtered"]) == (2, 0, {"bot": 1})
    assert place.published["orders", 0]["offset"].to_pylist() == [0, 2]


def test_a_stateful_query_is_given_none_and_none_is_kept() -> None:
    pipeline = replace(STATEFUL, filtered=REASONS)
    place = Place()
    task = place.task(pipeline, watermark_ms=500)
    rows = [{"id": "a", "event_time_ms": 600}, marked(id="b", event_time_ms=600), marked(id="late", event_time_ms=1)]
    errand = Errand(task.declaration, 1, "owner", {})
    accepted, note = decide_with_state(place.step(task), errand, table(rows, pipeline).to_batches())
    assert note is not None
    told = json.loads(json.loads(note)["note"])
    assert accepted["id"].to_pylist() == ["a"]
    assert (told["filtered"], told["late"], told["malformed"]) == ({"bot": 2}, 0, 0)
    step = place.step(place.task(pipeline), "windows")
    pa.Table.from_batches(epoch.publish_results(step, []), between.columns(pipeline))
    assert [json.loads(value)["id"] for _, value in place.published["accepted", 0]] == ["a"]
    assert place.published[DEAD_LETTER, 0] == []


def test_it_tells_no_partitions_time() -> None:
    rows = table([{"event_time_ms": 5}, marked(event_time_ms=900), marked(partition=1)], FILTERING)
    assert epoch.shown_times(rows) == {"t": {"0": 5}}


def test_a_shard_without_rows_has_the_column() -> None:
    step = Place().step(Place().task(FILTERING))
    assert division.input_of(step, []).rows.schema == empty(FILTERING).schema
    _, told = Place().dedup(table([], FILTERING), FILTERING)
    assert told["filtered"] == {}


NOTE: dict[str, Any] = {
    "sinks": {name: {"rows": 0, "digest": "0" * 32} for name in (DEAD_LETTER, *PIPELINE.sinks)},
    "deltas": {},
    "merged": {},
    "files": {},
    "repeated": False,
    "ms": {},
    "read": 3,
    "accepted": 1,
    "duplicate": 0,
    "late": 0,
    "malformed": 0,
    "catalog": {},
    "max_event_time_ms": None,
}


def recorded(*by_shard: dict[str, int]) -> EpochRecord:
    notes = [{**NOTE, "filtered": some} for some in by_shard]
    summary = Summary(range(len(notes)), notes)
    summary._sinks = {"totals": {"0": record_of(declaration(0)).sinks["accepted"]["0"]}}
    return summary.record(declaration(4), 1, FILTERING, len(notes))


def test_the_epochs_record_has_the_sums_of_all_shards_by_reason() -> None:
    record = recorded({"probe": 2}, {"bot": 1, "probe": 1})
    assert record.filtered == {"bot": 1, "probe": 3}
    assert EpochRecord(**record.model_dump(by_alias=True)) == record
    assert record.checksum != record.model_copy(update={"filtered": {"bot": 4}}).checksum


def test_a_record_of_an_epoch_that_left_out_nothing_is_written_as_before() -> None:
    """Older versions refuse fields that they do not know, and checksums stay what they were."""
    record = recorded({}, {})
    assert record.filtered == {}
    assert "filtered" not in record.model_dump(by_alias=True)
    assert "filtered" not in Declaration.model_fields, "it is what came of an epoch, and nobody pins it"


def test_a_trial_names_marks_that_are_not_declared_and_takes_what_an_author_refuses() -> None:
    rows = table([{"reason": f"{UNDECLARED} 'boot'"}, {"reason": f"{UNDECLARED} ''"}, {"reason": "bad"}], FILTERING)
    with pytest.raises(SettingsError, match=r"^the transform marks records with '', 'boot', which filtered does not"):
        left_out.refuse_undeclared(rows, "jobs.events")
    left_out.refuse_undeclared(rows.slice(2), "jobs.events")


def test_a_trial_shows_what_is_left_out_in_order_of_offset() -> None:
    rows = table([marked(offset=2), {"offset": 0}, marked("probe", offset=1)], FILTERING)
    assert [*left_out.show(rows, {0: b"", 1: None, 2: b"\xff"})] == [
        {"reason": "probe", "value": None, "encoding": "utf-8", "source": ["t", 0, 1]},
        {"reason": "bot", "value": "/w==", "encoding": "base64", "source": ["t", 0, 2]},
    ]
    assert [*left_out.show(table([{}]), {0: b""})] == []
