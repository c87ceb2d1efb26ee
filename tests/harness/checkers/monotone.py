"""Oracle 3: a reader running during the faults sees a growing set: nothing it saw is retracted, changed or preceded.

Kafka sinks: every record it saw is there at the end, at its partition and offset, unchanged; it saw offsets in
ascending order, and no record turned up later at an offset it had passed. Object store: every manifest it saw names
the same rows at the end. It looked all the time: it saw the rows of each epoch soon after they were published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.harness.checkers.backlog import first_publications
from tests.harness.checkers.case import Case, refute
from tests.harness.checkers.clock import span_of_run
from tests.harness.evidence import EvidenceError
from tests.harness.results import Oracle, Verdict
from tests.harness.sends import crc_of_row

NAME, NUMBER = "monotone", 3
LOOKS_S = 30.0
"""So soon after their publication the reader sees rows: within 1.5 s in quiet runs, later when a server was away."""
_TODO = "run again; the reader's error is in the run's logs"
Rows = Iterable[Mapping[str, Any]]


@dataclass
class Comparison:
    """What the reader saw of a sink against what is there at the end.

    Attributes:
        broken: what was retracted, changed or came behind the reader.
        unread: records at the end that the reader had not come to.
        seen: records the reader saw.
        first_ms, last_ms: from when to when it read; None without its own word.
        seen_ms: when it saw the last row of each epoch.
    """

    sink: str
    broken: list[str] = field(default_factory=list)
    unread: int = 0
    seen: int = 0
    manifests: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    seen_ms: dict[int, int] = field(default_factory=dict)

    def longest_s(self, published: Mapping[int, int]) -> float:
        """Return the longest time (s) that rows of an epoch were visible before it saw them; 0 where none were."""
        behind = (at - published[epoch] for epoch, at in self.seen_ms.items() if epoch in published)
        return max([0, *behind]) / 1000


def compare(sink: str, observations: Rows, late: Rows) -> Comparison:
    """Compare one sink.

    Raises:
        KeyError, TypeError, ValueError: an observation is damaged.
    """
    found = Comparison(sink)
    kept = list(_observe(found, observations))
    if any("object" in one for one in kept):
        _manifests(found, kept, late)
    else:
        _records(found, kept, late)
    return found


def _observe(found: Comparison, observations: Rows) -> Iterator[Mapping[str, Any]]:
    """Pass on what was seen, and note from when to when the reader ran."""
    before = 0
    for one in observations:
        if one["t"] < before:
            raise ValueError(f"the reader's clock went back at {one['t']}")
        before = one["t"]
        if one.get("reader") == "started":
            found.first_ms = one["t"]
        elif one.get("reader") == "stopped":
            found.last_ms = one["t"]
        else:
            yield one


def _records(found: Comparison, observations: Rows, late: Rows) -> None:
    there: dict[tuple[int, int], int] = {}
    epochs: dict[tuple[int, int], int] = {}
    for row in late:
        place = (row["partition"], row["offset"])
        there[place] = crc_of_row(row)
        if (epoch := row.get("epoch")) is not None:
            epochs[place] = epoch
    passed: dict[int, int] = defaultdict(lambda: -1)
    seen: set[tuple[int, int]] = set()
    for one in observations:
        partition = one["partition"]
        for offset, crc in zip(one["offsets"], one["crcs"], strict=True):
            place = (partition, offset)
            found.seen += 1
            if offset <= passed[partition]:
                found.broken.append(f"{_at(found, place)} was seen after offset {passed[partition]}, at {one['t']}")
            passed[partition] = max(passed[partition], offset)
            seen.add(place)
            if place in epochs:
                found.seen_ms[epochs[place]] = one["t"]
            if place not in there:
                found.broken.append(f"{_at(found, place)} was seen at {one['t']} and is gone at the end")
            elif there[place] != crc:
                found.broken.append(f"{_at(found, place)} was seen at {one['t']} and has another content at the end")
    for place in sorted(there.keys() - seen):
        if place[1] < passed[place[0]]:
            found.broken.append(f"{_at(found, place)} turned up behind a reader that had passed it")
        else:
            found.unread += 1


def _manifests(found: Comparison, observations: Rows, late: Rows) -> None:
    there: dict[int, list[int]] = defaultdict(list)
    for row in late:
        there[row["epoch"]].append(crc_of_row(row))
    epochs: set[int] = set()
    for one in observations:
        epoch = one["epoch"]
        found.seen += len(one["crcs"])
        if epoch in epochs:
            found.broken.append(f"{found.sink}: the manifest of epoch {epoch} was seen twice")
        elif epoch != len(epochs):
            raise ValueError(f"the reader asks for one manifest after the other: epoch {epoch}, due {len(epochs)}")
        epochs.add(epoch)
        found.seen_ms[epoch] = one["t"]
        if sorted(one["crcs"]) != sorted(there.get(epoch, [])):
            found.broken.append(
                f"{found.sink}: {one['object']} of epoch {epoch} named {len(one['crcs'])} rows at {one['t']} and "
                f"{len(there.get(epoch, []))} rows, or others, at the end"
            )
    found.unread += sum(len(rows) for epoch, rows in there.items() if epoch not in epochs)
    found.manifests = len(epochs)


def _at(found: Comparison, place: tuple[int, int]) -> str:
    return f"{found.sink}/{place[0]}@{place[1]}"


def judge(case: Case) -> Oracle:
    """Oracle 3; raises EvidenceError, also when the reader did not look during every fault, or not to the end."""
    compared: list[Comparison] = []
    # A table's rows have no place, and no order in which a reader could say what came behind it.
    for sink in case.watched:
        path = case.run.concurrent_path(sink)
        try:
            compared.append(compare(sink, case.run.concurrent_rows(sink), case.rows(sink)))
        except (KeyError, TypeError, ValueError) as error:
            raise EvidenceError(f"an observation is damaged ({type(error).__name__}: {error})", path, _TODO) from error
    broken = [line for one in compared for line in one.broken]
    if broken:
        says = f"{len(broken)} records were retracted, changed or slipped in behind a reader"
        return refute(NAME, NUMBER, says, broken)
    hits = [event["injected_at"] for event in case.events if event["event"] == "fault" and event.get("hit")]
    published = first_publications(case.events)
    began, ended = span_of_run(case.events)
    longest_s = 0.0
    for one in compared:
        path = case.run.concurrent_path(one.sink)
        if one.first_ms is None or one.last_ms is None:
            raise EvidenceError("the reader does not say when it began or ended", path, _TODO)
        if hits and not one.first_ms <= min(hits) <= max(hits) <= one.last_ms:
            raise EvidenceError("the reader did not run during every fault", path, _TODO)
        if one.first_ms < began or one.last_ms > ended:
            raise EvidenceError("the reader tells of a time when there was no run", path, _TODO)
        if one.unread:
            raise EvidenceError(f"the reader had not come to {one.unread} records at the end", path, _TODO)
        if one.manifests is not None and one.manifests != len(case.chain.epochs):
            raise EvidenceError(
                f"the reader saw {one.manifests} manifests, the chain has {len(case.chain.epochs)} epochs", path, _TODO
            )
        if (behind_s := one.longest_s(published)) > LOOKS_S:
            raise EvidenceError(
                f"rows were visible for {behind_s:.0f} s before the reader looked; {LOOKS_S:g} s is the limit",
                path,
                _TODO,
            )
        longest_s = max(longest_s, behind_s)
    seen = sum(one.seen for one in compared)
    if not seen:
        raise EvidenceError("the reader saw nothing", case.run.observed, _TODO)
    says = (
        f"a reader that ran all the time saw {seen} records, within {longest_s:.1f} s of their publication; every one "
        "is there at the end, unchanged, in its place"
    )
    return Oracle(name=NAME, number=NUMBER, verdict=Verdict.PASS, says=says)
