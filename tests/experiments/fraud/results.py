"""What a run of fraud detection came to, for machines: `results.json`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from tests.harness.results import On, Verdict

EDGES_MS = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 40, 60, 100, 250, 1_000, 5_000)
"""Upper ends of the histogram's bars; the last bar has no end."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Latency(_Frozen):
    """Milliseconds from a transaction's arrival in Kafka to the commit of its decision; `bars` count by `EDGES_MS`."""

    decisions: int
    p50: float
    p99: float
    p99_9: float
    most: float
    in_time: float
    bars: tuple[int, ...]


class PhaseResult(_Frozen):
    """One phase.

    Attributes:
        sent: records that the broker acknowledged.
        decided, refused: what they came to, as the result store has it.
        partial: decisions without one analyzer or more.
        missing: analyzer -> decisions without it.
        late: decisions stored later than the target after arrival.
        load: of the machine in the last minute, when it began and when all was decided.
    """

    name: str
    rate: int
    sent: int
    decided: int
    refused: int
    partial: int
    missing: dict[str, int]
    late: int
    latency: Latency | None
    load: tuple[float, float]


class KillResult(_Frozen):
    """One kill.

    Attributes:
        phase: number of its phase.
        away_s: until the role ran on another executor, or the store took a decision again.
        met: decisions that show it: without the analyzer, or stored after the aggregator or the store was back.
        waited: decisions about what arrived while an analyzer was away that were stored only when it was back.
        skipped: transactions that the analyzer found and did not score as they had arrived before it began.
        youngest_ms: age of the youngest of them.
        held: how many records the aggregator held at most while the store was away, as far as it told.
        paused: whether it read no more transactions meanwhile, as it held so many.
    """

    target: str
    phase: int
    injected_at: int
    process_before: str
    process_after: str | None
    away_s: float
    met: int
    waited: int = 0
    skipped: int | None = None
    youngest_ms: int | None = None
    held: int | None = None
    paused: bool = False
    hit: bool


class ArmResult(_Frozen):
    """One of Spark's own triggers; `says` why it has no latency, `load` that of the machine when it was measured."""

    name: str
    latency: Latency | None = None
    says: str = ""
    load: float = 0.0


class FraudResults(_Frozen):
    """`results.json`: figures, and why the verdict is not a pass where it is none.

    Attributes:
        counts: records by what they came to: decided, or the reason of a refusal.
        due: the same, recomputed from the sends.
        answers: the presenter's, by status and by how the result store was.
    """

    on: On = "embedded"
    claim: str
    verdict: Verdict
    seed: int
    deadline_ms: int
    target_ms: int
    counts: dict[str, int] = {}
    due: dict[str, int] = {}
    answers: dict[str, int] = {}
    phases: tuple[PhaseResult, ...] = ()
    kills: tuple[KillResult, ...] = ()
    arms: tuple[ArmResult, ...] = ()
    reasons: tuple[str, ...] = ()
    machine: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    git: dict[str, Any] = {}
