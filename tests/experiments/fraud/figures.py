"""Figures of a run, from its rows and nothing else."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.experiments.fraud.plan import AGGREGATOR, ANALYZERS, STORE
from tests.experiments.fraud.results import EDGES_MS, ArmResult, KillResult, Latency, PhaseResult

Row = Mapping[str, Any]
ARM_WARM_UP = 0.3
"""Share of an arm's decisions, its first ones, that are not measured: Spark compiles its plans meanwhile."""


def latency(took_ms: Sequence[float], target_ms: int) -> Latency | None:
    """Percentiles (nearest rank) and histogram; None of nothing."""
    if not took_ms:
        return None
    ranked = sorted(took_ms)
    # In whole numbers: 99.9 % of a thousand is the 999th, which floating point does not know.
    p50, p99, p99_9, most = (round(ranked[-(-len(ranked) * each // 1000) - 1], 1) for each in (500, 990, 999, 1000))
    bars = Counter(bisect_left(EDGES_MS, one) for one in took_ms)
    in_time = sum(one <= target_ms for one in took_ms) / len(took_ms)
    return Latency(
        decisions=len(took_ms),
        p50=p50,
        p99=p99,
        p99_9=p99_9,
        most=most,
        in_time=round(in_time, 4),
        bars=tuple(bars[number] for number in range(len(EDGES_MS) + 1)),
    )


def took(row: Row) -> float:
    """Milliseconds from arrival to commit."""
    return float(row["committed_ms"] - row["arrived_ms"])


def phase(
    planned: Row,
    number: int,
    *,
    sends: Sequence[Row],
    decisions: Sequence[Row],
    refusals: Sequence[Row],
    events: Sequence[Row],
    target_ms: int,
) -> PhaseResult:
    """One phase, by the records that were sent in it."""
    own = {(one["partition"], one["offset"]) for one in sends if one["phase"] == number}
    decided = [one for one in decisions if (one["partition"], one["offset"]) in own]
    loads = [one["load"] for one in events if one["event"] in ("phase", "settled") and one.get("number") == number]
    return PhaseResult(
        name=planned["name"],
        rate=planned["rate"],
        sent=len(own),
        decided=len(decided),
        refused=sum((one["partition"], one["offset"]) in own for one in refusals),
        partial=sum(one["partial"] for one in decided),
        missing=dict(sorted(Counter(name for one in decided for name in one["missing"]).items())),
        late=sum(took(one) > target_ms for one in decided),
        latency=latency([took(one) for one in decided], target_ms),
        load=(loads[0], loads[-1]),
    )


def kill(fault: Row, number: int, decisions: Sequence[Row], events: Sequence[Row] = ()) -> KillResult:
    """One kill, and whether it can be seen in the decisions; `events` tell what was held meanwhile."""
    target, at = fault["target"], fault["injected_at"]
    back = _stored_again(fault["restarted_at"], decisions) if target == STORE else fault["replaced_at"]
    while_away = [one for one in decisions if at <= one["arrived_ms"] < back]
    # An analyzer's absence is to keep nobody waiting; the others' is to be seen, however short it was.
    least_ms = WAITED_MS if target in ANALYZERS else min(WAITED_MS, (back - at) / 2)
    waited = [one for one in while_away if one["committed_ms"] >= back and back - one["arrived_ms"] > least_ms]
    met = waited if target in (STORE, AGGREGATOR) else [one for one in while_away if target in one["missing"]]
    replaced = fault["process_after"] not in (None, fault["process_before"])
    of_roles = [one for one in events if one["event"] == "role" and target == STORE]
    told = [one for one in of_roles if at <= one["t"] < back]
    return KillResult(
        target=target,
        phase=number,
        injected_at=at,
        process_before=fault["process_before"],
        process_after=fault["process_after"],
        away_s=round((back - at) / 1000, 2),
        met=len(met),
        waited=len(waited),
        skipped=fault.get("skipped"),
        youngest_ms=fault.get("youngest_ms"),
        held=max((one["held"] for one in told if "held" in one), default=None),
        paused=any(one["state"] == "paused" for one in told),
        hit=bool(met) and replaced,
    )


def _stored_again(restarted_at: int, decisions: Sequence[Row]) -> float:
    """When a store that was started again took its first decision: its clients may be led to it only later."""
    commits = (float(one["committed_ms"]) for one in decisions if one["committed_ms"] >= restarted_at)
    return min(commits, default=restarted_at)


WAITED_MS = 1_500
"""What arrived so shortly before the end of an absence may be stored after it for other reasons."""


def arm(name: str, rows: Iterable[Row], told: Row, target_ms: int) -> ArmResult:
    """One of Spark's own triggers."""
    found = sorted((row["arrived_ms"], row["decided_ms"]) for row in rows)
    measured = [decided - arrived for arrived, decided in found[int(len(found) * ARM_WARM_UP) :]]
    return ArmResult(
        name=name, latency=latency(measured, target_ms), says=told.get("says", ""), load=told.get("load", 0.0)
    )
