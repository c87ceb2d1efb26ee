"""Judges a run of the card ledger from its files: the service's journals against what the broker acknowledged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict

from tests.experiments.card_ledger.payments.book import Book, Charge, Entry, SetCardBalance, card_names
from tests.experiments.card_ledger.payments.journal import entries
from tests.experiments.card_ledger.results import CardResults, WayResult
from tests.experiments.card_ledger.show import markdown
from tests.experiments.card_ledger.ways import KEYED, PLAIN, RESTRUCTURED, WAYS, Way
from tests.experiments.card_ledger.workload import CARDS, COUNTS, Due, due
from tests.harness.checkers import adding_up
from tests.harness.evidence import EvidenceError
from tests.harness.results import Fault, On, Verdict
from tests.harness.run_directory import RunDirectory, read_lines, write_atomically

CLAIM = (
    "A step that calls an outside service may call again after a kill: a plain charge is then made twice; with an "
    "idempotency key, or told as a running balance, it is not, and no way loses one."
)
JOURNAL, TABLE = "journal.jsonl", "table.md"
_TODO = "take the run again from where it was recorded, or run again"


class CardManifest(BaseModel):
    """`manifest.json` of a run: what was planned."""

    model_config = ConfigDict(frozen=True)

    on: On = "embedded"
    seed: int
    kills: int
    records: int
    started_at: int
    versions: dict[str, Any]
    git: dict[str, Any]


def directory_of(run: Path, way: Way) -> RunDirectory:
    """Where the files of one way are."""
    return RunDirectory(run / "ways" / way.name)


def judge(run: Path) -> CardResults:
    """Judge a run, and write `results.json` and `table.md`; what cannot be judged makes it unknown, never a pass.

    Raises:
        EvidenceError: there is no manifest.
    """
    manifest = RunDirectory(run).manifest_of(CardManifest, _TODO)
    found: list[WayResult] = []
    failed: list[str] = []
    unknown: list[str] = []
    ended_at = manifest.started_at
    for way in WAYS:
        try:
            result, at = _way(way, directory_of(run, way), manifest)
        except EvidenceError as error:
            unknown.append(f"{way.name}: {error}")
            continue
        found.append(result)
        ended_at = max(ended_at, at)
        failed += [f"{way.name}: {why}" for why in wrong(result)]
        unknown += [f"{way.name}: {why}" for why in not_shown(result, manifest.kills)]
    verdict = Verdict.FAIL if failed else Verdict.UNKNOWN if unknown else Verdict.PASS
    results = CardResults(
        claim=CLAIM,
        verdict=verdict,
        on=manifest.on,
        seed=manifest.seed,
        kills_planned=manifest.kills,
        ways=tuple(found),
        reasons=(*failed, *unknown),
        duration_s=(ended_at - manifest.started_at) / 1000,
        versions=manifest.versions,
        git=manifest.git,
    )
    directory = RunDirectory(run)
    directory.write_json(directory.results_path, results)
    write_atomically(run / TABLE, markdown(results).encode() + b"\n")
    return results


def wrong(result: WayResult) -> Iterator[str]:
    """What refutes the claim."""
    if result.records != result.records_due:
        yield f"of the records became {_say(result.records)}; due are {_say(result.records_due)}"
    yield from result.complaints
    if result.missing:
        yield f"{result.missing} transactions were not charged"
    if result.phantom:
        yield f"{result.phantom} charges that nobody asked for"
    if result.way == PLAIN.name:
        return
    if result.doubled:
        yield f"{result.doubled} double charges"
    if result.balances_wrong:
        yield f"{result.balances_wrong} balances are wrong"


def not_shown(result: WayResult, kills: int) -> Iterator[str]:
    """What the run was to show, and did not: nothing follows from it then."""
    hits = sum(fault.hit for fault in result.faults)
    if hits < kills:
        yield f"{hits} of {kills} kills hit a running epoch"
    if not result.epochs_repeated:
        yield "no epoch was repeated"
    if result.way == PLAIN.name and not result.doubled_by_replay:
        yield "no kill doubled a charge"
    if result.way != PLAIN.name and not result.repeated_by_replay:
        yield "no call was made again by another run of the step, so nothing was recognised"
    if result.way == RESTRUCTURED.name and not result.stale:
        yield "no balance came after a newer one, so none was refused"


def _say(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def count(way: Way, told: Sequence[Entry], wanted: Due, events: Sequence[Mapping[str, Any]]) -> WayResult:
    """Count what a journal and a history say against what is due."""
    book = Book(wanted.balances)
    for entry in told:
        book.apply(entry)
    outcomes = Counter(entry.outcome for entry in told)
    codes = Counter(entry.code for entry in told if entry.outcome == "refused")
    charges = _of_balances(book, wanted) if way == RESTRUCTURED else _of_charges(told, wanted)
    epochs = adding_up.published_epochs(events)
    return WayResult(
        way=way.name,
        records={name: adding_up.sums(epochs)[name] for name in COUNTS},
        records_due=dict(wanted.records),
        complaints=tuple(adding_up.complaints(epochs, sum(wanted.records.values()))),
        asked=len(wanted.charges),
        calls=len(told),
        **charges,
        balances_wrong=sum(book.accounts[card].balance != amount for card, amount in wanted.balances.items()),
        repeated=outcomes["repeated"],
        repeated_by_replay=_count_recognised(told),
        stale=codes["stale_version"],
        refused=outcomes["refused"] - codes["stale_version"],
        withheld=sum(entry.late for entry in told),
        unavailable=outcomes["unavailable"],
        epochs_repeated=sum(bool(event.get("repeat")) for event in events if event["event"] == "epoch"),
        faults=tuple(_fault(event) for event in events if event["event"] == "fault"),
    )


def _count_recognised(told: Sequence[Entry]) -> int:
    """Repeated calls of another run of the step than the one whose call took effect."""
    effective: dict[object, str] = {}
    found = 0
    for entry in told:
        call = entry.call
        about = (call.card, call.version) if isinstance(call, SetCardBalance) else call.key
        if entry.effective:
            effective[about] = entry.caller
        elif entry.outcome == "repeated":
            found += effective[about] != entry.caller
    return found


def _of_charges(told: Sequence[Entry], wanted: Due) -> dict[str, int]:
    made: dict[str, list[str]] = defaultdict(list)
    phantom = 0
    for entry in told:
        call = entry.call
        if not entry.effective:
            continue
        if isinstance(call, Charge) and wanted.charges.get(call.transaction) == (call.card, call.amount):
            made[call.transaction].append(entry.caller)
        else:
            phantom += 1
    by_replay = sum(len(set(callers)) - 1 for callers in made.values())
    by_retry = sum(len(callers) - len(set(callers)) for callers in made.values())
    return {
        "charged": sum(map(len, made.values())),
        "doubled": by_replay + by_retry,
        "doubled_by_replay": by_replay,
        "doubled_by_retry": by_retry,
        "missing": len(wanted.charges) - len(made),
        "phantom": phantom,
    }


def _of_balances(book: Book, wanted: Due) -> dict[str, int]:
    """A version counts the transactions in a balance; which ones they are, its amount has to tell."""
    per_card = wanted.per_card
    beyond = {card: account.version - per_card[card] for card, account in book.accounts.items()}
    doubled = sum(max(number, 0) for number in beyond.values())
    return {
        "charged": sum(account.version for account in book.accounts.values()),
        "doubled": doubled,
        "doubled_by_replay": doubled,
        "doubled_by_retry": 0,
        "phantom": 0,
        "missing": sum(max(-number, 0) for number in beyond.values()),
    }


def _way(way: Way, directory: RunDirectory, manifest: CardManifest) -> tuple[WayResult, int]:
    """Judge one way; when its history ends."""
    events = directory.whole_events()
    sent = sorted(read_lines(directory.sent_path), key=lambda row: (row["partition"], row["offset"]))
    if len(sent) != manifest.records:
        raise EvidenceError(f"{len(sent)} of {manifest.records} records were acknowledged", directory.sent_path, _TODO)
    told = list(entries(directory.path / JOURNAL))
    expected = SetCardBalance if way == RESTRUCTURED else Charge
    if not all(isinstance(entry.call, expected) for entry in told):
        raise EvidenceError("the journal holds calls of another way", directory.path / JOURNAL, _TODO)
    if way == KEYED and not all(isinstance(entry.call, Charge) and entry.call.key for entry in told):
        raise EvidenceError("the journal holds calls without a key", directory.path / JOURNAL, _TODO)
    wanted = due((_payload(row) for row in sent), card_names(CARDS), manifest.started_at)
    return count(way, told, wanted, events), events[-1]["t"]


def _payload(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(row["payload"])
    return found


def _fault(event: Mapping[str, Any]) -> Fault:
    return Fault.model_validate({name: value for name, value in event.items() if name in Fault.model_fields})
