"""Answers: what the product said of its sources while the run went on is what the chain makes of it.

It was asked as an operator asks: for certificates of windows by the command, for the driver's metric; and what its log
warned of was noted (`asked.jsonl`). The certificate of a window is recomputed from the epoch that closed it. An answer
that is not true fails the run. Where one is missing that is due, the run has shown nothing of it, and is unknown. So
is a run in which time was forced, as too much was held: certificates name partitions then, which is not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tests.harness.asked import Asked, Certificate, read
from tests.harness.checkers.backlog import first_publications
from tests.harness.checkers.case import FIRST, Case, clip
from tests.harness.checkers.clock import span_of_run
from tests.harness.checkers.releases import declared_at
from tests.harness.evidence import EpochRecord, Settings
from tests.harness.results import Oracle, Verdict

NAME, NUMBER = "answers", 0
EXIT_CODES = {"complete": 0, "released": 1, "open": 2}
"""As docs/explanation/late-data.md has them; no input is given up in these runs, and sources are registered."""
NOBODY: Mapping[str, Any] = {"watermark_ms": None, "passed": {}, "released": []}
"""What an open window says before an epoch was recorded."""
APART_MS = 5_000
"""An announcement is read by a thread that a busy machine may keep waiting."""
ANSWER_MS = 65_000
"""An answer is dated by when it was asked for: a command waits as long for a store that is away."""
Epochs = Sequence[EpochRecord]


class Release(NamedTuple):
    """That an epoch let a source go, how far that had come, and up to which epoch it was not waited for."""

    source: str
    time_ms: int | None
    first: int
    last: int


def clock_of(record: EpochRecord) -> dict[str, Any]:
    """Return what a certificate says of the clock of an epoch."""
    clock = record.clock
    sources, released = ({}, ()) if clock is None else (clock.sources, clock.released)
    return {"watermark_ms": record.watermark_ms, "passed": sources, "released": list(released)}


def closing(epochs: Epochs, settings: Settings, window: int) -> EpochRecord | None:
    """Return the epoch that closed a window; None: it stayed open."""
    span = settings.window_ms + settings.lateness_ms
    reached = (one for one in epochs if one.watermark_ms is not None and window + span <= one.watermark_ms)
    return next(reached, None)


def closes(before: EpochRecord | None, record: EpochRecord, settings: Settings) -> bool:
    """Tell whether an epoch closed a window."""
    ends = [
        None
        if one is None or one.watermark_ms is None
        else (one.watermark_ms - settings.lateness_ms) // settings.window_ms
        for one in (before, record)
    ]
    return ends[1] is not None and ends[0] != ends[1]


def releases(epochs: Epochs) -> list[Release]:
    """Return who was let go, each time anew."""
    found: dict[str, Release] = {}
    ended: list[Release] = []
    for record in epochs:
        gone = () if record.clock is None else record.clock.released
        ended += [found.pop(one) for one in [*found] if one not in gone]
        for source in gone:
            assert record.clock is not None
            since = found.get(source, Release(source, record.clock.sources.get(source), record.epoch, record.epoch))
            found[source] = since._replace(last=record.epoch)
    return sorted([*ended, *found.values()], key=lambda one: one.first)


def untrue(asked: Asked, epochs: Epochs, events: Sequence[Mapping[str, Any]], settings: Settings) -> Iterator[str]:
    """Describe answers that the chain contradicts."""
    declared, published = declared_at(events), first_publications(events)
    for one in asked.certificates:
        if (
            one.says is not None
            and not _names_partitions(one, epochs, settings)
            and (why := _untrue(one, epochs, declared, settings)) is not None
        ):
            yield f"asked at {one.at} for window {one.window}, the command {why}"
    due = {one.epoch: 0 if one.clock is None else len(one.clock.released) for one in epochs}
    for metric in asked.metrics:
        says = f"the metric said at {metric.at} that {metric.released} sources are not waited for, in epoch"
        if metric.released != due.get(metric.epoch):
            yield f"{says} {metric.epoch}, which let {due.get(metric.epoch)} go"
        elif metric.at + ANSWER_MS < declared.get(metric.epoch, metric.at):
            yield f"{says} {metric.epoch}, which was declared at {declared[metric.epoch]}"
        elif metric.at > published.get(metric.epoch + 1, metric.at) + APART_MS:
            yield f"{says} {metric.epoch}, and the next was published at {published[metric.epoch + 1]}"
    for warned in asked.warnings:
        if warned.source not in settings.gateways:
            yield f"{warned.driver} warned of {warned.source}, registered are {sorted(settings.gateways)}"


def _is_forced(record: EpochRecord | None) -> bool:
    return record is not None and record.clock is not None and record.clock.is_forced


def _names_partitions(one: Certificate, epochs: Epochs, settings: Settings) -> bool:
    """Whether a certificate may name partitions that were left behind; an open window's is of any epoch."""
    says = one.says or {}
    if says.get("verdict") == "open":
        return any(_is_forced(record) and record.watermark_ms == says.get("watermark_ms") for record in epochs)
    return _is_forced(closing(epochs, settings, one.window))


def _untrue(one: Certificate, epochs: Epochs, declared: Mapping[int, int], settings: Settings) -> str | None:
    """Tell what of a certificate is not so; None: nothing."""
    says, record = dict(one.says or {}), closing(epochs, settings, one.window)
    verdict = says.pop("verdict", None)
    if EXIT_CODES.get(str(verdict)) != one.code:
        return f"ended with {one.code} and said {verdict}"
    window = {"start_ms": one.window, "end_ms": one.window + settings.window_ms, "lost": 0}
    if verdict == "open":
        if says not in [{**window, "epoch": None, **state} for state in (NOBODY, *map(clock_of, epochs))]:
            return f"said {says}, as no epoch has it"
        # An epoch is recorded by the declaration of the next.
        recorded = None if record is None else declared.get(record.epoch + 1)
        late = record is not None and recorded is not None and recorded < one.at
        return f"said it is open: epoch {record.epoch} closed it, recorded by {recorded}" if record and late else None
    due = {} if record is None else {**window, "epoch": record.epoch, **clock_of(record)}
    meant = "open" if record is None else "released" if due["released"] else "complete"
    if (verdict, says) != (meant, due):
        return f"said {verdict} and {says}, due is {meant} and {due}"
    at = one.at if record is None else declared.get(record.epoch, one.at)
    return f"said that an epoch closed it which was declared at {at}" if one.at + ANSWER_MS < at else None


def missing(asked: Asked, epochs: Epochs, events: Sequence[Mapping[str, Any]], settings: Settings) -> Iterator[str]:
    """Describe what was due to be said and was not, or cannot be judged, or not while there was a run."""
    if forced := [record.epoch for record in epochs if _is_forced(record)]:
        yield f"too much was held in epoch {forced[0]}: certificates that name who was left behind are not judged"
    final = (one.window for one in asked.certificates if one.says is not None and one.says.get("verdict") != "open")
    of = {window: closing(epochs, settings, window) for window in final}
    without = {name for record in of.values() if record is not None for name in clock_of(record)["released"]}
    whole = any(record is not None and not clock_of(record)["released"] for record in of.values())
    let_go = [record for before, record in pairwise([None, *epochs]) if record and closes(before, record, settings)]
    if not whole and any(not clock_of(record)["released"] for record in let_go):
        yield "nobody asked for the certificate of a window that is complete"
    for name in sorted({name for record in let_go for name in clock_of(record)["released"]} - without):
        yield f"windows were closed without {name}, and nobody asked for the certificate of one"
    warned = Counter((one.source, one.time_ms) for one in asked.warnings)
    counted = {one.epoch for one in asked.metrics if one.released}
    if not asked.metrics:
        yield "nobody read the metric of sources that are not waited for"
    for gone in releases(epochs):
        if warned[gone.source, gone.time_ms] < 1:
            yield f"epoch {gone.first} let {gone.source} go at {gone.time_ms}, and no driver's log warned of it"
        warned[gone.source, gone.time_ms] -= 1
        if not counted & {*range(gone.first, gone.last + 1)}:
            yield f"{gone.source} was not waited for in epochs {gone.first} to {gone.last}, and no metric counted it"
    for one in asked.certificates:
        if one.says is None and one.code in EXIT_CODES.values():
            yield f"asked for window {one.window}, the command ended with {one.code} and no certificate: {one.words}"
    began, ended = span_of_run(events)
    moments = (*(one.at for one in asked.certificates), *(one.at for one in asked.metrics))
    yield from (f"an answer is of {at}, when there was no run" for at in moments if not began <= at <= ended)


def judge(case: Case) -> Oracle:
    """Judge it; raises EvidenceError."""
    settings, epochs, asked = case.manifest.settings, case.chain.pinned, read(case.run.path)
    if found := list(untrue(asked, epochs, case.events, settings)):
        says = f"{len(found)} answers of the product about its sources are not true"
        return Oracle(
            name=NAME, number=NUMBER, verdict=Verdict.FAIL, says=says, evidence=clip(found[:FIRST], len(found))
        )
    if found := list(missing(asked, epochs, case.events, settings)):
        evidence = clip(found[:FIRST], len(found))
        return Oracle(name=NAME, number=NUMBER, verdict=Verdict.UNKNOWN, says=found[0], evidence=evidence)
    answered = [one for one in asked.certificates if one.says is not None]
    says = (
        f"{len(answered)} certificates of windows, {len(asked.metrics)} readings of the metric and "
        f"{len(asked.warnings)} warnings are as the chain has it; {len(asked.certificates) - len(answered)} times the "
        "command had no answer"
    )
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)
