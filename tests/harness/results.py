"""The verdict of a run for machines: `results.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

On = Literal["embedded", "cluster"]
"""Where a run was played."""
CAMPAIGNS = ("embedded", "cluster")
"""Stacks of campaigns: of their parts some have the negative controls."""
OWN_PIPELINE = "own pipeline"
"""What the campaign on a declared pipeline says in the place of a stack."""


class Verdict(StrEnum):
    """Three-valued: what was shown, what was refuted, what could not be judged."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 2 unknown."""
        return {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.UNKNOWN: 2}[self]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict: fail is worse than unknown, unknown than pass. Of none it is unknown."""
    found = set(verdicts)
    if Verdict.FAIL in found:
        return Verdict.FAIL
    return Verdict.PASS if found == {Verdict.PASS} else Verdict.UNKNOWN


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="forbid")


class LeaderMove(_Frozen):
    """Who led a partition before a fault and after it, by the brokers' numbers, and the leader epoch of each."""

    before: int
    after: int
    epoch_before: int
    epoch_after: int

    @property
    def changed(self) -> bool:
        """Whether another broker leads: every change of a leader raises the epoch."""
        return self.after != self.before and self.epoch_after > self.epoch_before


BOTH, IN, OUT = DIRECTIONS = "both", "in", "out"
"""What a cut drops: all packets, those to the first of the two, or those from it."""


class Effect(StrEnum):
    """What shows that a fault had an effect on the pipeline.

    `REDONE`: work was done again; `SUCCEEDED`: a driver of a newer generation started; `JOINED`: the pod that took the
    place announced its work; `HELD`: the epoch that ran stood still while somebody was away; `MET`: what it hit is
    counted in its own evidence; `OUTSIDE`: no epoch waits for who was struck, whose end or stop is all there is to see;
    `ABSORBED`: other copies answered all along, as readings of the service show.
    """

    REDONE = "work was done again"
    SUCCEEDED = "a newer driver took over"
    JOINED = "the successor works"
    HELD = "the epoch stood still"
    MET = "what it met is counted"
    OUTSIDE = "outside the pipeline"
    ABSORBED = "absorbed by copies"
    NONE = "none"


class Fault(_Frozen):
    """One injected fault. `hit` is what the history confirms, not what the injector claimed.

    `first_at` is when the first of several was struck, `injected_at` when the last was.
    `effect` is what the history shows of it; a fault without one is no hit, and None is one that was not looked at.
    `recovered_s` is the time to the next publication of an epoch that was declared, or done again, after the fault (of
    a server: at its return at `healed_at` or later),
    `replaced_s` to the start of the process that took the place, `caught_up_s` to the publication that left no more
    records behind than `backlog`, what the last ones before the fault had left; `stopped_s` is how long the process
    stood still, `planned_s` how long it was to, or a cut was to last; `response` what the pipeline did meanwhile;
    `refusal` how a driver that was replaced ended; `requests` how many were hit, by kind and what went wrong with them;
    `reopened` the attempts of a task that opened its transaction again; `leaders` who led a partition (`topic/number`)
    before and after it was moved, or while its leader was away;
    `spark_says` what became of a task or stage that Spark ended. Of a cut: `cut_s` is
    how long it lasted, `direction` is `both`, `in` or `out` as the first of the two in `between` sees it, and `dropped`
    is what was held back meanwhile, by unit and direction (`packets in`). Of a slow disk: `slowed_s` is how long it
    was, `delay_ms` by how much every call took longer, and `latency_ms` how long a write took: the median `before`,
    `during` and `after` it, and the `fastest` meanwhile. Of a partition that lags: `held_s` is how long its
    records were kept back, `kept` how many. Of a lost disk: `volumes` are the ones `before` and `after` it.
    """

    kind: str
    target: str
    signal: str | None = None
    first_at: int | None = None
    injected_at: int
    process_before: str | None = None
    process_after: str | None = None
    epoch: int | None = None
    phase: str | None = None
    recovered_s: float | None = None
    replaced_s: float | None = None
    backlog: int | None = None
    caught_up_s: float | None = None
    stopped_s: float | None = None
    planned_s: float | None = None
    response: str | None = None
    healed_at: int | None = None
    refusal: str | None = None
    requests: dict[str, int] | None = None
    reopened: tuple[int, ...] | None = None
    leaders: dict[str, LeaderMove] | None = None
    spark_says: str | None = None
    cut_s: float | None = None
    direction: str | None = None
    between: tuple[str, ...] | None = None
    dropped: dict[str, int] | None = None
    slowed_s: float | None = None
    delay_ms: float | None = None
    latency_ms: dict[str, float] | None = None
    held_s: float | None = None
    kept: int | None = None
    volumes: dict[str, str] | None = None
    effect: Effect | None = None
    hit: bool = False

    @property
    def since(self) -> int:
        """When the first of those that were struck was."""
        return self.injected_at if self.first_at is None else self.first_at


class Spread(_Frozen):
    """Median, 99th percentile (nearest rank: of fewer than 100 it is the maximum) and maximum of `n` times, in s."""

    n: int
    median: float
    p99: float
    max: float


class Recovery(_Frozen):
    """What the faults of one sort came to; the times are those of the faults that hit, None where none has one."""

    kind: str
    target: str
    injected: int
    hits: int
    replaced_s: Spread | None = None
    recovered_s: Spread | None = None
    caught_up_s: Spread | None = None


class Change(_Frozen):
    """One change of a pipeline that ran, by an update of its stack.

    `up_s` is how long the update took, `away_s` the longest time without an epoch, from the last before it to the first
    once the new value was seen where it counts, and `bound_s` what was allowed. `lacks` is why it shows nothing,
    `failed` what went wrong; both are empty where it took effect. `evidence` is where the new value was seen.
    """

    name: str
    says: str
    up_s: float
    away_s: float | None
    bound_s: float
    lacks: str = ""
    failed: str = ""
    evidence: dict[str, str] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """As complaints name it."""
        return f"{self.name} ({self.says})"


class Bound(_Frozen):
    """Faults of a role that hit, and the bound (95 %) on the probability that one of them breaks an output.

    `upper_95` is None where a violation was found, or nothing was shown.
    """

    role: str
    hits: int
    upper_95: float | None = None


class Control(_Frozen):
    """A negative control, the verdict it must get and the one it got."""

    name: str
    must: str
    verdict: Verdict


class Output(_Frozen):
    """One sink against the reference. `duplicated` counts the surplus, `causes` the dead letters that are due."""

    expected: int = 0
    observed: int = 0
    missing: int = 0
    duplicated: int = 0
    phantom: int = 0
    corrupted: int = 0
    causes: dict[str, int] = Field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether nothing is missing, duplicated, phantom or corrupted."""
        return not (self.missing or self.duplicated or self.phantom or self.corrupted)

    def plus(self, other: Output) -> Output:
        """Return the sum of two runs."""
        numbers = {name: getattr(self, name) + getattr(other, name) for name in Output.model_fields if name != "causes"}
        return Output(**numbers, causes=dict(Counter(self.causes) + Counter(other.causes)))


class Answer(_Frozen):
    """What the second judge says of a run: the numbers of each sink, and complaints in sentences.

    `lost`: records of offsets that the chain gave up.
    """

    verdict: Verdict
    sinks: dict[str, Output]
    lost: int = 0
    reasons: tuple[str, ...] = ()


class Oracle(_Frozen):
    """What one oracle (number 1-6) or vacuity guard (number 0) found."""

    name: str
    number: int
    verdict: Verdict
    says: str
    evidence: tuple[str, ...] = ()


class Workload(_Frozen):
    """Records sent. `sent` is the number planned, the others are counted in `sent.jsonl`, without the epilogue.

    `unique_ids`: different ids among the well-formed records; None in a run judged before they were counted.
    """

    sent: int = 0
    acknowledged: int = 0
    unique_ids: int | None = None
    duplicates_sent: int = 0
    late_sent: int = 0
    malformed_sent: int = 0


class Waits(_Frozen):
    """From handing a record to the producer to its first publication, in s, of `n` records; outages included."""

    n: int
    p50: float
    p90: float
    p99: float
    max: float


class WaitsIn(Waits):
    """Of the records that were published in the minute `minute`, counted from the first publication."""

    minute: int


class Epochs(_Frozen):
    """Epochs the chain holds, and publications that repeated one after a failure.

    `longest_gap_s` is the longest time without a publication while records waited for one, from the first publication
    to the epilogue. `waits` is of the records before the epilogue.
    """

    published: int = 0
    replayed: int = 0
    longest_gap_s: float | None = None
    waits: Waits | None = None
    waits_by_minute: tuple[WaitsIn, ...] = ()


class Struck(_Frozen):
    """How many faults of a sort hit at a step; `phase` is the step, with its sink where it has one."""

    kind: str
    target: str
    phase: str
    hits: int


class Part(_Frozen):
    """One run of a campaign. `run` is its directory as it was named, `stack` what it ran on, `commit` of what tree.

    `controls` counts those that failed as they must.
    """

    run: str
    stack: str
    commit: str = ""
    seed: int | None
    verdict: Verdict
    duration_s: float = 0.0
    faults_planned: int | None = None
    hits: int = 0
    exact: bool = False
    controls: int = 0
    workload: Workload = Workload()
    longest_gap_s: float | None = None


class CampaignResults(_Frozen):
    """`results.json` of a campaign: the sum of the `results.json` of its runs.

    `violations` counts the oracles that said fail. Ids are those of a run, each of which has a pipeline of its own, so
    `workload.unique_ids` is the sum; it is None when a run does not tell. `bounds` rest on the runs that passed.
    """

    verdict: Verdict
    violations: int
    parts: tuple[Part, ...]
    duration_s: float = 0.0
    workload: Workload = Workload()
    outputs: dict[str, Output] = Field(default_factory=dict)
    epochs: Epochs = Epochs()
    recovery: tuple[Recovery, ...] = ()
    struck: tuple[Struck, ...] = ()
    bounds: tuple[Bound, ...] = ()
    bounds_say: str = ""
    reasons: tuple[str, ...] = ()


class Results(_Frozen):
    """`results.json`. `root` is the digest that its evidence is bound by; None where it was never bound."""

    claim: str
    verdict: Verdict
    seed: int | None
    duration_s: float
    workload: Workload = Workload()
    outputs: dict[str, Output] = Field(default_factory=dict)
    epochs: Epochs = Epochs()
    faults: tuple[Fault, ...] = ()
    changes: tuple[Change, ...] = ()
    recovery: tuple[Recovery, ...] = ()
    bounds: tuple[Bound, ...] = ()
    bounds_say: str = ""
    controls: tuple[Control, ...] = ()
    versions: dict[str, Any] = Field(default_factory=dict)
    git: dict[str, Any] = Field(default_factory=dict)
    root: str | None = None
    oracles: tuple[Oracle, ...] = ()
    reasons: tuple[str, ...] = ()

    def oracle(self, name: str) -> Oracle:
        """Return the oracle or guard of that name; KeyError when it was not judged."""
        for oracle in self.oracles:
            if oracle.name == name:
                return oracle
        raise KeyError(name)
