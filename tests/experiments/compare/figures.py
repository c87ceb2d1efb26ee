"""Figures of one semantics, computed from the evidence of its arm and nothing else."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from effectively_once_jobs.system_usage.settings import EXACTLY_ONCE, Semantics
from tests.experiments.compare.plan import BURST, CALM, STRUCK, Plan
from tests.experiments.figures import FACTS, CostFigures, Costs, Latency, Model, costs, faults_in, latency, throughput
from tests.harness.checkers import adding_up
from tests.harness.run_directory import RunDirectory, read_lines

COUNTED, USAGE, ASKED = "counted", "usage", "asked"


class Counts(Model):
    """Both counts."""

    transactions: int
    frauds: int


class Facts(Costs):
    """What the play noted down beside rows.

    Attributes:
        tables_bytes: of its tables in the result store.
        state: both totals as the state of an operator that was restored from checkpoints, the closers among them.

    """

    semantics: Semantics
    tables_bytes: int
    state: Counts | None = None


class Figures(CostFigures):
    """One semantics.

    Attributes:
        due: what both counts have to be.
        counted: the rows of the table of counted events.
        usage: both counts as the table of usage has them; but for failures the same.
        state: both totals by the operator's state, where one is kept.
        processed: times looked up -> events. Look-ups that failed are among them.
        delivered: times counted -> events.
        phantoms: rows that are of no transaction that was sent, or say otherwise whether it is a fraud.
        out_of_order: events that were counted first after one which the same user sent later.
        replayed_late: those among them that were counted in a later batch than it.
        kills_hit: executors killed while a batch was running.
        failed_look_ups: of all.
        records: in, accepted, late, duplicate and malformed of all epochs, where the semantics counts them.
        complaints: sums of these that are off.

    """

    semantics: Semantics
    due: Counts
    counted: Counts
    usage: Counts
    state: Counts | None
    processed: dict[int, int]
    delivered: dict[int, int]
    phantoms: int
    out_of_order: int
    replayed_late: int
    calm: Latency | None
    struck: Latency | None
    throughput_per_s: float | None
    cpu_s: dict[str, float]
    tables_bytes: int
    kills_hit: int
    recovered_s: list[float]
    look_ups: int
    failed_look_ups: int
    records: dict[str, int] = Field(default_factory=dict)
    complaints: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        """Events that were never counted."""
        return self.delivered.get(0, 0)

    @property
    def doubled(self) -> int:
        """Events that were counted more than once."""
        return sum(events for times, events in self.delivered.items() if times > 1)

    @property
    def processed_more(self) -> int:
        """Events that were looked up more than once."""
        return sum(events for times, events in self.processed.items() if times > 1)

    def error(self, of: str) -> int:
        """Count less what is due."""
        return int(getattr(self.usage, of) - getattr(self.due, of))


def figures(path: Path, plan: Plan, arm: str) -> list[Figures]:
    """Compute one arm's figures, from the folder of a run.

    Raises:
        EvidenceError: evidence is missing or damaged.
        ValidationError: the facts are none.

    """
    run = RunDirectory(path / arm)
    facts = Facts.model_validate_json((run.path / FACTS).read_bytes())
    acknowledged = list(read_lines(run.sent_path))
    sends = {row["id"]: row for row in acknowledged if row["kind"] == "fresh"}
    # Closers stand after everything that is measured.
    closers = {row["id"] for row in acknowledged if row["kind"] == "closer"}
    rows = [row for row in run.rows(COUNTED) if row["id"] not in closers]
    asked = [row for row in run.rows(ASKED) if row["id"] in sends]
    last_ms = max(row["event_time_ms"] for row in sends.values())
    usage = [row for row in run.rows(USAGE) if row["window_start_ms"] <= last_ms]
    first = _first(rows)
    delivered, processed = Counter(row["id"] for row in rows), {row["id"]: row["times"] for row in asked}
    calls = next(iter(run.rows("calls")))
    events = run.whole_events() if facts.broke_off is None else run.events()
    faults = faults_in(events)
    displaced, late = out_of_order(rows, _batches(events))
    parts = {part: len(plan.parts[part]) for part in (CALM, BURST, STRUCK)}
    counted = [(row["n"], (row["sent_at"], first[one])) for one, row in sends.items() if one in first]
    done = {part: [times for number, times in counted if number in plan.parts[part]] for part in parts}
    # The other three know no late records and no copies, and tell offsets alone.
    epochs = adding_up.published_epochs(events) if facts.semantics == EXACTLY_ONCE and facts.broke_off is None else []
    found = Figures(
        semantics=facts.semantics,
        due=Counts(transactions=len(sends), frauds=sum(map(plan.is_fraud, sends))),
        counted=Counts(transactions=len(rows), frauds=sum(row["fraud"] for row in rows)),
        usage=Counts(
            transactions=sum(row["transactions"] for row in usage), frauds=sum(row["frauds"] for row in usage)
        ),
        state=facts.state and Counts(transactions=facts.state.transactions - len(closers), frauds=facts.state.frauds),
        processed=dict(sorted(Counter(processed.get(one, 0) for one in sends).items())),
        delivered=dict(sorted(Counter(delivered[one] for one in sends).items())),
        phantoms=sum(row["id"] not in sends or bool(row["fraud"]) != plan.is_fraud(row["id"]) for row in rows),
        out_of_order=displaced,
        replayed_late=late,
        calm=latency(done[CALM]),
        struck=latency(done[STRUCK]),
        throughput_per_s=throughput(done[BURST]),
        cpu_s=facts.cpu_s,
        **costs(facts, parts),
        tables_bytes=facts.tables_bytes,
        kills_hit=sum(one["hit"] for one in faults),
        recovered_s=[one["recovered_s"] for one in faults if one["recovered_s"] is not None],
        look_ups=calls["calls"],
        failed_look_ups=calls["failed"],
        records=dict(adding_up.sums(epochs)),
        complaints=tuple(adding_up.complaints(epochs, len(acknowledged))) if epochs else (),
    )
    return [found]


def out_of_order(rows: Sequence[Mapping[str, Any]], batches: Sequence[float]) -> tuple[int, int]:
    """Count the events of which the first row stands after that of an event which the same user sent later.

    Args:
        rows: of the table of counted events, in the order in which they were committed.
        batches: when each batch began, in ms; a row is of the last one that had begun when it was committed.

    Returns:
        All of them, and those among them that are in a later batch than such an event. Within a batch tasks commit
        beside each other, whatever the semantics.

    """
    seen: set[str] = set()
    furthest: dict[str, tuple[int, int]] = {}
    found = later = 0
    for row in rows:
        if row["id"] in seen:
            continue
        seen.add(row["id"])
        # All records of a user are in one partition.
        batch = bisect_right(batches, row["at_ms"])
        offset, where = furthest.get(row["user"], (-1, batch))
        if row["offset"] < offset:
            found += 1
            later += int(batch > where)
        else:
            furthest[row["user"]] = row["offset"], batch
    return found, later


def _batches(events: Sequence[Mapping[str, Any]]) -> list[float]:
    """When each batch began. One that the next driver repeats is the same, and the numbers of some begin anew then."""
    declared = [event for event in events if event["event"] == "epoch" and event["state"] == "declared"]
    before = [None, *(event["epoch"] for event in declared)]
    return [event["t"] for event, last in zip(declared, before, strict=False) if event["epoch"] != last]


def _first(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Id -> when its first row was committed."""
    found: dict[str, float] = {}
    for row in rows:
        found[row["id"]] = min(row["at_ms"], found.get(row["id"], row["at_ms"]))
    return found
