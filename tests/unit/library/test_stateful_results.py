"""Results of a stateful query: judged before the epoch shows a row, dead letters where no sink holds them (R7, R8)."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from effectively_once import Pipeline, Stateful, ToFiles, ToKafka, ToTable
from effectively_once.epoch import between, epoch, kept_rows, recorded, refusals, unfit_results
from effectively_once.epoch.stateful_step import Errand
from effectively_once.epoch.stateful_step import decide as decide_rows
from effectively_once.errors import ChainError
from effectively_once.ledger.objects import delete_all, run
from effectively_once.pipeline.columns import DEAD_LETTER
from effectively_once.pipeline.sinks import AnySink
from tests.unit.ledger.samples import declaration
from tests.unit.library.one_epoch import COLUMNS, Place, table

RESULTS = pa.schema(
    [
        ("user", pa.string()),
        pa.field("n", pa.int64(), nullable=False),
        ("mean", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("note", pa.string()),
    ]
)
FIT = {"user": "ann", "n": 1, "mean": 0.5, "day": 0, "at": 0, "note": "x"}


def made(to: AnySink, *rows: AnySink) -> Pipeline:
    stateful = Stateful(lambda frame: frame, RESULTS, by="user", to=to)
    own = rows or (ToKafka("accepted", key="user"),)
    return Pipeline(lambda frame: frame, COLUMNS, rows=own, stateful=stateful, window_ms=100, lateness_ms=0)


TO_TOPIC = made(ToKafka("per_user", key="user", message_bytes_max=65_536))
TO_TABLE = made(ToTable("per_user", key=("user", "n")))
TO_FILES = made(ToFiles("per_user"))


def batches_of(rows: list[dict[str, Any]]) -> list[pa.RecordBatch]:
    """Results as Spark gives them: a text may be any bytes, whichever column may be null, dates are not bounded."""
    kinds = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64(), pa.string(): pa.binary()}
    columns = []
    for field in RESULTS:
        values = [{**FIT, **row}[field.name] for row in rows]
        if field.type == pa.string():
            raw = pa.array([each.encode() if isinstance(each, str) else each for each in values], pa.binary())
            columns.append(pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), raw.null_count))
        else:
            columns.append(pa.array(values, kinds.get(field.type, field.type)).cast(field.type))
    batches: list[pa.RecordBatch] = pa.table(columns, names=RESULTS.names).to_batches()
    return batches


def decide(place: Place, pipeline: Pipeline, rows: list[dict[str, Any]], **pinned: Any) -> pa.Table:
    """Run the first step; nothing may be visible after it."""
    task = place.task(pipeline, **pinned)
    errand = Errand(task.declaration, 1, "owner", {})
    accepted, _ = decide_rows(place.step(task), errand, table(rows, pipeline).to_batches())
    assert place.published == {}
    return accepted


def show(place: Place, pipeline: Pipeline, results: list[pa.RecordBatch]) -> dict[str, Any]:
    """Run the last step; return what it told."""
    step = place.step(place.task(pipeline), "windows")
    (row,) = pa.Table.from_batches(epoch.publish_results(step, results), between.columns(pipeline)).to_pylist()
    note: dict[str, Any] = json.loads(row["note"])
    return note


def shown(pipeline: Pipeline, *results: dict[str, Any]) -> Place:
    """Run an epoch without records whose query gives these results."""
    place = Place()
    decide(place, pipeline, [])
    show(place, pipeline, batches_of([*results]))
    return place


def letters(place: Place) -> list[dict[str, Any]]:
    return [json.loads(value) for _, value in place.published[DEAD_LETTER, 0]]


def wrong(place: Place) -> list[str]:
    """What is wrong with each result among the dead letters."""
    return [json.loads(letter["value"])["bad_result"] for letter in letters(place) if letter["reason"] == "bad_result"]


def test_rows_are_shown_by_the_last_step_when_all_operators_have_run() -> None:
    """What an operator raises, and what it gives, is known before a sink shows a row: of records too, and files."""
    pipeline = made(ToKafka("per_user", key="user"), ToKafka("accepted", key="user"), ToFiles("archive"))
    place = Place()
    rows: list[dict[str, Any]] = [
        {"id": "a"},
        {"id": "b", "reason": "bad_x", "value": b"\xff"},
        {"id": "c", "reason": "late", "value": b"{}"},
    ]
    accepted = decide(place, pipeline, rows)
    note = show(place, pipeline, batches_of([{}]))
    assert accepted.column_names == pipeline.input.names
    assert [json.loads(value)["id"] for _, value in place.published["accepted", 0]] == ["a"]
    assert [(each["id"], each["reason"], each["encoding"]) for each in letters(place)] == [
        ("b", "bad_x", "base64"),
        ("c", "late", "utf-8"),
    ]
    assert [json.loads(value)["user"] for _, value in place.published["per_user", 0]] == ["ann"]
    assert set(note["sinks"]) | set(note["files"]) == {"accepted", "archive", DEAD_LETTER, "per_user"}
    assert note["letters"] == {}, "the first step has counted those of records"


def test_the_mark_of_every_sink_moves_with_an_epoch_of_nothing() -> None:
    place = Place()
    decide(place, TO_TOPIC, [])
    assert set(show(place, TO_TOPIC, batches_of([]))["sinks"]) == {"accepted", DEAD_LETTER, "per_user"}
    assert (place.published["per_user", 0], letters(place)) == ([], [])


UNFIT: list[tuple[Pipeline, dict[str, Any], str]] = [
    *(
        (pipeline, {"mean": value}, "mean is not a finite number")
        for pipeline in (TO_TOPIC, TO_TABLE, TO_FILES)
        for value in (float("nan"), float("inf"), float("-inf"))
    ),
    *(
        (pipeline, change, what)
        for pipeline in (TO_TOPIC, TO_TABLE, TO_FILES)
        for change, what in (
            ({"day": 2_932_897}, "day is beyond the years 1 to 9999"),
            ({"at": 253_402_300_800_000_000}, "at is beyond the years 1 to 9999"),
            ({"note": b"\xff"}, "note is no UTF-8"),
            ({"user": b"a\xffb"}, "user is no UTF-8"),
            ({"n": None}, "n is null"),
        )
    ),
    (TO_TABLE, {"note": "a\0b"}, "note has a zero byte"),
    (TO_TABLE, {"user": None}, "user is null"),
    (TO_TABLE, {"user": "u" * 2_665}, "user is longer than 2664 bytes"),
    (TO_TOPIC, {"note": "n" * 66_000}, "its texts take more than the "),
    (TO_TOPIC, {"note": "\1" * 11_000}, "its texts take more than the "),
]


@pytest.mark.parametrize(("pipeline", "change", "what"), UNFIT)
def test_a_result_that_no_sink_could_hold_is_a_dead_letter(
    pipeline: Pipeline, change: dict[str, Any], what: str
) -> None:
    """One rule for topics, tables and files, so that no two of them disagree; its neighbours are published."""
    place = Place()
    decide(place, pipeline, [{"id": "a"}])
    note = show(place, pipeline, batches_of([{"user": "bob"}, change, {"user": "cid"}]))
    (found,) = wrong(place)
    assert found.startswith(what)
    (letter,) = letters(place)
    assert (letter["id"], letter["source"]) == (None, [f"{place.name}.per_user", 0, 0])
    assert note["letters"] == {"bad_result": 1}
    if pipeline is TO_TOPIC:
        assert [key for key, _ in place.published["per_user", 0]] == [b"bob", b"cid"]
    elif pipeline is TO_TABLE:
        assert place.published["per_user", 0]["user"].to_pylist() == ["bob", "cid"]
    else:
        assert note["files"]["per_user"]["rows"] == 2


FINE: list[tuple[Pipeline, dict[str, Any]]] = [
    (TO_TOPIC, {"note": "a\0b"}),
    (TO_FILES, {"note": "a\0b"}),
    (TO_TOPIC, {"mean": None, "day": None, "at": None, "note": None}),
    (TO_TABLE, {"mean": 1.7e308, "day": 2_932_896, "at": 253_402_300_799_999_999, "user": "u" * 2_664}),
    (TO_FILES, {"user": None, "day": -719_162, "at": -62_135_596_800_000_000}),
    (TO_TOPIC, {"note": "n" * 60_000}),
]


@pytest.mark.parametrize(("pipeline", "change"), FINE)
def test_one_at_the_edge_is_published(pipeline: Pipeline, change: dict[str, Any]) -> None:
    assert letters(shown(pipeline, change)) == []


def test_of_results_that_replace_each_other_within_an_epoch_a_table_gets_none() -> None:
    """PostgreSQL refuses the statement, whoever repeats it; a topic or file holds both."""
    for pipeline, number in ((TO_TABLE, 2), (TO_TOPIC, 0), (TO_FILES, 0), (made(ToTable("per_user")), 0)):
        place = shown(pipeline, {"note": "one"}, {"n": 2}, {"note": "two"}, {"note": b"\xff", "n": 2})
        twice = [what for what in wrong(place) if what == "its key (user, n) is that of another result of this epoch"]
        assert (len(twice), len(wrong(place)) - len(twice)) == (number, 1)


ROW = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ann", "bob", b"\xff", None]),
        "mean": st.sampled_from([0.5, float("nan"), float("inf")]),
        "note": st.sampled_from(["x", "a\0b", b"\xfe", None, "n" * 70_000]),
    }
)


@example([{"user": "ann", "mean": float("nan"), "note": "x"}] * 2, TO_TABLE, random.Random(1))
@given(st.lists(ROW, max_size=8), st.sampled_from([TO_TOPIC, TO_TABLE, TO_FILES]), st.randoms(use_true_random=False))
def test_a_repeat_that_gets_results_in_another_order_tells_the_same_letters(
    rows: list[dict[str, Any]], pipeline: Pipeline, shuffled: random.Random
) -> None:
    """The order in which a shuffle brings them is no one's promise; of each result either a row or a letter comes."""
    told, numbers = [], []
    for _ in range(2):
        place = Place(name="same")
        decide(place, pipeline, [{"id": "a", "reason": "bad_x", "value": b"1"}])
        note = show(place, pipeline, batches_of(rows))
        told.append(place.published[DEAD_LETTER, 0])
        out = note["files"].get("per_user") or note["sinks"]["per_user"]
        numbers.append((out["rows"], out["rows"] + len(wrong(place))))
        shuffled.shuffle(rows)
    assert told[0] == told[1]
    assert numbers == [(numbers[0][0], len(rows))] * 2


def test_a_letter_of_a_result_larger_than_its_topic_takes_is_shortened() -> None:
    (letter,) = letters(shown(made(ToKafka("per_user", key="user")), {"note": "\1" * 2_200_000}))
    value = json.loads(letter["value"])
    assert (value["user"], len(value["note"])) == ("ann", 2_000 // (1 + len(RESULTS)))


def test_values_are_told_as_text_also_what_python_has_none_of() -> None:
    row = batches_of([{"mean": float("nan"), "day": 2_932_897, "at": 253_402_300_800_000_000, "note": b"a\xff"}])
    stateful = TO_FILES.stateful
    assert stateful is not None
    _, (unfit,) = unfit_results.split(TO_FILES, stateful, pa.Table.from_batches(row))
    assert {name: unfit[name] for name in RESULTS.names} == {
        "user": "ann",
        "n": "1",
        "mean": "nan",
        "day": "2932897",
        "at": "253402300800000000",
        "note": "a\ufffd",
    }


def test_a_repeat_gives_operators_and_sinks_the_rows_that_were_kept_first() -> None:
    """Sinks may show them: another answer of the transform comes too late."""
    place = Place()
    first = decide(place, TO_TOPIC, [{"id": "a", "amount": 1}])
    again = decide(place, TO_TOPIC, [{"id": "a", "amount": 2}])
    assert again.equals(first)
    show(place, TO_TOPIC, batches_of([]))
    assert [json.loads(value)["amount"] for _, value in place.published["accepted", 0]] == [1]


def test_rows_that_are_to_be_shown_and_are_missing_or_damaged_are_named_and_nothing_is_shown() -> None:
    place = Place()
    with pytest.raises(ChainError, match="the rows that an epoch is to show are missing or damaged") as refused:
        show(place, TO_TOPIC, batches_of([]))
    assert "the repeat makes it anew" in refused.value.todo
    decide(place, TO_TOPIC, [{"id": "a"}])
    task = place.task(TO_TOPIC)
    key = task.layout.step_record(kept_rows.STEP, task.declaration.epoch, 0, task.declaration.decides)
    body = place.store.objects[key]
    for at in (0, len(body) // 2, len(body) - 1):
        place.store.objects[key] = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        with pytest.raises(ChainError, match="its checksum is wrong"):
            show(place, TO_TOPIC, batches_of([]))
        with pytest.raises(ChainError, match="its checksum is wrong"):
            decide(place, TO_TOPIC, [{"id": "a"}])
    assert place.published == {}


def test_what_is_kept_of_an_epoch_goes_when_the_next_one_is_declared() -> None:
    place = Place()
    decide(place, TO_TOPIC, [{"id": "a"}])
    task = place.task(TO_TOPIC)
    steps = refusals.recorded_steps(TO_TOPIC, declaration(0))
    assert steps == [kept_rows.STEP]
    assert refusals.recorded_steps(replace(TO_TOPIC, stateful=None), declaration(0)) == []
    run(delete_all(recorded.records_of(steps, task.layout, 0, 1, anew=task.declaration.decides)), place.store)
    assert not [name for name in place.store.objects if "/recorded/" in name]
