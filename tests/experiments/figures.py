"""What results of every experiment are made of: claims that hold or not, latencies, and what an arm cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from tests.harness.checkers import adding_up
from tests.harness.results import Verdict

FACTS = "facts.json"


class Model(BaseModel):
    """A part of the results."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Claim(Model):
    """A sentence that holds or not.

    Attributes:
        of: what it is about: an arm, a stream.
        promise: whether it is one that the arm makes; otherwise a guard: without it the run shows nothing.

    """

    of: str
    says: str
    holds: bool
    found: str
    promise: bool = True


def promise(of: str, says: str, holds: bool, found: str) -> Claim:
    """Say what an arm promises."""
    return Claim(of=of, says=says, holds=holds, found=found)


def guard(of: str, says: str, holds: bool, found: str) -> Claim:
    """Say what has to have been seen of an arm."""
    return Claim(of=of, says=says, holds=holds, found=found, promise=False)


def verdict(claims: Sequence[Claim], *, whole: bool) -> Verdict:
    """Fail for a promise that does not hold; unknown for a guard that does not, or where not all was played."""
    if any(one.promise and not one.holds for one in claims):
        return Verdict.FAIL
    return Verdict.PASS if claims and whole and all(one.holds for one in claims) else Verdict.UNKNOWN


class Latency(Model):
    """Milliseconds from a record's sending to the commit of its first row, over the events that have one."""

    events: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


Done = Sequence[tuple[float, float]]
"""Of records, when each was sent and when its first row was there, in ms."""


def latency(done: Done) -> Latency | None:
    """Sum up latencies; None where there are none."""
    if not done:
        return None
    took_ms = [at_ms - sent_ms for sent_ms, at_ms in done]
    p50, p90, p99, most = (round(float(one), 1) for one in np.percentile(took_ms, [50, 90, 99, 100]))
    return Latency(events=len(done), p50_ms=p50, p90_ms=p90, p99_ms=p99, max_ms=most)


def throughput(done: Done) -> float | None:
    """Records a second, from the first sending to the last row."""
    if not done:
        return None
    began, ended = min(sent_ms for sent_ms, _ in done), max(at_ms for _, at_ms in done)
    return float(round(len(done) / (ended - began) * 1000, 1))


class Facts(Model):
    """What the play of an arm noted down beside rows.

    Attributes:
        load: of the machine in the minute before it began, and in its last one.
        broke_off: why the play did not come to its end.

    """

    load: tuple[float, float]
    broke_off: str | None = None


class Costs(Facts):
    """And what it used.

    Attributes:
        cpu_s: processor time of its processes, by part; empty where it is not measured.
        object_store_bytes: below the pipeline's name, when it had ended.

    """

    cpu_s: dict[str, float]
    object_store_bytes: int
    objects: int


class Figures(Model):
    """Of one arm; `broke_off` as its facts have it."""

    broke_off: str | None = None


class CostFigures(Figures):
    """Of one arm, with what it used."""

    cpu_s_per_1000: float | None
    object_store_bytes: int
    objects: int
    load: tuple[float, float]


def costs(facts: Costs, parts: Mapping[str, int]) -> dict[str, Any]:
    """Sum up what an arm used; `parts` are those that are measured, with the numbers of their records."""
    seconds = sum(facts.cpu_s.get(part, 0.0) for part in parts)
    return {
        "broke_off": facts.broke_off,
        "cpu_s_per_1000": round(1000 * seconds / sum(parts.values()), 3) if facts.cpu_s else None,
        "object_store_bytes": facts.object_store_bytes,
        "objects": facts.objects,
        "load": facts.load,
    }


def faults_in(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Kills that a history tells of."""
    return [one for one in events if one["event"] == "fault"]


def describe_sums(records: Mapping[str, int], complaints: Sequence[str]) -> str:
    """Say how the counts of all epochs add up, or the first that does not."""
    parts = ", ".join(f"{records.get(part, 0):,} {part}" for part in adding_up.PARTS)
    return complaints[0] if complaints else f"{records.get('in', 0):,} = {parts}"
