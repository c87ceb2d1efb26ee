"""The verdict of a run for machines: `results.json`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


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


class Fault(_Frozen):
    """One injected fault. `hit` is what the history confirms, not what the injector claimed.

    `recovered_s` is the time to the next published epoch (of a server: the next one after it was back at `healed_at`),
    `replaced_s` to the start of the process that took the place; `stopped_s` is how long the process stood still,
    `refusal` how a zombie ended after it woke.
    """

    kind: str
    target: str
    signal: str | None = None
    injected_at: int
    process_before: str | None = None
    process_after: str | None = None
    epoch: int | None = None
    phase: str | None = None
    recovered_s: float | None = None
    replaced_s: float | None = None
    stopped_s: float | None = None
    healed_at: int | None = None
    refusal: str | None = None
    hit: bool = False


class Control(_Frozen):
    """A negative control, the verdict it must get and the one it got."""

    name: str
    must: str
    verdict: Verdict


class Output(_Frozen):
    """One sink against the reference. `duplicated` counts the surplus records."""

    expected: int = 0
    observed: int = 0
    missing: int = 0
    duplicated: int = 0
    phantom: int = 0
    corrupted: int = 0

    @property
    def exact(self) -> bool:
        """Whether nothing is missing, duplicated, phantom or corrupted."""
        return not (self.missing or self.duplicated or self.phantom or self.corrupted)


class Oracle(_Frozen):
    """What one oracle (number 1-6) or vacuity guard (number 0) found."""

    name: str
    number: int
    verdict: Verdict
    says: str
    evidence: tuple[str, ...] = ()


class Workload(_Frozen):
    """Records sent. `sent` is the number planned, the others are counted in `sent.jsonl`, without the epilogue."""

    sent: int = 0
    acknowledged: int = 0
    duplicates_sent: int = 0
    late_sent: int = 0
    malformed_sent: int = 0


class Epochs(_Frozen):
    """Epochs the chain holds, and publications that repeated one after a failure.

    `longest_gap_s` is the longest time between two publications while records were sent, up to the drain's last.
    """

    published: int = 0
    replayed: int = 0
    longest_gap_s: float | None = None


class Results(_Frozen):
    """`results.json`."""

    claim: str
    verdict: Verdict
    seed: int | None
    duration_s: float
    workload: Workload = Workload()
    outputs: dict[str, Output] = Field(default_factory=dict)
    epochs: Epochs = Epochs()
    faults: tuple[Fault, ...] = ()
    controls: tuple[Control, ...] = ()
    versions: dict[str, Any] = Field(default_factory=dict)
    git: dict[str, Any] = Field(default_factory=dict)
    oracles: tuple[Oracle, ...] = ()
    reasons: tuple[str, ...] = ()

    def oracle(self, name: str) -> Oracle:
        """Return the oracle or guard of that name; KeyError when it was not judged."""
        for oracle in self.oracles:
            if oracle.name == name:
                return oracle
        raise KeyError(name)
