"""The payment service over real sockets: what takes effect is in its journal first, and what is wrong is refused."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
import urllib3

from effectively_once_jobs.card_ledger.payments import PaymentsError
from tests.experiments.card_ledger.payments.journal import Journal, entries
from tests.experiments.card_ledger.payments.mischief import Mischief
from tests.experiments.card_ledger.payments.server import PaymentService
from tests.experiments.card_ledger.play import tell_late
from tests.harness.evidence import EvidenceError
from tests.unit.experiments.card_ledger.conftest import Running

Begin = Callable[..., Running]


def test_a_charge_without_a_key_is_made_as_often_as_it_is_asked_for(service: Running) -> None:
    assert [service.charge() for _ in range(2)] == [
        (200, {"outcome": "charged", "balance": 5}),
        (200, {"outcome": "charged", "balance": 10}),
    ]
    assert service.account() == {"balance": 10, "version": 0}


def test_a_charge_with_a_key_is_made_once_however_many_ask_at_a_time(service: Running) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: service.charge(Idempotency_Key="k"), range(24)))
    assert sorted(answer["outcome"] for _, answer in answers) == ["charged"] + ["repeated"] * 23
    assert service.account()["balance"] == 5
    assert sum(entry.effective for entry in service.entries()) == 1
    service.charge(Idempotency_Key="another")
    assert service.account()["balance"] == 10


@pytest.mark.parametrize("other", [{"amount": 6}, {"card": "card-0002"}])
def test_a_key_with_another_payload_is_refused(service: Running, other: dict[str, object]) -> None:
    service.charge(Idempotency_Key="k")
    status, answer = service.charge(**other, Idempotency_Key="k")  # type: ignore[arg-type]
    assert (status, answer["error"]) == (409, "other_payload")
    assert "'k' was used for 5 of card 'card-0001'" in answer["says"]
    assert service.account("card-0002")["balance"] == 0


def test_a_balance_is_set_as_often_as_it_is_told(service: Running) -> None:
    assert [service.set(70, 3)[1]["outcome"] for _ in range(3)] == ["set", "repeated", "repeated"]
    assert service.account() == {"balance": 70, "version": 3}


def test_a_stale_writer_changes_nothing(service: Running) -> None:
    service.set(70, 3)
    status, answer = service.set(40, 2)
    assert (status, answer["error"]) == (412, "stale_version")
    assert service.set(71, 3)[1]["error"] == "other_balance"
    assert service.account() == {"balance": 70, "version": 3}
    assert [entry.code for entry in service.entries()] == [None, "stale_version", "other_balance"]


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("charge", {"card": "card-9999", "amount": 5, "transaction": "t"}, 404, "unknown_card"),
        ("charge", {"card": "card-0001", "amount": -5, "transaction": "t"}, 422, "bad_amount"),
        ("charge", {"card": "card-0001", "amount": 0, "transaction": "t"}, 422, "bad_amount"),
        ("charge", {"card": "card-0001", "amount": 1.5, "transaction": "t"}, 400, "bad_request"),
        ("charge", {"card": "card-0001", "amount": "5", "transaction": "t"}, 400, "bad_request"),
        ("charge", {"card": "card-0001", "amount": True, "transaction": "t"}, 400, "bad_request"),
        ("charge", {"card": "card-0001", "amount": 5}, 400, "bad_request"),
        ("charge", {"card": "card-0001", "amount": 5, "transaction": "t", "key": "k"}, 400, "bad_request"),
        ("charge", {"card": "card-0001", "amount": 5, "transaction": "t", "more": 1}, 400, "bad_request"),
        ("charge", b"{broken", 400, "bad_request"),
        ("charge", b"[]", 400, "bad_request"),
        ("charge", b"x" * 10_001, 400, "bad_request"),
        ("set_card_balance", {"card": "card-9999", "balance": 5, "version": 1}, 404, "unknown_card"),
        ("set_card_balance", {"card": "card-0001", "balance": -5, "version": 1}, 422, "bad_balance"),
        ("set_card_balance", {"card": "card-0001", "balance": 5, "version": 0}, 422, "bad_balance"),
        ("refund", {"card": "card-0001", "amount": 5, "transaction": "t"}, 404, "no_such_path"),
    ],
)
def test_bad_input_is_refused_by_name_and_changes_nothing(
    service: Running, path: str, body: object, status: int, error: str
) -> None:
    found, answer = service.post(path, body)
    assert (found, answer["error"]) == (status, error)
    assert answer["says"]
    assert service.account() == {"balance": 0, "version": 0}
    assert not any(entry.effective for entry in service.entries())
    assert service.charge()[0] == 200, "the service goes on"


def test_a_call_without_a_length_is_refused(service: Running) -> None:
    connection = http.client.HTTPConnection(service.address.removeprefix("http://"), timeout=10)
    connection.putrequest("POST", "/charge")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


def test_a_withheld_answer_is_of_a_charge_that_was_made(begin: Begin) -> None:
    service = begin(late=1.0)
    with pytest.raises(urllib3.exceptions.TimeoutError):
        service.post("charge", {"card": "card-0001", "amount": 5, "transaction": "t1"}, 0.2)
    assert service.account()["balance"] == 5
    assert [(entry.outcome, entry.late) for entry in service.entries()] == [("charged", True)]
    assert service.charge() == (200, {"outcome": "charged", "balance": 10}), "the second call comes through"


def test_503_is_of_a_charge_that_was_not_made(begin: Begin) -> None:
    service = begin(unavailable=1.0)
    assert service.charge()[0] == 503
    assert service.account()["balance"] == 0
    assert service.charge() == (200, {"outcome": "charged", "balance": 5})


def test_a_service_goes_on_where_its_journal_ends(begin: Begin) -> None:
    first = begin()
    first.charge(Idempotency_Key="k")
    first.set(70, 3, "card-0002")
    second = begin(unavailable=1.0)
    assert second.account()["balance"] == 5
    assert second.charge(Idempotency_Key="k")[1]["outcome"] == "repeated", "a second call about it, beyond trouble"
    assert second.account("card-0002") == {"balance": 70, "version": 3}
    assert [entry.n for entry in second.entries()] == [0, 1, 2]


def test_an_entry_that_a_kill_tore_is_cut_off(tmp_path: Path, service: Running) -> None:
    service.charge()
    with service.journal.open("ab") as file:
        file.write(b'{"n":1,"t":')
    with pytest.raises(EvidenceError, match="torn"):
        list(entries(service.journal))
    journal = Journal(service.journal)
    assert [entry.n for entry in journal.kept] == [0]
    journal.close()
    assert len(service.entries()) == 1


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda lines: lines[1:], "entry 1 stands where 0 is due"),
        (lambda lines: [lines[0], b"{}\n"], "no entry"),
        (lambda lines: [lines[0].replace(b'"charged"', b'"maybe"'), lines[1]], "no entry"),
    ],
)
def test_a_journal_that_was_changed_is_no_ground_truth(
    service: Running, damage: Callable[[list[bytes]], list[bytes]], says: str
) -> None:
    for _ in range(2):
        service.charge()
    service.journal.write_bytes(b"".join(damage(service.journal.read_bytes().splitlines(keepends=True))))
    with pytest.raises(EvidenceError, match=says):
        service.entries()


def test_trouble_is_drawn_from_the_seed_and_befalls_first_calls_alone(begin: Begin) -> None:
    def troubled(service: Running) -> list[str]:
        bodies = [{"card": "card-0001", "amount": 1, "transaction": f"t{n}"} for n in range(100)]
        for body in bodies * 2:
            service.post("charge", body)
        return [e.call.transaction for e in service.entries() if e.outcome == "unavailable"]  # type: ignore[union-attr]

    first = troubled(begin(unavailable=0.3))
    assert 15 < len(first) == len(set(first)) < 45


@pytest.mark.parametrize("shares", [{"late": -0.1}, {"late": 0.6, "unavailable": 0.5}])
def test_shares_that_are_none_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="shares of calls"):
        Mischief(1, shares.get("late", 0.0), shares.get("unavailable", 0.0))


def test_a_killed_process_comes_back_with_every_account(tmp_path: Path) -> None:
    service = PaymentService(tmp_path / "journal.jsonl", tmp_path / "service.log", 2, Mischief(1))
    service.start()
    try:
        running = Running(service.address, service.journal)
        running.charge(Idempotency_Key="k")
        service.kill()
        assert not service.running()
        service.restart()
        assert running.charge(Idempotency_Key="k")[1]["outcome"] == "repeated"
        assert service.cards() == {"card-0000": {"balance": 0, "version": 0}, "card-0001": {"balance": 5, "version": 0}}
    finally:
        service.stop()
    assert service._child is not None
    assert service._child.status() == 0, "SIGTERM ends it in order"


def test_a_writer_that_comes_too_late_is_refused(service: Running) -> None:
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
