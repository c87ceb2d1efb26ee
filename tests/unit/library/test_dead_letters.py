"""Dead letters: what a message of the topic is, which are meant, what is told of them, and the words of a metric."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effectively_once.epoch.letter_reasons import MOST, OTHER, count_messages, count_records, limit
from effectively_once.epoch.messages import dead_letters
from effectively_once.errors import SettingsError
from effectively_once.sinks.dead_letters import (
    Cut,
    DeadLetter,
    Message,
    Selection,
    Unreadable,
    count_reasons,
    epochs,
    of_message,
    show_letters,
)

WHERE = (1, 7)


def letter(reason: str = "not_json", epoch: int = 3, identity: str | None = None, offset: int = 5) -> DeadLetter:
    return DeadLetter(reason, identity, b"{broken", epoch, ("clicks", 0, offset))


def written(value: bytes | None, epoch: int = 3, **columns: Any) -> bytes:
    """Return a dead letter as the epoch's step writes it."""
    row = {"topic": "clicks", "partition": 2, "offset": 9, "reason": "bad_time", "value": value, **columns}
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("reason", pa.string()),
            ("value", pa.binary()),
            *(("id", pa.string()) for _ in columns),
        ]
    )
    ((_, body),) = dead_letters(pa.Table.from_pylist([row], schema), epoch)
    return body


@given(st.none() | st.binary() | st.text().map(str.encode), st.none() | st.text())
def test_a_record_comes_back_byte_for_byte_from_what_the_pipeline_wrote(
    value: bytes | None, identity: str | None
) -> None:
    expected = DeadLetter("bad_time", identity, value, 3, ("clicks", 2, 9))
    assert of_message(written(value, id=identity), WHERE) == expected
    told = json.loads(expected.line())
    assert told == json.loads(written(value, id=identity))


def test_a_record_that_was_cut_is_told_by_its_size_and_digest() -> None:
    value = b"\xff" * 10_000_000
    found = of_message(written(value), WHERE)
    cut = Cut(bytes=len(value), sha256=hashlib.sha256(value).hexdigest())
    assert found == DeadLetter("bad_time", None, None, 3, ("clicks", 2, 9), cut)
    assert isinstance(found, DeadLetter)
    assert json.loads(found.line()) == json.loads(written(value))


def test_a_line_shows_text_as_it_is() -> None:
    """A person reads it: letters are not told by their numbers."""
    assert '"value": "é😀"' in DeadLetter("bad_time", None, "é😀".encode(), 3, ("clicks", 2, 9)).line()


def test_a_pipeline_without_attached_ids_writes_dead_letters_too() -> None:
    assert of_message(written(b"x"), WHERE) == DeadLetter("bad_time", None, b"x", 3, ("clicks", 2, 9))


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": -1},
        {"epoch": "3"},
        {"encoding": "latin-1"},
        {"encoding": "base64", "value": "%"},
        {"source": ["a", 1]},
        {"reason": None},
        {"value": 5},
    ],
)
def test_what_no_pipeline_wrote_is_told_apart(changes: dict[str, Any]) -> None:
    row = json.loads(written(b"x"))
    assert isinstance(of_message(json.dumps(row).encode(), WHERE), DeadLetter)
    assert of_message(json.dumps({**row, **changes}).encode(), WHERE) == Unreadable(WHERE)


@pytest.mark.parametrize("value", [None, b"", b"[]", b"\xff", b"{"])
def test_what_is_no_json_object_is_no_dead_letter(value: bytes | None) -> None:
    assert of_message(value, WHERE) == Unreadable(WHERE)


@pytest.mark.parametrize(
    ("text", "expected"), [("5", (5, 5)), ("5-9", (5, 9)), ("5-5", (5, 5)), ("5-", (5, None)), ("-9", (None, 9))]
)
def test_epochs_are_written_as_one_or_from_to(text: str, expected: tuple[int | None, int | None]) -> None:
    assert epochs(text) == expected


@pytest.mark.parametrize("text", ["", "-", "9-5", "a", "1-2-3", "1,2", " 5", "--5"])
def test_what_are_no_epochs_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="are no epochs"):
        epochs(text)


@pytest.mark.parametrize(
    ("meant", "holds"),
    [
        (Selection(), True),
        (Selection(reasons=frozenset({"late", "not_json"})), True),
        (Selection(reasons=frozenset({"late"})), False),
        (Selection(ids=frozenset({"a", "b"})), True),
        (Selection(ids=frozenset({"b"})), False),
        (Selection(epochs=(3, 3)), True),
        (Selection(epochs=(4, None)), False),
        (Selection(epochs=(None, 2)), False),
        (Selection(frozenset({"not_json"}), frozenset({"a"}), (1, 3)), True),
        (Selection(frozenset({"not_json"}), frozenset({"b"}), (1, 3)), False),
    ],
)
def test_a_selection_holds_what_meets_all_of_it(meant: Selection, holds: bool) -> None:
    assert meant.holds(letter(identity="a")) is holds


def test_a_record_without_an_id_is_not_meant_where_ids_are_given() -> None:
    assert not Selection(ids=frozenset({"None"})).holds(letter())


def test_counts_are_told_by_reason_with_their_epochs() -> None:
    found: list[Message] = [letter("late", epoch) for epoch in (9, 4, 6)]
    found += [*[letter("not_json", 2)] * 3, Unreadable(WHERE), Unreadable((2, 0)), *[letter("bad_time", 5)] * 2]
    assert list(count_reasons(found, Selection(epochs=(None, 6)))) == [
        "           3  not_json  epochs 2-2",
        "           2  (no dead letter)",
        "           2  bad_time  epochs 5-5",
        "           2  late  epochs 4-6",
        "           9  in all",
    ]


def test_the_first_that_are_meant_are_shown_and_no_more_is_read() -> None:
    messages: list[Message] = [Unreadable(WHERE), *(letter(offset=offset, epoch=offset) for offset in range(9))]
    found = iter(messages)
    lines = list(show_letters(found, Selection(epochs=(2, None)), limit=2))
    assert [json.loads(line)["source"] for line in lines] == [["clicks", 0, 2], ["clicks", 0, 3]]
    assert len(list(found)) == 5


def test_reasons_are_counted_by_their_first_word() -> None:
    reasons = ["late", "bad_time", "late", "refused_by_table orders: once", "refused_by_table orders: not null b", "“”"]
    assert count_records(pa.chunked_array([reasons[:2], reasons[2:]])) == {
        "late": 2,
        "bad_time": 1,
        "refused_by_table": 2,
        OTHER: 1,
    }
    assert count_records(pa.chunked_array([], pa.string())) == {}
    assert count_messages([(None, b'{"reason": "sum_too_large"}')] * 2) == {"sum_too_large": 2}


def test_texts_of_an_author_do_not_become_a_series_each() -> None:
    """As a reason that begins with the record's number. What is frequent keeps its word."""
    reasons = [*(f"n{number}: wrong" for number in range(1000)), *["late"] * 5]
    counted = count_records(pa.chunked_array([reasons]))
    assert (len(counted), counted["late"], sum(counted.values())) == (MOST + 1, 5, 1005)


def test_words_that_are_known_stay_and_new_ones_have_what_room_is_left() -> None:
    assert limit({"a": 1, "b": 9, "c": 5}, {"a", OTHER}, 2) == {"a": 1, "b": 9, OTHER: 5}
    assert limit({"b": 9}, {"a", "c"}, 2) == {OTHER: 9}
    assert limit({OTHER: 2, "a": 1}, (), 1) == {OTHER: 2, "a": 1}
