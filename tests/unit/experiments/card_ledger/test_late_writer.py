"""A writer that comes too late is refused by the service, and one that is not refused is told."""

from __future__ import annotations

from typing import cast

import pytest

from effectively_once_jobs.card_ledger.payments import PaymentsError
from tests.experiments.card_ledger.payments.server import PaymentService
from tests.experiments.card_ledger.play import tell_late
from tests.unit.experiments.card_ledger.conftest import Running


def test_older_balances_are_refused(service: Running) -> None:
    for version in (1, 2, 3):
        service.set(10 * version, version)
    service.set(10, 1, "card-0002")
    assert tell_late(cast("PaymentService", service)) == 1, "of the other card there is no older one"
    assert service.account() == {"balance": 30, "version": 3}
    assert service.entries()[-1].code == "stale_version"


def test_a_service_that_takes_them_is_found_out(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    service.set(10, 1)
    service.set(20, 2)
    monkeypatch.setattr(
        "tests.experiments.card_ledger.payments.book._balance_set", lambda call, _: ("set", call.balance)
    )
    with pytest.raises(PaymentsError, match="version 1 of card 'card-0001' was taken"):
        tell_late(cast("PaymentService", service))
