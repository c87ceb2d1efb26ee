"""The judge of the card ledger: a run that shows what it claims passes, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.experiments.card_ledger.judge import JOURNAL, directory_of, judge
from tests.experiments.card_ledger.payments.book import Charge, SetCardBalance
from tests.experiments.card_ledger.results import CardResults
from tests.experiments.card_ledger.show import markdown
from tests.experiments.card_ledger.ways import KEYED, PLAIN, RESTRUCTURED, Way
from tests.harness.evidence import EvidenceError
from tests.harness.results import Verdict
from tests.unit.experiments.card_ledger import runs

FIRST, CARD = runs.DOUBLED[0], "card-0003"
Change = Callable[[Path], object]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return runs.recorded(tmp_path)


def again(key: str | None = None) -> Charge:
    """A charge that is due, once more."""
    (call,) = {call for _, call in runs.calls_of(PLAIN) if call.transaction == FIRST}
    return Charge(card=call.card, amount=call.amount, transaction=FIRST, key=key)


def test_a_run_that_shows_it_passes(run: Path) -> None:
    results = judge(run)
    assert (results.verdict, results.reasons) == (Verdict.PASS, ())
    plain, keyed, restructured = (results.way(way.name) for way in (PLAIN, KEYED, RESTRUCTURED))
    assert (plain.doubled, plain.doubled_by_replay, plain.doubled_by_retry) == (3, 3, 0)
    assert plain.charged == plain.asked + 3 == plain.calls
    assert plain.balances_wrong > 0
    assert (keyed.doubled, keyed.repeated, keyed.calls) == (0, 3, keyed.asked + 3)
    assert (restructured.doubled, restructured.repeated, restructured.charged) == (0, 40, restructured.asked)
    assert (restructured.stale, restructured.refused) == (40, 0)
    assert CardResults.model_validate_json((run / "results.json").read_bytes()) == results


def without(way: Way, *transactions: str, also: Sequence[tuple[str, Any]] = ()) -> Change:
    return lambda run: runs.without(run, way, *transactions, also=also)


def change_history(way: Way, event: str, **change: object) -> Change:
    return lambda run: runs.changed_history(run, way, change, event)


def charge(transaction: str, key: str | None = None) -> list[tuple[str, Charge]]:
    return [("c", Charge(card=CARD, amount=1, transaction=transaction, key=key))]


LATE = "plain: of the records became [0-9]+ accepted, 0 duplicate, 1 late, .*; due are .* 0 late, .*"
TOO_MUCH = [("c", SetCardBalance(card=CARD, balance=10**9, version=99))]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without(PLAIN, FIRST), "plain: 1 transactions were not charged"),
        (without(KEYED, FIRST), "keyed: 1 transactions were not charged"),
        (without(RESTRUCTURED, CARD), "restructured: [0-9]+ transactions were not charged"),
        (without(KEYED, also=[("c", again("another"))]), "keyed: 1 double charges"),
        (without(KEYED, also=[("c", again("another"))]), "keyed: 1 balances are wrong"),
        (without(RESTRUCTURED, also=TOO_MUCH), "restructured: [0-9]+ double charges"),
        (change_history(PLAIN, "epoch", duplicate=0, late=1), LATE),
        (without(PLAIN, also=charge("nobody's")), "plain: 1 charges that nobody asked for"),
        (without(KEYED, also=charge(FIRST, "k")), "keyed: 1 charges that nobody asked for"),
    ],
)
def test_what_refutes_the_claim_fails(run: Path, change: Change, reason: str) -> None:
    change(run)
    results = judge(run)
    assert results.verdict is Verdict.FAIL
    assert any(re.fullmatch(reason, one) for one in results.reasons), results.reasons


@pytest.mark.parametrize("count", ["in", "accepted", "late", "duplicate", "malformed"])
def test_a_count_that_is_one_off_does_not_add_up(run: Path, count: str) -> None:
    off = {"in": runs.RECORDS, **runs.WANTED.records}
    change_history(KEYED, "epoch", **{count: off[count] + 1})(run)
    results = judge(run)
    assert results.verdict is Verdict.FAIL
    assert any(one.startswith("keyed: epoch 3: in is") for one in results.reasons), results.reasons


def test_a_balance_of_the_right_number_and_another_sum_is_wrong(run: Path) -> None:
    calls = [
        (caller, call.model_copy(update={"balance": call.balance + 1}) if call.card == CARD else call)
        for caller, call in runs.calls_of(RESTRUCTURED)
    ]
    called(RESTRUCTURED, lambda _: calls)(run)
    assert judge(run).reasons == ("restructured: 1 balances are wrong",)


def journal_of(run: Path, way: Way) -> Path:
    return directory_of(run, way).path / JOURNAL


def called(way: Way, calls: Callable[[list[tuple[str, Any]]], Sequence[tuple[str, Any]]]) -> Change:
    """The journal of a way has these calls instead."""
    return lambda run: runs.write_journal(directory_of(run, way), runs.journal(calls([*runs.calls_of(way)])))


def only_once(way: Way) -> Change:
    return called(way, lambda calls: [one for one in calls if one[0] == "a"])


def swap(way: Way, other: Way) -> Change:
    return lambda run: journal_of(run, way).write_bytes(journal_of(run, other).read_bytes())


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def cut(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


REST = [("a", call) for caller, call in runs.calls_of(PLAIN) if caller == "b" and call.transaction != FIRST]
"""The rest of what was doubled, made once."""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without(PLAIN, *runs.DOUBLED, also=[("a", again()), *REST]), "plain: no kill doubl"),
        (change_history(KEYED, "fault", hit=False), "keyed: 0 of 2 kills hit"),
        (change_history(KEYED, "epoch", repeat=False), "keyed: no epoch was repeated"),
        (only_once(KEYED), "keyed: no call was made again"),
        (only_once(RESTRUCTURED), "restructured: no call was made again"),
        (only_once(RESTRUCTURED), "restructured: no balance came after a newer one"),
        (
            called(KEYED, lambda calls: [("a", call) for _, call in calls]),
            "keyed: no call was made again by another run",
        ),
        (lambda run: runs.cut_sent(run, PLAIN), "plain: 299 of 300 records were acknowledged"),
        (lambda run: journal_of(run, PLAIN).unlink(), "plain: journal cannot be read"),
        (lambda run: tear(journal_of(run, KEYED)), "keyed: the last entry of the journal is torn"),
        (swap(KEYED, PLAIN), "keyed: the journal holds calls without a key"),
        (swap(RESTRUCTURED, KEYED), "restructured: the journal holds calls of another way"),
        (lambda run: cut(directory_of(run, PLAIN).history_path), "plain: the history does not come to its end"),
    ],
)
def test_what_shows_nothing_is_unknown(run: Path, change: Change, reason: str) -> None:
    change(run)
    results = judge(run)
    assert results.verdict is Verdict.UNKNOWN
    assert any(one.startswith(reason) for one in results.reasons), results.reasons


def test_a_call_made_again_by_one_run_of_a_step_is_told_apart(run: Path) -> None:
    called(PLAIN, lambda calls: [one for call in calls for one in (call, call)])(run)
    plain = judge(run).way(PLAIN.name)
    assert (plain.doubled_by_replay, plain.doubled_by_retry) == (3, plain.asked + 3)


def test_a_run_without_a_manifest_cannot_be_judged(run: Path) -> None:
    (run / "manifest.json").write_bytes(orjson.dumps({"seed": 7}))
    with pytest.raises(EvidenceError, match="no manifest"):
        judge(run)


def test_the_table_is_kept_with_the_verdict(run: Path) -> None:
    results = judge(run)
    assert (run / "table.md").read_text() == markdown(results) + "\n"
