"""What a table refuses for constraints that somebody added is decided before any sink shows the epoch, and once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from effectively_once import Count, Pipeline, RecordedStep, Stateful, ToFiles, ToKafka, ToTable, Windowed
from effectively_once.epoch import refusals
from effectively_once.errors import ChainError, RefusedRowsError
from effectively_once.ledger.declaration import Declaration
from effectively_once.ledger.layout import Layout
from effectively_once.ledger.objects import create_once, run
from tests.unit.ledger.samples import declaration
from tests.unit.library.refusing import Constraint, Place, letters, table

COLUMNS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
PER_USER = Windowed("user", {"n": Count()}, ToTable("per_user"), totals=ToFiles("totals"))
ORDERS = Pipeline(
    lambda frame: frame,
    COLUMNS,
    rows=(ToKafka("accepted"), ToTable("orders"), ToFiles("archive")),
    windows=(PER_USER,),
    window_ms=100,
    lateness_ms=0,
)
TRIED = ("orders", "per_user")
CLOSING: dict[str, Any] = {"number": 1, "watermark_ms": 100, "tried": TRIED}
PRICE = pa.schema([("price", pa.int64())])
PRICED = RecordedStep("priced", lambda rows: pa.table({"price": list(range(rows.num_rows))}, PRICE), PRICE)


def where(name: str, column: str, *values: Any) -> Constraint:
    """Refuse rows with one of some values."""
    return lambda rows: {number: name for number, row in enumerate(rows) if row[column] in values}


def ids(place: Place, sink: str = "orders") -> list[str]:
    return [row["id"] for row in place.published[sink].to_pylist()]


def record_of(place: Place, epoch: int = 0) -> str:
    return Layout(place.name).step_record(refusals.STEP, epoch, 0)


def test_a_row_that_a_table_refuses_is_a_dead_letter_and_in_no_sink() -> None:
    """It is tried before anything shows. Counts add up, it moves no time and its id stays unknown."""
    place = Place(constraints={"orders": where("positive", "amount", -1)})
    given = table(ORDERS, {}, {"amount": -1, "event_time_ms": 90}, {}, {"reason": "bad"}, {"reason": "late"})
    carried, told = place.dedup(ORDERS, given, tried=TRIED)
    assert place.happened == ["try orders", "try orders", "show accepted", "show orders", "show dead_letter"]
    assert (ids(place), len(place.published["accepted"])) == (["i0", "i2"], 2)
    assert [(one["reason"], one["id"], one["value"], one["source"]) for one in letters(place)] == [
        ("refused_by_table orders: positive", "i1", "v1", ["t", 0, 1]),
        ("bad", "i3", "v3", ["t", 0, 3]),
        ("late", "i4", "v4", ["t", 0, 4]),
    ]
    assert {name: told[name] for name in ("read", "accepted", "late", "malformed", "duplicate")} == {
        "read": 5,
        "accepted": 2,
        "late": 1,
        "malformed": 2,
        "duplicate": 0,
    }
    assert told["max_event_time_ms"] == 5
    assert [row["v0"] for row in carried.to_pylist() if row["kind"] == "partial"] == [2]
    mended = table(ORDERS, {"id": "i0"}, {"id": "i1", "amount": 7}, {"id": "i9"})
    _, told = place.dedup(ORDERS, mended, number=1, named=place.decided(carried), tried=TRIED)
    assert (ids(place), told["duplicate"]) == (["i1", "i9"], 1)


def test_copies_that_came_with_a_refused_row_go_with_it() -> None:
    """None is taken in its place, and none is lost as a copy of something that is nowhere."""
    place = Place(constraints={"orders": where("positive", "amount", -1)})
    given = table(
        ORDERS,
        {"id": "a", "amount": -1},
        {"id": "b"},
        {"id": "a", "amount": 3},
        {"id": "b"},
        {"id": "a", "reason": "bad"},
    )
    _, told = place.dedup(ORDERS, given, tried=TRIED)
    assert (ids(place), told["accepted"], told["duplicate"], told["malformed"]) == (["b"], 1, 1, 3)
    assert [(one["source"][2], one["reason"]) for one in letters(place)] == [
        (0, "refused_by_table orders: positive"),
        (2, "refused_by_table orders: positive"),
        (4, "bad"),
    ]


def test_a_repeat_decides_as_recorded_whatever_became_of_the_constraint() -> None:
    """It was dropped, or the table has the epoch's own rows by now and would refuse them as doubles."""
    place = Place(constraints={"orders": where("positive", "amount", -1)})
    given = table(ORDERS, {}, {"amount": -1}, {})
    _, first = place.dedup(ORDERS, given, tried=TRIED)
    shown = dict(place.published)
    place.constraints.clear()
    place.happened.clear()
    _, again = place.dedup(ORDERS, given, tried=TRIED)
    assert (place.published, again["deltas"]) == (shown, first["deltas"])
    assert place.happened == ["show accepted", "show orders", "show dead_letter"]
    assert (first["repeated"], again["repeated"]) == (False, True)


def test_where_nothing_was_declared_to_be_tried_nothing_is_asked_or_recorded() -> None:
    """A constraint that came after the declaration stops the epoch, as it always did."""
    place = Place(constraints={"orders": where("positive", "amount", -1)})
    with pytest.raises(RefusedRowsError):
        place.dedup(ORDERS, table(ORDERS, {}, {"amount": -1}))
    assert place.happened == ["show accepted"]
    assert not any(refusals.STEP in key for key in place.store.objects)


def test_no_rows_are_not_tried() -> None:
    place = Place()
    place.dedup(ORDERS, table(ORDERS, {"reason": "bad"}), tried=TRIED)
    assert "try orders" not in place.happened
    assert record_of(place) not in place.store.objects


def test_every_table_takes_what_is_left_of_the_others() -> None:
    """The first of two rows is refused by another table: then the second is not one too many here."""

    def once(rows: list[dict[str, Any]]) -> dict[int, str]:
        """Refuse a row whose partner, the row that it names, is not there."""
        there = {row["id"] for row in rows}
        return {number: "partner" for number, row in enumerate(rows) if row["user"] not in {"ann", *there}}

    pipeline = replace(ORDERS, rows=(ToKafka("accepted"), ToTable("orders"), ToTable("others")))
    place = Place(constraints={"orders": once, "others": where("positive", "amount", -1)})
    given = table(pipeline, {"id": "a", "user": "b"}, {"id": "b", "amount": -1}, {"id": "c"})
    place.dedup(pipeline, given, tried=("orders", "others"))
    assert ids(place) == ids(place, "others") == ["c"]
    assert {one["id"]: one["reason"] for one in letters(place)} == {
        "a": "refused_by_table orders: partner",
        "b": "refused_by_table others: positive",
    }


@pytest.mark.parametrize("mode", ["attached", "coordinates"])
def test_the_table_is_asked_with_what_a_recorded_step_adds(mode: Any) -> None:
    """Its record is for all rows, those too that the table refuses: a repeat reads both."""
    pipeline = replace(ORDERS, recorded=PRICED, windows=(), ids=mode)
    place = Place(constraints={"orders": where("cheap", "price", 1)})
    given = table(pipeline, {}, {}, {})
    for _ in range(2):
        place.dedup(pipeline, given, tried=("orders",))
        assert [(row["offset"], row["price"]) for row in place.published["orders"].to_pylist()] == [(0, 0), (2, 2)]
        assert [one["source"][2] for one in letters(place)] == [1]


def opened_windows(place: Place) -> Any:
    given = table(ORDERS, {"user": "ann"}, {"user": "ann"}, {"user": "bob"}, {"user": "cem", "event_time_ms": 150})
    carried, _ = place.dedup(ORDERS, given, tried=TRIED)
    return place.decided(place.aggregate(ORDERS, carried, tried=TRIED))


def test_a_result_that_a_table_refuses_is_a_dead_letter_of_the_epoch_that_closes_its_window() -> None:
    """Known before the first sink shows a row; by key, window and constraint. Totals are of all results."""
    place = Place(constraints={"per_user": where("few", "n", 2)})
    named = opened_windows(place)
    for attempt in range(2):
        place.happened.clear()
        carried, told = place.dedup(ORDERS, table(ORDERS, {"event_time_ms": 170}), named=named, **CLOSING)
        assert place.happened[0] == ("show accepted" if attempt else "try orders")
        assert ("try per_user" in place.happened) == (not attempt)
        (letter,) = letters(place)
        assert json.loads(letter.pop("value")) == {"user": "ann", "window_start_ms": 0, "n": "2"}
        assert letter == {
            "reason": "result_refused_by_table per_user: few",
            "id": None,
            "encoding": "utf-8",
            "epoch": 1,
            "source": [f"{place.name}.per_user", 0, 0],
        }
        assert (told["accepted"], told["malformed"]) == (1, 0)
        found = place.aggregate(ORDERS, carried, named=named, **CLOSING)
        assert place.published["per_user"].to_pylist() == [{"user": "bob", "window_start_ms": 0, "n": 1}]
        assert [row["v0"] for row in found.to_pylist() if row["kind"] == "total"] == [3]
        place.constraints.clear()


def test_results_are_tried_until_the_table_takes_all_that_is_left() -> None:
    """Without the first the second is one too few: the table would refuse it where rows are shown by then."""

    def both(rows: list[dict[str, Any]]) -> dict[int, str]:
        users = {row["user"] for row in rows}
        return {
            number: "both"
            for number, row in enumerate(rows)
            if row["n"] == 2 or (row["user"] == "bob" and "ann" not in users)
        }

    place = Place()
    named = opened_windows(place)
    place.constraints["per_user"] = both
    carried, _ = place.dedup(ORDERS, table(ORDERS), named=named, **CLOSING)
    place.aggregate(ORDERS, carried, named=named, **CLOSING)
    assert [json.loads(letter["value"])["user"] for letter in letters(place)] == ["ann", "bob"]
    assert place.published["per_user"].num_rows == 0


def test_a_record_that_is_damaged_or_missing_is_named() -> None:
    """Deciding anew might come to something else than what is visible."""
    place = Place(constraints={"orders": where("positive", "amount", -1)})
    given = table(ORDERS, {}, {"amount": -1})
    place.dedup(ORDERS, given, tried=TRIED)
    key = record_of(place)
    content = place.store.objects[key]
    unsealed = b'{"results":{},"rows":{}}'
    for wrong in (content[:-3], content.replace(b"positive", b"negative"), b"[]", b"{}", unsealed):
        damaged = Place(name=place.name)
        run(create_once(key, wrong), damaged.store)
        with pytest.raises(ChainError, match="a record of what tables refuse is missing or damaged"):
            damaged.dedup(ORDERS, given, tried=TRIED)
        assert damaged.published == {}
    named = opened_windows(place := Place())
    carried, _ = place.dedup(ORDERS, table(ORDERS), named=named, **CLOSING)
    del place.store.objects[record_of(place, 1)]
    with pytest.raises(ChainError, match="a record of what tables refuse is missing or damaged"):
        place.aggregate(ORDERS, carried, named=named, **CLOSING)


def test_which_tables_can_be_tried_and_which_values_are_kept() -> None:
    """Results of a stateful query follow the first step, which has shown rows by then."""
    query = Stateful(lambda rows: rows, by="user", schema=pa.schema([("user", pa.string())]), to=ToTable("results"))
    stateful = replace(ORDERS, windows=(), stateful=query)
    assert refusals.triable(ORDERS) == ("orders", "per_user")
    assert refusals.triable(stateful) == ("orders",)
    assert refusals.triable(replace(stateful, ids="coordinates")) == ()
    assert [refusals.keeps_values(ORDERS, tried) for tried in (TRIED, ("per_user",), ())] == [True, False, False]


def test_a_declaration_tells_what_is_tried_only_where_something_is() -> None:
    """Older versions refuse fields that they do not know, and no checksum may change."""
    assert "tried" not in declaration(0).model_dump()
    tried = declaration(0).model_copy(update={"tried": TRIED})
    assert Declaration.model_validate_json(tried.model_dump_json()) == tried
    recorded = replace(ORDERS, recorded=PRICED)
    assert refusals.recorded_steps(recorded, declaration(0)) == ["priced"]
    assert refusals.recorded_steps(ORDERS, tried) == ["_tables"]
