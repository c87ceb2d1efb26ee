"""Counts add up, or it is said which do not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.checkers.adding_up import LATE, PARTS, complaints, published_epochs, sums

Row = dict[str, Any]


def with_left_out(row: Row, **left_out: int) -> Row:
    return {**row, "in": row["in"] + sum(left_out.values()), "filtered": left_out}


def epoch(number: int, accepted: int = 0, late: int = 0, duplicate: int = 0, malformed: int = 0) -> Row:
    parts = {"accepted": accepted, "late": late, "duplicate": duplicate, "malformed": malformed}
    return {"event": "epoch", "state": "published", "epoch": number, "in": sum(parts.values()), **parts}


SOME: Row = {"reason": LATE, "source": ["events", 0, 0]}


def letters(late: int, malformed: int) -> list[Row]:
    return [{"reason": LATE if n < late else "not_json", "source": ["events", 0, n]} for n in range(late + malformed)]


EPOCHS = [epoch(0, accepted=5, duplicate=1), epoch(1, accepted=3, late=2, malformed=1)]


def test_what_adds_up_is_not_complained_of() -> None:
    assert complaints(EPOCHS, 12, letters(2, 1)) == []
    assert complaints(EPOCHS, 12) == []
    assert sums(EPOCHS) == {"in": 12, "accepted": 8, "late": 2, "duplicate": 1, "malformed": 1}


def test_what_a_transform_leaves_out_is_a_part() -> None:
    epochs = [with_left_out(EPOCHS[0], bot=2, probe=1), EPOCHS[1]]
    assert complaints(epochs, 15, letters(2, 1)) == []
    assert sums(epochs) == {"in": 15, "accepted": 8, "late": 2, "duplicate": 1, "malformed": 1, "filtered": 3}
    epochs[0]["filtered"]["bot"] += 1
    (line,) = complaints(epochs, 15)
    assert line == "epoch 0: in is 9, and not 5 accepted + 0 late + 1 duplicate + 0 malformed + 4 filtered = 10"


def test_an_epoch_that_is_repeated_counts_once() -> None:
    assert complaints([EPOCHS[0], *EPOCHS], 12, letters(2, 1)) == []


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 4), min_size=1, max_size=5), st.data())
def test_one_count_that_is_one_off_is_found(counts: list[tuple[int, ...]], data: st.DataObject) -> None:
    epochs = [epoch(number, *parts) for number, parts in enumerate(counts)]
    held = sum(map(sum, counts))
    assert complaints(epochs, held) == []
    tampered = data.draw(st.sampled_from(epochs))
    tampered[data.draw(st.sampled_from(["in", *PARTS]))] += data.draw(st.sampled_from([-1, 1]))
    assert f"epoch {tampered['epoch']}: in is {tampered['in']}" in complaints(epochs, held)[0]


@pytest.mark.parametrize(
    ("epochs", "held", "dead", "says"),
    [
        # Sums that hold for each epoch, and not with what is beside them.
        (EPOCHS, 13, None, "the epochs read 12 records, the topic holds 13"),
        (EPOCHS[:1], 12, None, "the epochs read 6 records, the topic holds 12"),
        (EPOCHS, 12, letters(1, 2), "2 records are counted as late, 1 dead letters say so"),
        (EPOCHS, 12, letters(2, 0), "1 records are counted as malformed, 0 dead letters say so"),
        (
            EPOCHS,
            12,
            [SOME, SOME, {**SOME, "reason": "x"}],
            "the record at ('events', 0, 0) is a dead letter more than",
        ),
        ([{"epoch": 3, "in": 1}], 1, None, "epoch 3 does not tell its accepted, late, duplicate, malformed"),
        ([{**EPOCHS[0], "late": "0"}], 6, None, "epoch 0 does not tell its late"),
    ],
)
def test_what_does_not_add_up_is_named(epochs: list[Row], held: int, dead: list[Row] | None, says: str) -> None:
    assert any(line.startswith(says) for line in complaints(epochs, held, dead)), complaints(epochs, held, dead)


def test_a_history_tells_publications_and_much_else() -> None:
    others: list[Row] = [{"event": "epoch", "epoch": 0, "state": "declared"}, {"event": "phase", "phase": "drain"}]
    assert published_epochs([*others, *EPOCHS]) == EPOCHS


def test_records_of_several_rows_are_what_the_topic_holds_and_each_has_a_row() -> None:
    first = {"epoch": 0, "in": 5, "accepted": 5, "late": 0, "duplicate": 0, "malformed": 0, "records": 2}
    # Its records were counted where their first rows were taken.
    rest = {**first, "epoch": 1, "in": 3, "accepted": 3, "records": 0}
    assert sums([first, rest])["records"] == 2
    assert complaints([first, rest], 2) == []
    assert complaints([first, rest], 8) == ["the epochs read 2 records, the topic holds 8"]
    (line,) = complaints([{**first, "records": 6}], 6)
    assert line == "epoch 0: 5 rows are of 6 records, each of which has one"
    letters = [{"reason": "bad", "source": ["t", 0, 0], "pos": pos} for pos in (0, 1)]
    refused = {**first, "accepted": 3, "malformed": 2}
    assert complaints([refused], 2, letters) == []
    (line,) = complaints([refused], 2, [letters[0], letters[0]])
    assert line == "the record at ('t', 0, 0, 0) is a dead letter more than once"
