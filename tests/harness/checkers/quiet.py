"""Oracle 4: nothing is left open: no open transaction, and the last stable offset is the high watermark."""

from __future__ import annotations

from collections.abc import Mapping

from tests.harness.checkers.case import FIRST, Case, clipped
from tests.harness.evidence import EvidenceError, Quiet
from tests.harness.results import Oracle, Verdict

NAME, NUMBER = "quiet", 4


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


def hidden(quiet: Quiet, pipeline: str, shards: int, read_to: Mapping[tuple[str, int], int]) -> list[str]:
    """Describe output partitions that were not looked at, and rows read beyond what is said to be stable.

    Args:
        quiet: what was looked at.
        pipeline: whose topics begin with its name.
        shards: partitions of every sink.
        read_to: (sink, partition) -> the largest offset that a committed reader read.

    """
    stable = {(part.topic, part.partition): part.last_stable_offset for part in quiet.partitions}
    sinks = dict.fromkeys(sink for sink, _ in read_to)
    due = dict.fromkeys([*((sink, shard) for sink in sinks for shard in range(shards)), *read_to])
    found: list[str] = []
    for sink, partition in due:
        end = stable.get((f"{pipeline}.{sink}", partition))
        offset = read_to.get((sink, partition), -1)
        if end is None:
            found.append(f"{pipeline}.{sink}/{partition} was not looked at")
        elif offset >= end:
            found.append(f"{pipeline}.{sink}/{partition}: a row was read at @{offset}, stable is it only to @{end}")
    return found


def _read_to(case: Case) -> dict[tuple[str, int], int]:
    newest: dict[tuple[str, int], int] = {}
    for sink in case.sinks:
        for row in case.run.rows(sink):
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
        return Oracle(
            name=NAME,
            number=NUMBER,
            verdict=Verdict.FAIL,
            says=f"{len(found)} transactions or partitions are still open",
            evidence=clipped(found[:FIRST], len(found)),
        )
    settings = case.manifest.settings
    unseen = hidden(quiet, settings.pipeline, settings.shards, _read_to(case))
    if unseen:
        raise EvidenceError(unseen[0], case.run.quiet_path, "collect the evidence again")
    says = f"no open transaction; {len(quiet.partitions)} partitions are stable to their end"
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)
