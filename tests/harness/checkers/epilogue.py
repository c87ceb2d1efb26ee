"""Oracle 6: restarts with and without checkpoint, and records sent again before and after closing, change no output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.harness.checkers.case import Case, coordinate_text, place_of, refute
from tests.harness.checkers.expectations import coordinate_of
from tests.harness.checkers.reference import Outcome, Reference
from tests.harness.evidence import AGAIN, Closing, Epilogue, EpilogueStep, EvidenceError
from tests.harness.results import Oracle, Verdict
from tests.harness.sends import Send
from tests.harness.sinks import ACCEPTED_ROWS

NAME, NUMBER = "epilogue", 6
_UNCHANGED = ("accepted", "user_counts", "global_counts")
Boundary = dict[int, int] | int | None


def beyond(rows: Iterable[Mapping[str, Any]], boundary: Boundary) -> Iterator[dict[str, Any]]:
    """Yield the rows a sink got after its boundary: end offsets per partition, or the last epoch with a manifest."""
    for row in rows:
        if isinstance(boundary, dict):
            # A partition the boundary does not name was empty. A row without coordinates counts as new.
            offset = row.get("offset")
            if type(offset) is not int or offset >= boundary.get(row.get("partition", -1), 0):
                yield dict(row)
        else:
            epoch = row.get("epoch")
            if type(epoch) is not int or epoch > (-1 if boundary is None else boundary):
                yield dict(row)


def closing_rows(rows: Iterable[Mapping[str, Any]], closing: Closing, sink: str) -> set[str]:
    """Places of the rows of a sink that came of closing the windows: the others have to have been there before."""
    there = list(rows)
    after = {place_of(sink, row) for row in beyond(there, closing.after[sink])}
    return {place_of(sink, row) for row in beyond(there, closing.before[sink])} - after


def due_letters(sends: list[Send], reference: Reference) -> Counter[tuple[str, int, int]]:
    """Return the source coordinates of the re-sent records that are late or malformed by the reference."""
    return Counter(
        send.coordinate
        for index, send in enumerate(sends)
        if send.kind == "resent" and reference.outcomes[index] in (Outcome.LATE, Outcome.MALFORMED)
    )


def _undone(step: EpilogueStep, lineages: Mapping[int, str | None], workload: int) -> str | None:
    """Tell what a step did not do, or None."""
    if step.after_epoch not in lineages:
        return f"step {step.step} came after epoch {step.after_epoch}, which the chain does not hold"
    if step.step != "restart":
        some = f"{step.resent} of {workload} records were sent again when the windows were closed"
        return some if step.resent < min(workload, AGAIN) else None
    before, after = lineages.get(step.after_epoch), lineages.get(step.after_epoch + 1)
    if before is None or after is None:
        return f"no epoch followed the restart after epoch {step.after_epoch}"
    if (before == after) != (step.checkpoint == "kept"):
        did = "went on with its lineage" if before == after else "began another lineage"
        return f"the checkpoint was {step.checkpoint}, but epoch {step.after_epoch + 1} {did}"
    return None if step.resent else f"nothing was sent again after the restart with the checkpoint {step.checkpoint}"


def completeness(
    epilogue: Epilogue, sends: Sequence[Send], lineages: Mapping[int, str | None], workload: int
) -> str | None:
    """Tell what of the epilogue did not happen, or None.

    Args:
        epilogue: what it says of itself.
        sends: the acknowledged sends, in their order.
        lineages: by epoch. A driver that finds its checkpoint goes on with its lineage, another begins a new one.
        workload: records sent before the epilogue; so many, or `AGAIN`, must be sent again once windows are closed.

    """
    restarts = {step.checkpoint for step in epilogue.steps if step.step == "restart"}
    for checkpoint in ("kept", "deleted"):
        if checkpoint not in restarts:
            return f"no restart with the checkpoint {checkpoint}"
    if not any(step.step == "closed" for step in epilogue.steps):
        return "the windows were not closed"
    for step in epilogue.steps:
        undone = _undone(step, lineages, workload)
        if undone is not None:
            return undone
    said = sum(step.resent for step in epilogue.steps)
    acknowledged = sum(send.kind == "resent" for send in sends)
    if said != acknowledged:
        return f"the steps say {said} records were sent again, {acknowledged} were acknowledged"
    closed = next(step for step in epilogue.steps if step.step == "closed")
    return _find_uneven(sends, closed.resent) if said else "nothing was sent again"


def _find_uneven(sends: Sequence[Send], again: int) -> str | None:
    """Tell which tenth of the workload hardly any record was sent again of, by the last that were; or None."""
    first: dict[str, int] = {}
    for place, id_ in enumerate(send.id for send in sends if send.kind not in ("resent", "closer")):
        if id_ is not None:
            first.setdefault(id_, place)
    copies = [send.id for send in sends if send.kind == "resent"][-again:]
    length = max(first.values(), default=0) + 1
    tenths = Counter(place * 10 // length for place in first.values())
    seen = Counter(first[id_] * 10 // length for id_ in {*copies} if id_ in first)
    due = min(1.0, again / max(len(first), 1)) / 2
    bare = next((tenth for tenth, there in sorted(tenths.items()) if seen[tenth] < int(there * due)), None)
    return None if bare is None else f"of tenth {bare + 1} of the workload {seen[bare]} records were sent again"


def shrunk(epilogue: Epilogue, sink: str, last: Boundary, is_table: bool = False) -> str | None:
    """Tell that the ends of a sink are not those of one that only grows, up to its last; None where they are.

    Rows of a table have no places, so that their number alone tells that a restart added none.
    """
    ends = [epilogue.boundary[sink], epilogue.closing.before[sink], epilogue.closing.after[sink]]
    for one, other in pairwise([*ends, *([] if last is None else [last])]):
        if isinstance(one, dict) != isinstance(other, dict) and None not in (one, other):
            return f"the ends of {sink} are of two sorts: {one}, {other}"
        before, after = _per_partition(one), _per_partition(other)
        # What the boundary does not name was empty.
        if any(end < 0 or end > after.get(partition, 0) for partition, end in before.items()):
            return f"{sink} ends at {one}, and later at {other}"
    if isinstance(last, int) and is_table and (ends[0] != ends[1] or ends[2] != last):
        return f"{sink} had {ends[0]} rows, {ends[1]} before windows were closed, {ends[2]} after it, {last} in the end"
    return None


def _per_partition(boundary: Boundary) -> dict[int, int]:
    """Return end offsets; the last epoch with a manifest, or the rows of a table, count as those of one partition."""
    if isinstance(boundary, dict):
        return boundary
    return {} if boundary is None else {0: boundary}


def _last(case: Case, sink: str) -> Boundary:
    """Return where a sink ended after the run, as others tell it: broker, chain or the rows themselves."""
    if sink == "global_counts":
        return case.chain.epochs[-1].epoch if case.chain.epochs else None
    if sink == ACCEPTED_ROWS:
        return sum(1 for _ in case.rows(sink))
    topic = f"{case.manifest.settings.pipeline}.{sink}"
    # Of one that nobody looked at, or of all, oracle 4 tells.
    try:
        partitions = case.quiet.partitions
    except EvidenceError:
        partitions = ()
    ends = {part.partition: part.high_watermark for part in partitions if part.topic == topic}
    return {**_per_partition(case.epilogue.closing.after[sink]), **ends}


def judge(case: Case) -> Oracle:
    """Oracle 6; raises EvidenceError, also when the epilogue was not gone through."""
    epilogue, sends = case.epilogue, case.sends
    for sink in case.sinks:
        if any(sink not in one for one in (epilogue.boundary, epilogue.closing.before, epilogue.closing.after)):
            raise EvidenceError(f"no boundary of sink {sink}", case.run.epilogue_path, "run the epilogue again")
    found: list[str] = []
    for sink in _UNCHANGED:
        closing = closing_rows(case.rows(sink), epilogue.closing, sink)
        for row in beyond(case.rows(sink), epilogue.boundary[sink]):
            if place_of(sink, row) not in closing:
                found.append(f"{sink}: a row after the boundary at {place_of(sink, row)}: {_identity(row)}")
    letters: Counter[tuple[str, int, int] | None] = Counter()
    for row in beyond(case.rows("dead_letter"), epilogue.boundary["dead_letter"]):
        letters[coordinate_of(row)] += 1
    due = due_letters(sends, case.reference)
    for place, times in letters.items():
        if place is None or times != due[place]:
            named, wanted = ("nowhere", 0) if place is None else (coordinate_text(place), due[place])
            found.append(f"dead_letter: {times} rows after the boundary from {named}, due is {wanted}")
    missing = [place for place in due if place not in letters]
    found += [
        f"dead_letter: no row after the boundary from {topic}/{partition}@{at}" for topic, partition, at in missing
    ]
    if found:
        return refute(NAME, NUMBER, f"{len(found)} outputs changed in the epilogue", found)
    lineages = {record.epoch: record.lineage for record in case.chain.epochs}
    shrinks = (shrunk(epilogue, sink, _last(case, sink), sink == ACCEPTED_ROWS) for sink in case.sinks)
    undone = next((why for why in shrinks if why is not None), None)
    undone = undone or completeness(epilogue, sends, lineages, case.manifest.workload.sent)
    if undone is not None:
        raise EvidenceError(f"the epilogue is incomplete: {undone}", case.run.epilogue_path, "run the epilogue again")
    resent = sum(step.resent for step in epilogue.steps)
    says = (
        f"restarted with and without checkpoint and sent {resent} records again: no output changed, "
        f"{len(due)} late or malformed copies were routed once each"
    )
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)


def _identity(row: Mapping[str, Any]) -> str:
    names = ("id", "user", "window_start_ms", "count")
    return ", ".join(f"{name} {row[name]}" for name in names if name in row)
