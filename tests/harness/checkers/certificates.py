"""Certificates: a window that is complete lacks no record of a registered source, and none is let go before the bound.

Asked of runs whose records come from gateways that say how far they are (`settings.gateways`). What each of them said
is in `statements.jsonl`, what it sent in `sent.jsonl`, what epochs made of it in their clocks. The certificate of a
window is the clock of the epoch that closed it: complete where nobody is released there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.harness.checkers import away, returns
from tests.harness.checkers.case import Case, refute, source_of
from tests.harness.checkers.provenance import GIVEN
from tests.harness.checkers.reference import Outcome, Reference, window_start
from tests.harness.checkers.releases import find_unheeded, last_sent, too_early, unheard
from tests.harness.checkers.statements import ON_PURPOSE, Said, find_misattributed, statements, unsaid, untrue
from tests.harness.checkers.words import find_mistimed, find_taken_back, out_of_the_run, strangers
from tests.harness.evidence import EpochRecord, EvidenceError, Settings
from tests.harness.results import Oracle, Verdict
from tests.harness.sends import Send

NAME, NUMBER = "certificates", 0
RELEASED_WITHIN_S = 10.0
"""An epoch is declared within so long after the bound, and the time counts in which sources could be heard."""


def find_refused(
    sends: Sequence[Send], reference: Reference, epochs: Iterable[EpochRecord], settings: Settings
) -> Iterator[tuple[int, EpochRecord]]:
    """Yield the records of gateways that were refused though nobody sent them late, and who closed their window."""
    closing = [one for one in epochs if one.watermark_ms is not None]
    watermarks = [one.watermark_ms or 0 for one in closing]
    for index, send in enumerate(sends):
        late = reference.outcomes[index] == Outcome.LATE and send.kind not in ON_PURPOSE
        if late and send.gateway is not None and send.event_time_ms is not None:
            end = window_start(send.event_time_ms, settings.window_ms) + settings.window_ms
            yield index, closing[bisect_left(watermarks, end + settings.lateness_ms)]


def let_go(case: Case) -> frozenset[int]:
    """Return the records that were refused as their gateway was not waited for: their window's certificate says so."""
    found = find_refused(case.sends, case.reference, case.chain.pinned, case.manifest.settings)
    return frozenset(
        index
        for index, epoch in found
        if epoch.clock is not None and not epoch.clock.waits_for(case.sends[index].gateway)
    )


def incomplete(case: Case, excused: frozenset[int]) -> list[str]:
    """Describe refused records of windows that are complete as far as their gateway goes."""
    return [
        f"id {send.id} of {send.gateway} at {source_of(send)} was refused: epoch {epoch.epoch} closed its window "
        f"{window_start(send.event_time_ms or 0, case.manifest.settings.window_ms)}, and let nobody of that name go"
        for index, epoch in find_refused(case.sends, case.reference, case.chain.pinned, case.manifest.settings)
        if index not in excused and (send := case.sends[index])
    ]


def find_held_for_ever(case: Case) -> list[str]:
    """Describe gateways that were away beyond the bound, and that no epoch let go."""
    settings = case.manifest.settings
    gone = {name for record in case.chain.pinned if record.clock is not None for name in record.clock.released}
    return [
        f"{name} was away for {event['held_s']:g} s, hold_max_ms is {settings.hold_max_ms}, and no epoch let it go"
        for event in case.events
        if event["event"] == "fault"
        and event.get("target") == "gateway"
        and event.get("held_s")
        and event["held_s"] > settings.hold_max_ms / 1000 + RELEASED_WITHIN_S
        and (name := str(event.get("process_before", "")).removeprefix("gateway ")) not in gone
    ]


def other_settings(run: Path, settings: Settings) -> list[str]:
    """Describe where drivers were started with other gateways, or other bounds of time, than the manifest says."""
    due: dict[str, Any] = {name: getattr(settings, name) for name in ("hold_max_ms", "window_ms", "lateness_ms")}
    found: list[str] = []
    for path in (run / name for name in GIVEN if (run / name).is_file()):
        try:
            given = {**due, "sources": [], **orjson.loads(path.read_bytes())}
            said = {**{name: given[name] for name in due}, "sources": sorted(given["sources"])}
        except (ValueError, TypeError) as error:
            raise EvidenceError(f"settings cannot be read ({error})", path, "judge an unaltered run") from error
        meant = {**due, "sources": sorted(settings.gateways)}
        other = (name for name in meant if said[name] != meant[name])
        found += [f"{path} says {name} {said[name]}, the manifest {meant[name]}" for name in other]
    return found


def find_undelivered(epochs: Iterable[EpochRecord], said: Iterable[Said]) -> list[str]:
    """Tell that nobody knows when a gateway that was let go was back; nothing where that is known, or nobody was."""
    if any(one.delivered_at is not None for one in said):
        return []
    gone = sorted({name for record in epochs if record.clock is not None for name in record.clock.released})
    return [f"{', '.join(gone)} was let go, and of no word it is known when the broker had it"] if gone else []


def judge(case: Case) -> Oracle:
    """Judge it; raises EvidenceError."""
    settings, epochs, said = case.manifest.settings, case.chain.pinned, statements(case.run)
    excused = let_go(case)
    read = last_sent(epochs, case.reference.epochs_of, case.sent_at)
    groups = (
        find_misattributed(case.sends, settings.gateways),
        untrue(said, case.sends),
        unsaid(epochs, said, settings),
        too_early(epochs, said, case.events, settings.hold_max_ms),
        unheard(epochs, said, case.events, settings.topic),
        find_unheeded(epochs, said, case.events, read, settings.hold_max_ms),
        incomplete(case, excused),
        strangers(said, settings.gateways),
        out_of_the_run(said, case.events),
        find_taken_back(said),
        find_mistimed(said, case.sends, case.acked_at),
    )
    if total := sum(map(len, groups)):
        says = f"{total} words of gateways, clocks, releases or certificates are not true"
        return refute(NAME, NUMBER, says, *groups)
    # These are no offence of the pipeline, and without them nothing is shown of it.
    idle = [
        *find_held_for_ever(case),
        *find_undelivered(epochs, said),
        *other_settings(case.run.path, settings),
        *away.complaints(case.events, case.sends, case.sent_at, said),
        *returns.silent(case.events, said),
    ]
    if idle:
        return Oracle(name=NAME, number=NUMBER, verdict=Verdict.UNKNOWN, says=idle[0], evidence=tuple(idle))
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=_sentence(case, excused, read))


def _sentence(case: Case, excused: frozenset[int], read: Mapping[int, int]) -> str:
    clocks = {record.epoch: record.clock for record in case.chain.pinned}
    windows: Counter[str] = Counter()
    for _, epoch in case.reference.global_counts.values():
        clock = clocks.get(epoch)
        windows["" if clock is None else ", ".join(clock.released)] += 1
    found = f"{windows.pop('', 0)} windows are complete"
    for names, count in sorted(windows.items()):
        found += f"; {count} were released by the bound, without {names}"
    by_gateway = Counter(str(case.sends[index].gateway) for index in excused)
    late = find_refused(case.sends, case.reference, case.chain.pinned, case.manifest.settings)
    gone = (one for one in late if one[0] in excused)
    unheard = returns.before_certificate(gone, case.sends, case.acked_at, read, case.events)
    for name, count in sorted(by_gateway.items()):
        found += f"; {count} records of {name} were refused, as their certificates say"
        found += f", {unheard[name]} of them acknowledged before that, when it was back and not heard yet"
    return found
