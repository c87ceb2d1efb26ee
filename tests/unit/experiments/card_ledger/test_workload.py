"""Records and kills of the card ledger follow from the seed, and what is due is recomputed as the rules say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.experiments.card_ledger.payments.book import card_names
from tests.experiments.card_ledger.ways import KILLS, WAYS, plan
from tests.experiments.card_ledger.workload import (
    BEGAN_MS,
    CARD,
    CARDS,
    FAR_FUTURE_MS,
    NOBODYS_CARD,
    TIME,
    due,
    records,
    write,
)
from tests.harness.schedule import DECLARED
from tests.harness.subject import from_file

NOW_MS = BEGAN_MS + 3_600_000


def row(id_: str, amount: int = 5, card: str = "card-0001", at: int = BEGAN_MS) -> dict[str, object]:
    return {"id": id_, CARD: card, "amount_cents": amount, TIME: at}


def test_a_seed_is_a_stream_with_every_sort_of_bad_input() -> None:
    rows = list(records(7, 1_200))
    assert rows == list(records(7, 1_200)) != list(records(8, 1_200))
    amounts: dict[str, set[int]] = {}
    for one in rows:
        amounts.setdefault(one["id"], set()).add(one["amount_cents"])
    assert any(len(some) > 1 for some in amounts.values()), "an id with another amount"
    assert len(amounts) < 1_200, "copies"
    assert any(one["amount_cents"] < 0 for one in rows)
    assert any(one[CARD] == NOBODYS_CARD for one in rows)
    assert any(one[TIME] == FAR_FUTURE_MS for one in rows)
    wanted = due(rows, card_names(CARDS), NOW_MS)
    assert len(wanted.charges) > 1_000
    assert all(wanted.records[name] > 0 for name in ("accepted", "duplicate", "malformed"))
    assert (wanted.records["late"], sum(wanted.records.values())) == (0, 1_200)


@pytest.mark.parametrize(
    ("rows", "charges"),
    [
        ([row("a"), row("a"), row("b")], {"a": 5, "b": 5}),
        ([row("a"), row("a", 6)], {"a": 5}),
        ([row("a", -5), row("a", 6)], {"a": 6}),
        ([row("a", 0)], {}),
        ([row("a", card=NOBODYS_CARD)], {}),
        ([row("a", at=FAR_FUTURE_MS)], {}),
    ],
)
def test_what_is_due_is_the_first_good_record_of_an_id(rows: list[dict[str, object]], charges: dict[str, int]) -> None:
    found = due(rows, ["card-0001"], NOW_MS)
    assert {id_: amount for id_, (_, amount) in found.charges.items()} == charges
    assert found.balances == {"card-0001": sum(charges.values())}
    assert sum(found.records.values()) == len(rows)
    assert found.per_card == Counter({"card-0001": len(charges)} if charges else {})


def test_the_file_is_one_that_the_sender_takes(tmp_path: Path) -> None:
    path = tmp_path / "new" / "transactions.jsonl"
    write(path, 7, 400)
    subject = from_file(path, CARD, TIME)
    assert (subject.numbers.sent, subject.numbers.malformed_sent) == (400, 0)


@pytest.mark.parametrize("kills", [1, 2, 3, 7])
def test_each_way_gets_the_same_kills_at_its_own_names_of_the_steps(kills: int) -> None:
    plans = [plan(way, 7, kills, 2) for way in WAYS]
    for planned in zip(*plans, strict=True):
        assert len({(one.strike, one.shard, one.after_epoch) for one in planned}) == 1
    for way, mine in zip(WAYS, plans, strict=True):
        assert mine == plan(way, 7, kills, 2)
        assert {(one.step, one.sink) for one in mine} <= {way.called, way.publishing}
        assert all(one.step != DECLARED for one in mine), "nothing is called yet when an epoch is declared"
    if kills >= len(KILLS):
        assert {one.strike.target for one in plans[0]} == {"executor", "driver"}
    assert len({tuple(plan(WAYS[0], seed, 3, 2)) for seed in range(20)}) > 3
