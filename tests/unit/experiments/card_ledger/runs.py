"""Run directories of the card ledger, as a run leaves them: small, exact, and then changed by tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.experiments.card_ledger.judge import JOURNAL, directory_of
from tests.experiments.card_ledger.payments.book import Book, Charge, Entry, RefusedError, SetCardBalance, card_names
from tests.experiments.card_ledger.ways import KEYED, RESTRUCTURED, WAYS, Way, plan
from tests.experiments.card_ledger.workload import CARDS, due, records
from tests.harness.history import History
from tests.harness.run_directory import LinesWriter, RunDirectory, read_lines

SEED, RECORDS, KILLS, STARTED_MS = 7, 300, 2, 1_800_000_000_000
WANTED = due(records(SEED, RECORDS), card_names(CARDS), STARTED_MS)
COUNTS = {"in": RECORDS, **WANTED.records}
DOUBLED = tuple(WANTED.charges)[2:5]
"""Transactions whose step ran twice."""


def journal(calls: Sequence[tuple[str, Any]]) -> list[Entry]:
    """What a service writes of calls, each with its caller."""
    book, told = Book(card_names(CARDS)), []
    for n, (caller, call) in enumerate(calls):
        fields: dict[str, Any] = {"n": n, "t": STARTED_MS + n, "caller": caller, "call": call}
        try:
            outcome, balance = book.decide(call)
            entry = Entry(**fields, outcome=outcome, balance=balance)
        except RefusedError as refused:
            entry = Entry(**fields, outcome="refused", code=refused.code)
        book.apply(entry)
        told.append(entry)
    return told


def calls_of(way: Way) -> Iterator[tuple[str, Any]]:
    """Calls of a way that was struck: what was repeated was called again by another run of the step."""
    if way == RESTRUCTURED:
        for card, version in WANTED.per_card.items():
            for caller in ("a", "b"):
                yield caller, SetCardBalance(card=card, balance=WANTED.balances[card], version=version)
            yield "late", SetCardBalance(card=card, balance=1, version=version - 1)
        return
    for id_, (card, amount) in WANTED.charges.items():
        call = Charge(card=card, amount=amount, transaction=id_, key=id_ if way == KEYED else None)
        yield "a", call
        if id_ in DOUBLED:
            yield "b", call


def recorded(path: Path) -> Path:
    """A run that passes."""
    run = RunDirectory(path / "run")
    manifest = {"seed": SEED, "kills": KILLS, "records": RECORDS, "started_at": STARTED_MS, "versions": {}, "git": {}}
    run.write_json(run.manifest_path, manifest)
    for way in WAYS:
        own = directory_of(run.path, way)
        with own.sent_writer() as lines:
            for n, row in enumerate(records(SEED, RECORDS)):
                lines.write({"payload": orjson.dumps(row).decode(), "partition": 0, "offset": n})
        write_journal(own, journal(list(calls_of(way))))
        with History(own.history_path) as history:
            for repeat in (False, True):
                history.record("epoch", epoch=3, state="published", repeat=repeat, **COUNTS)
            for fault in plan(way, SEED, KILLS, 2):
                history.record(
                    "fault",
                    kind=fault.strike.kind,
                    target=fault.strike.target,
                    epoch=3,
                    phase=fault.phase,
                    injected_at=STARTED_MS,
                    hit=True,
                )
            history.end()
    return run.path


def write_journal(own: RunDirectory, told: Sequence[Entry]) -> None:
    """Replace a way's journal."""
    (own.path / JOURNAL).write_bytes(b"".join(entry.model_dump_json().encode() + b"\n" for entry in told))


def without(run: Path, way: Way, *transactions: str, also: Sequence[tuple[str, Any]] = ()) -> None:
    """Take every call about some transactions or cards out of a way's journal, and put other calls behind it."""
    kept = [
        one
        for one in calls_of(way)
        if (one[1].transaction if isinstance(one[1], Charge) else one[1].card) not in transactions
    ]
    write_journal(directory_of(run, way), journal([*kept, *also]))


def changed_history(run: Path, way: Way, change: dict[str, Any], event: str) -> None:
    """Change every event of a name."""
    path = directory_of(run, way).history_path
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    path.write_bytes(b"".join(orjson.dumps(one | change if one["event"] == event else one) + b"\n" for one in lines))


def cut_sent(run: Path, way: Way) -> None:
    """Take the last acknowledged record away."""
    path = directory_of(run, way).sent_path
    rows = list(read_lines(path))[:-1]
    with LinesWriter(path) as lines:
        for row in rows:
            lines.write(row)
