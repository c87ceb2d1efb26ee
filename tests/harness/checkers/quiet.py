"""Oracle 4: nothing is left open, and nothing was left unread: no open transaction, every partition stable to its end.

The ends are asked for after the last driver has ended and the sinks were read: what is there is what was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.harness.checkers import shards
from tests.harness.checkers.case import Case, refute
from tests.harness.checkers.clock import APART_MS
from tests.harness.evidence import EvidenceError, Quiet
from tests.harness.results import Oracle, Verdict

NAME, NUMBER = "quiet", 4
PROGRESS = ".progress"
"""Ends the name of a sink's topic of marks, which are written in the transactions of its records."""


def unquiet(quiet: Quiet) -> list[str]:
    """Describe every open transaction and every partition whose end a committed reader cannot reach."""
    found = [f"open transaction {transaction}" for transaction in quiet.open_transactions]
    for part in quiet.partitions:
        if part.last_stable_offset != part.high_watermark:
            found.append(
                f"{part.topic}/{part.partition}: last stable offset {part.last_stable_offset}, "
                f"high watermark {part.high_watermark}"
            )
    return found


def find_hidden(quiet: Quiet, pipeline: str, partitions: int, read_to: Mapping[tuple[str, int], int]) -> list[str]:
    """Describe output partitions that were not looked at or not read to their end, and rows read beyond it.

    Args:
        quiet: what was looked at.
        pipeline: whose topics begin with its name.
        partitions: of every sink.
        read_to: (sink, partition) -> the largest offset that a committed reader read.

    """
    looked_at = {(part.topic, part.partition): part for part in quiet.partitions}
    sinks = dict.fromkeys(sink for sink, _ in read_to)
    due = dict.fromkeys([*((sink, shard) for sink in sinks for shard in range(partitions)), *read_to])
    found: list[str] = []
    if any(part.topic.endswith(PROGRESS) for part in quiet.partitions):
        marks = ((f"{pipeline}.{sink}{PROGRESS}", shard) for sink in sinks for shard in range(partitions))
        found += [f"{topic}/{shard} was not looked at" for topic, shard in marks if (topic, shard) not in looked_at]
    for sink, partition in due:
        part = looked_at.get((f"{pipeline}.{sink}", partition))
        offset = read_to.get((sink, partition), -1)
        if part is None:
            found.append(f"{pipeline}.{sink}/{partition} was not looked at")
            continue
        end, name = part.last_stable_offset, f"{pipeline}.{sink}/{partition}"
        if part.read_to != end:
            found.append(f"{name} was read to {_place(part.read_to)}, stable is it to @{end}")
        elif offset >= end:
            found.append(f"{name}: a row was read at @{offset}, stable is it only to @{end}")
    return found


def early(quiet: Quiet, events: Sequence[Mapping[str, Any]]) -> str | None:
    """Tell why the ends are not those that all drivers left behind, or None."""
    # Of the last driver alone: those before it may have had a clock that was stepped.
    words = [(event["generation"], event["t"]) for event in events if event.get("generation") is not None]
    _, last = max(words, default=(0, 0))
    if quiet.at is None:
        return "when the ends were asked for is not known"
    ended = max((event["t"] for event in events), default=quiet.at)
    if quiet.at > ended + APART_MS:
        return f"the ends were asked for {(quiet.at - ended) / 1000:g} s after the run"
    if quiet.at < last:
        return f"the ends were asked for {(last - quiet.at) / 1000:g} s before the last word of the last driver"
    return None


def _place(offset: int | None) -> str:
    return "no known end" if offset is None else f"@{offset}"


def _read_to(case: Case) -> dict[tuple[str, int], int]:
    newest: dict[tuple[str, int], int] = {}
    for sink in case.sinks:
        for row in case.rows(sink):
            partition, offset = row.get("partition"), row.get("offset")
            if type(partition) is int and type(offset) is int:
                newest[sink, partition] = max(offset, newest.get((sink, partition), -1))
    return newest


def judge(case: Case) -> Oracle:
    """Oracle 4; raises EvidenceError, also when an output partition was not looked at, or not to its end."""
    quiet = case.quiet
    if not quiet.partitions:
        raise EvidenceError("no output partition was looked at", case.run.quiet_path, "collect the evidence again")
    found = unquiet(quiet)
    if found:
        return refute(NAME, NUMBER, f"{len(found)} transactions or partitions are still open", found)
    unseen = find_hidden(quiet, case.manifest.settings.pipeline, shards.most(case), _read_to(case))
    unseen += [why] if (why := early(quiet, case.events)) is not None else []
    if unseen:
        raise EvidenceError(unseen[0], case.run.quiet_path, "collect the evidence again")
    says = f"no open transaction; {len(quiet.partitions)} partitions are stable to their end, and were read to it"
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)
