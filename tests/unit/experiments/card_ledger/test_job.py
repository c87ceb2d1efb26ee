"""The steps of the card ledger against a real service: what is called again, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from effectively_once.epoch.whole_input import CLOSING
from effectively_once.errors import InputError, SettingsError
from effectively_once_jobs import card_ledger
from effectively_once_jobs.card_ledger import balances, payments
from effectively_once_jobs.card_ledger.charges import Charges
from effectively_once_jobs.card_ledger.payments import Payments, PaymentsError, StaleBalanceError
from effectively_once_jobs.card_ledger.transform import transactions
from tests.unit.experiments.card_ledger.conftest import Running

Begin = Callable[..., Running]
ROWS = pa.table(
    {
        "id": ["t1", "t2", "t3"],
        "card": ["card-0001", "card-0001", "card-9999"],
        "amount_cents": [5, 7, 9],
    }
)
CALLED = ["charged", "charged", "unknown_card"]


class State:
    """What Spark keeps for a card."""

    def __init__(self) -> None:
        self.kept: tuple[int, int] | None = None

    @property
    def exists(self) -> bool:
        return self.kept is not None

    @property
    def get(self) -> tuple[int, int]:
        assert self.kept is not None
        return self.kept

    def update(self, value: tuple[int, int]) -> None:
        self.kept = value


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Callable[[Running], Running]:
    """Make a service the one that steps call."""

    def named(service: Running) -> Running:
        monkeypatch.setenv(payments.VARIABLE, service.address)
        monkeypatch.setattr(payments, "BACKOFF_S", 0.0)
        return service

    return named


def tell(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run the calls of the restructured way."""
    return [row for batch in balances.tell_service(iter(batches(rows, len(rows)))) for row in batch.to_pylist()]


def batches(rows: list[dict[str, Any]], closed: int | None) -> list[pa.RecordBatch]:
    """Balances as they come to the step that tells them, and a closing row of so many, if there is one."""
    given = [{**row, CLOSING: None} for row in rows]
    if closed is not None:
        told = json.dumps({"task": 0, "tasks": 1, "rows": closed, "digest": "0"})
        given.append({**dict.fromkeys(balances.RESULTS.names), CLOSING: told})
    schema = balances.RESULTS.append(pa.field(CLOSING, pa.string()))
    return [pa.RecordBatch.from_pylist([row], schema) for row in given]


def balance(amount: int, version: int, card: str = "card-0001") -> dict[str, Any]:
    return {"card": card, "balance_cents": amount, "version": version}


@pytest.mark.parametrize(("keyed", "due"), [(False, 24), (True, 12)])
def test_a_plain_step_that_runs_again_charges_again_and_a_keyed_one_does_not(
    service: Running, here: Callable[[Running], Running], keyed: bool, due: int
) -> None:
    here(service)
    for _ in range(2):
        assert Charges(keyed=keyed)(ROWS)["outcome"].to_pylist() == CALLED
    assert service.account()["balance"] == due
    assert len({entry.caller for entry in service.entries()}) == 2, "the journal tells the runs apart"


@pytest.mark.parametrize(("keyed", "due"), [(False, 24), (True, 12)])
def test_a_call_that_is_not_answered_is_made_again(
    begin: Begin, here: Callable[[Running], Running], monkeypatch: pytest.MonkeyPatch, keyed: bool, due: int
) -> None:
    monkeypatch.setattr(payments, "TIMEOUT_S", 0.2)
    service = here(begin(late=1.0))
    assert Charges(keyed=keyed)(ROWS)["outcome"].to_pylist() == CALLED
    assert service.account()["balance"] == due


def test_503_is_tried_again_and_nothing_is_doubled(begin: Begin, here: Callable[[Running], Running]) -> None:
    service = here(begin(unavailable=1.0))
    assert Charges(keyed=False)(ROWS)["outcome"].to_pylist() == CALLED
    assert service.account()["balance"] == 12


def test_a_service_that_is_not_there_fails_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payments, "BACKOFF_S", 0.0)
    with pytest.raises(PaymentsError, match="no answer in 9 tries"):
        Payments("http://127.0.0.1:9").charge("card-0001", 5, "t1")


@pytest.mark.parametrize("address", [None, "", "127.0.0.1:80"])
def test_an_address_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    monkeypatch.delenv(payments.VARIABLE, raising=False)
    if address is not None:
        monkeypatch.setenv(payments.VARIABLE, address)
    with pytest.raises(SettingsError, match=r"EFFECTIVELY_ONCE_PAYMENTS.*Set it"):
        Charges(keyed=True)(ROWS)


def test_a_running_balance_goes_on_from_its_state() -> None:
    state = State()

    def epoch(*amounts: list[int]) -> dict[str, Any]:
        frames: Iterator[pd.DataFrame] = iter([pd.DataFrame({"amount_cents": some}) for some in amounts])
        (result,) = balances.add_amounts(("card-0001",), frames, state)
        (row,) = result.to_dict("records")
        return {str(name): value for name, value in row.items()}

    assert epoch([5, 7], [1]) == balance(13, 3)
    assert epoch([2]) == balance(15, 4)


@pytest.mark.parametrize(("came", "closed"), [(2, None), (1, 2), (0, 2), (0, None)])
def test_no_balance_is_told_before_the_input_is_known_to_be_whole(
    service: Running, here: Callable[[Running], Running], came: int, closed: int | None
) -> None:
    """What an operator gave on a part of its rows would be a balance that never was (R13)."""
    rows = [balance(5, 1), balance(7, 1, "card-0002")][:came]
    here(service)
    with pytest.raises(InputError, match="not whole"):
        list(balances.tell_service(iter(batches(rows, closed))))
    assert service.entries() == []


def test_a_balance_that_is_told_again_changes_nothing(service: Running, here: Callable[[Running], Running]) -> None:
    here(service)
    for _ in range(2):
        assert tell([balance(13, 3), balance(4, 1, "card-9999")]) == [balance(13, 3), balance(4, 1, "card-9999")]
    assert service.account() == {"balance": 13, "version": 3}


def test_a_writer_that_was_replaced_is_refused(service: Running, here: Callable[[Running], Running]) -> None:
    here(service)
    tell([balance(15, 4)])
    with pytest.raises(StaleBalanceError, match="newer balance than version 3"):
        tell([balance(13, 3)])
    with pytest.raises(PaymentsError, match="other_balance"):
        tell([balance(16, 4)])
    assert service.account() == {"balance": 15, "version": 4}


def test_the_three_ways_are_declarations_of_one_module() -> None:
    assert card_ledger.plain.recorded is not None
    assert (card_ledger.plain.recorded.function, card_ledger.keyed.recorded.function) == (  # type: ignore[union-attr]
        Charges(keyed=False),
        Charges(keyed=True),
    )
    assert card_ledger.restructured.stateful is not None
    assert {way.transform for way in (card_ledger.plain, card_ledger.keyed, card_ledger.restructured)} == {transactions}
