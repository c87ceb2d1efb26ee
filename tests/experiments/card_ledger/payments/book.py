"""What the payment service decides: accounts, idempotency keys and versions; pure, without a socket or a clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=200)]
Outcome = Literal["charged", "set", "repeated", "refused", "unavailable"]
"""`repeated`: recognised as a call that took effect before; nothing happened again."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Charge(_Frozen):
    """Take an amount (whole number of the smallest unit, at least 1) from a card: each call takes it once more.

    `transaction` is for the statement alone. Only an idempotency key lets the service tell a repeat.
    """

    card: Text
    amount: int
    transaction: Text
    key: Text | None = None


class SetCardBalance(_Frozen):
    """What was taken from a card in all comes to `balance`; `version` grows with it, and an older one is refused."""

    card: Text
    balance: int
    version: int


Call = Charge | SetCardBalance


class Entry(_Frozen):
    """What came of a call: a line of the journal.

    Attributes:
        n: number of the line, from 0.
        t: ms since 1970.
        caller: who called, as it says; one run of a step has one name.
        call: what was asked.
        outcome: see Outcome.
        code: why it was refused.
        balance: of the card, once the entry holds.
        late: whether the answer is withheld: it took effect, and the caller does not learn it.
    """

    n: int
    t: int
    caller: str
    call: Charge | SetCardBalance
    outcome: Outcome
    code: str | None = None
    balance: int | None = None
    late: bool = False

    @property
    def effective(self) -> bool:
        """Whether it changed an account."""
        return self.outcome in ("charged", "set")


class RefusedError(Exception):
    """The call is wrong, and wrong again when it is repeated; `code` for machines, `status` of HTTP."""

    def __init__(self, status: int, code: str, says: str) -> None:
        super().__init__(says)
        self.status, self.code = status, code


@dataclass
class Account:
    """What was taken from a card so far, and the version of the last balance set."""

    balance: int = 0
    version: int = 0


class Book:
    """The accounts. `decide` changes nothing; `apply` takes in what the journal holds.

    Args:
        cards: those that there are.
    """

    def __init__(self, cards: Iterable[str]) -> None:
        self.accounts = {card: Account() for card in cards}
        self._keys: dict[str, Charge] = {}

    def decide(self, call: Call) -> tuple[Outcome, int]:
        """Outcome of a call now, and the card's balance after it.

        Raises:
            RefusedError: it is none that may take effect.
        """
        account = self.accounts.get(call.card)
        if account is None:
            raise RefusedError(404, "unknown_card", f"there is no card {call.card!r}")
        return self._charge(call, account) if isinstance(call, Charge) else _balance_set(call, account)

    def apply(self, entry: Entry) -> None:
        """Take in an entry of the journal."""
        if not entry.effective:
            return
        account, call = self.accounts[entry.call.card], entry.call
        if isinstance(call, SetCardBalance):
            account.balance, account.version = call.balance, call.version
            return
        account.balance += call.amount
        if call.key is not None:
            self._keys[call.key] = call

    def _charge(self, call: Charge, account: Account) -> tuple[Outcome, int]:
        if call.amount < 1:
            raise RefusedError(422, "bad_amount", f"amount {call.amount} is not at least 1")
        before = self._keys.get(call.key) if call.key is not None else None
        if before is None:
            return "charged", account.balance + call.amount
        if before != call:
            raise RefusedError(
                409,
                "other_payload",
                f"key {call.key!r} was used for {before.amount} of card {before.card!r}, transaction "
                f"{before.transaction!r}; a new charge needs a new key",
            )
        return "repeated", account.balance


def card_names(count: int) -> list[str]:
    """Names of that many cards."""
    return [f"card-{number:04d}" for number in range(count)]


def _balance_set(call: SetCardBalance, account: Account) -> tuple[Outcome, int]:
    if call.balance < 0 or call.version < 1:
        raise RefusedError(422, "bad_balance", "a balance is at least 0, and its version at least 1")
    if call.version < account.version:
        raise RefusedError(
            412, "stale_version", f"card {call.card!r} has version {account.version}, and {call.version} is older"
        )
    if call.version > account.version:
        return "set", call.balance
    if call.balance != account.balance:
        raise RefusedError(
            409,
            "other_balance",
            f"version {call.version} of card {call.card!r} is {account.balance}, and not {call.balance}",
        )
    return "repeated", account.balance
