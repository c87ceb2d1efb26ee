"""Judges a run of fraud detection from its files: the result store against what the broker acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tests.experiments.fraud import answers, figures, page
from tests.experiments.fraud.plan import ANALYZERS, HELD_MAX, SPARK_ARMS
from tests.experiments.fraud.results import ArmResult, FraudResults, KillResult
from tests.experiments.fraud.truth import Due, due, outcome
from tests.experiments.fraud.workload import cards
from tests.harness.evidence import EvidenceError
from tests.harness.results import On, Verdict
from tests.harness.run_directory import RunDirectory, read_lines, write_atomically

CLAIM = (
    "Every transaction gets exactly one decision, whoever is killed: while an analyzer is away by the deadline and "
    "marked as partial, after the aggregator or the result store was away late; and each is what the analyzers that it "
    "names come to."
)
DECISIONS, REFUSALS, ASKED = "decisions", "refusals", "asked"
TAKEN = 501
"""Records that the aggregator takes at once at most, so many more than its bound can it hold."""
TABLE, PAGE = "table.md", "page.html"
_TODO = "take the run again from where it was recorded, or run again"
Row = Mapping[str, Any]


class FraudManifest(BaseModel):
    """`manifest.json` of a run: what was planned."""

    model_config = ConfigDict(frozen=True)

    on: On = "embedded"
    seed: int
    deadline_ms: int
    target_ms: int
    held_max: int = HELD_MAX
    windows_ms: dict[str, int]
    phases: tuple[dict[str, Any], ...]
    triggers: int
    command: str
    machine: dict[str, Any]
    versions: dict[str, Any]
    git: dict[str, Any]


def judge(run: Path) -> FraudResults:
    """Judge a run, and write `results.json`, `table.md` and `page.html`; what cannot be judged makes it unknown.

    Raises:
        EvidenceError: there is no manifest.
    """
    manifest = RunDirectory(run).manifest_of(FraudManifest, _TODO)
    about: dict[str, Any] = {
        "on": manifest.on,
        "claim": CLAIM,
        "seed": manifest.seed,
        "deadline_ms": manifest.deadline_ms,
        "target_ms": manifest.target_ms,
        "machine": manifest.machine,
        "versions": manifest.versions,
        "git": manifest.git,
    }
    try:
        results = _judge(RunDirectory(run), manifest, about)
    except EvidenceError as error:
        results = FraudResults(**about, verdict=Verdict.UNKNOWN, reasons=(str(error),))
    directory = RunDirectory(run)
    directory.write_json(directory.results_path, results)
    write_atomically(run / TABLE, page.markdown(results).encode() + b"\n")
    write_atomically(run / PAGE, page.html(results, manifest.command).encode())
    return results


def _judge(run: RunDirectory, manifest: FraudManifest, about: Row) -> FraudResults:
    events = run.whole_events()
    sends = list(read_lines(run.sent_path))
    planned = sum(one["records"] for one in manifest.phases)
    if len(sends) != planned:
        raise EvidenceError(f"{len(sends)} of {planned} records were acknowledged", run.sent_path, _TODO)
    decisions, refusals, asked = (list(run.rows(name)) for name in (DECISIONS, REFUSALS, ASKED))
    wanted = due(sends, cards(), manifest.windows_ms)
    kills = _kills(events, decisions)
    arms = _arms(run, events, manifest)
    failed = [
        *wrong(wanted, decisions, refusals),
        *answers.wrong(asked, decisions, refusals),
        *_stood_still(kills),
        *_find_held_too_much(kills, manifest.held_max),
    ]
    unknown = list(not_shown(manifest, kills, asked))
    return FraudResults(
        **about,
        verdict=Verdict.FAIL if failed else Verdict.UNKNOWN if unknown else Verdict.PASS,
        counts=_counts(decisions, refusals),
        answers=answers.count(asked),
        due=dict(sorted(Counter(one.reason or "decided" for one in wanted).items())),
        phases=tuple(
            figures.phase(
                one,
                number,
                sends=sends,
                decisions=decisions,
                refusals=refusals,
                events=events,
                target_ms=manifest.target_ms,
            )
            for number, one in enumerate(manifest.phases)
        ),
        kills=tuple(kills),
        arms=tuple(arms),
        reasons=(*failed, *unknown),
    )


def wrong(wanted: Sequence[Due], decisions: Sequence[Row], refusals: Sequence[Row]) -> Iterator[str]:
    """What refutes the claim, by the tables alone."""
    decided, refused = _by_place(decisions), _by_place(refusals)
    ids = Counter(row["id"] for row in decisions)
    if more := [id_ for id_, times in ids.items() if times > 1]:
        yield f"{len(more)} transactions have more than one decision, {more[0]} among them"
    places = {one.place for one in wanted}
    if strangers := [place for place in (*decided, *refused) if place not in places]:
        yield f"{len(strangers)} rows are of records that nobody sent, {strangers[0]} among them"
    found: dict[str, list[str]] = {}
    for one in wanted:
        for says in _about(one, decided.get(one.place, []), refused.get(one.place, [])):
            found.setdefault(says, []).append(one.id or str(one.place))
    for says, which in found.items():
        yield f"{len(which)} records {says}, {which[0]} among them"


def _about(one: Due, decided: Sequence[Row], refused: Sequence[Row]) -> Iterator[str]:
    """What is wrong with what became of one record."""
    if len(decided) + len(refused) != 1:
        yield "came to nothing" if not decided and not refused else "came to more than one thing"
        return
    if one.reason:
        if not refused or refused[0]["reason"] != one.reason:
            yield f"were not refused as {one.reason}"
        return
    if not decided:
        yield f"were refused as {refused[0]['reason']}"
        return
    row = decided[0]
    if (row["id"], row["arrived_ms"]) != (one.id, one.arrived_ms):
        yield "are decided under another id or time of arrival"
    absent = [name for name in ANALYZERS if name not in row["points"]]
    if row["missing"] != absent or row["partial"] != bool(absent):
        yield "are not marked with the analyzers that they lack"
    if any(one.points.get(name) != points for name, points in row["points"].items()):
        yield "have other points than their history comes to"
    if row["outcome"] != outcome(row["points"]):
        yield "are decided otherwise than their points come to"


def _stood_still(kills: Sequence[KillResult]) -> Iterator[str]:
    for one in kills:
        if one.target in ANALYZERS and one.waited:
            yield f"{one.waited} decisions waited for the analyzer {one.target} to come back"


def _find_held_too_much(kills: Sequence[KillResult], held_max: int) -> Iterator[str]:
    for one in kills:
        if one.held is not None and one.held >= held_max + TAKEN:
            yield f"{one.held} records were held while the {one.target} was away, and {held_max} may be"


def not_shown(manifest: FraudManifest, kills: Sequence[KillResult], asked: Sequence[Row]) -> Iterator[str]:
    """What the run was to show, and did not: nothing follows from it then."""
    planned = [one["kill"] for one in manifest.phases if one["kill"]]
    for target in planned:
        if not any(one.target == target["target"] and one.hit for one in kills):
            yield f"the kill of {target['target']} cannot be seen in any decision"
    if (hits := sum(one.hit for one in kills)) < len(planned):
        yield f"{hits} of {len(planned)} kills hit"
    if not any(one["store"] == answers.UP and one["status"] == 200 for one in asked):
        yield "the presenter was not asked for any decision"


def _kills(events: Sequence[Row], decisions: Sequence[Row]) -> list[KillResult]:
    found, number = [], 0
    for event in events:
        if event["event"] == "phase" and "number" in event:
            number = event["number"]
        if event["event"] == "fault":
            found.append(figures.kill(event, number, decisions, events))
    return found


def _arms(run: RunDirectory, events: Sequence[Row], manifest: FraudManifest) -> Iterator[ArmResult]:
    if not manifest.triggers:
        return
    for number, name in enumerate(SPARK_ARMS):
        told: dict[str, Any] = {}
        for event in events:
            if event["event"] == "arm" and event["arm"] == name:
                told |= event
        observed = f"trigger_{number}_out"
        rows = run.rows(observed) if run.observed_path(observed).exists() else ()
        yield figures.arm(name, rows, told, manifest.target_ms)


def _by_place(rows: Sequence[Row]) -> dict[tuple[int, int], list[Row]]:
    found: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row["partition"], row["offset"]), []).append(row)
    return found


def _counts(decisions: Sequence[Row], refusals: Sequence[Row]) -> dict[str, int]:
    return dict(sorted(Counter([*("decided" for _ in decisions), *(row["reason"] for row in refusals)]).items()))
