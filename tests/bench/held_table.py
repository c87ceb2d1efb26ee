"""The tables of a held watermark: what it costs as ratios to one that is not held, and latency by either rule."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench import table
from tests.bench.facts import spread
from tests.bench.held_epochs import compare_latencies, middle_and_longest
from tests.bench.held_options import Asked
from tests.bench.memory import ROLES

BY_SLOWEST, BY_FRONT = "by the partition furthest behind", "by the largest time seen"
NOT_HELD = "not held"
BY_SPLIT = "Flink, by split"
Taken = Mapping[str, Sequence[Mapping[str, Any]]]


def name_of(minutes: int, bound: int | None = None) -> str:
    """Name an arm by how long the watermark is held, and how many rows a shard may keep for it."""
    held = f"held for {minutes} min" if minutes else NOT_HELD
    return held if bound is None else f"{held}, held_rows_max {bound:,}"


def write(costs: Taken, waits: Taken, asked: Asked) -> str:
    """Write both tables, with ratios below each."""
    return "\n".join([*_costs(costs, asked), "", *_waits(waits, asked)])


def _costs(costs: Taken, asked: Asked) -> list[str]:
    memory = {role: {arm: [one["mib"][role] for one in taken] for arm, taken in costs.items()} for role in ROLES}
    times = {arm: [middle_and_longest(one["epoch_ms"]) for one in taken] for arm, taken in costs.items()}
    median = {arm: [one for one, _ in taken] for arm, taken in times.items()}
    longest = {arm: [one for _, one in taken] for arm, taken in times.items()}
    heading = ["watermark", *(f"{role}: MiB" for role in ROLES), "epoch: ms", "longest epoch: ms", "late"]
    rows = [
        [
            arm,
            *(spread(memory[role][arm]) for role in ROLES),
            spread(median[arm]),
            spread(longest[arm]),
            f"{statistics.median(one['late'] for one in taken):,.0f}",
        ]
        for arm, taken in costs.items()
    ]
    return [
        f"{asked.records:,} events of {asked.users:,} users and 20 minutes, all in the topic before; one of four "
        f"partitions stands still; epochs of {asked.epoch_rows:,}, {asked.rounds} rounds; the largest resident memory, "
        "medians of rounds (from, to)",
        "",
        table.table(heading, rows),
        "",
        *(
            f"{what}: {table.ratio(samples, arm, NOT_HELD)}"
            for what, samples in (*memory.items(), ("epoch", median), ("longest epoch", longest))
            for arm in costs
            if arm != NOT_HELD
        ),
    ]


def _waits(waits: Taken, asked: Asked) -> list[str]:
    """Latencies of the windows that all rules have closed, round by round; the ratio is that of the same round."""
    by_round = [
        compare_latencies({rule: _by_window(taken[number]) for rule, taken in waits.items()})
        for number in range(asked.rounds)
    ]
    medians = {rule: [statistics.median(one[rule]) for one in by_round] for rule in waits}
    longest = {rule: [max(one[rule]) for one in by_round] for rule in waits}
    rows = [
        [
            rule,
            spread(medians[rule], 1),
            spread(longest[rule], 1),
            f"{statistics.median(one['late'] for one in taken):,.0f}",
        ]
        for rule, taken in waits.items()
    ]
    return [
        f"{asked.per_s:,} events a second for {asked.seconds} s, one of four partitions behind by more than windows "
        "wait; seconds from when the others had sent all of a window until readers saw its last result",
        "",
        table.table(["time goes", "median: s (from, to)", "longest: s (from, to)", "late"], rows),
        "",
        *(
            f"{what}: {table.ratio(samples, BY_SLOWEST, other)}"
            for other in (BY_FRONT, BY_SPLIT)
            for what, samples in (("median", medians), ("longest", longest))
        ),
    ]


def _by_window(sample: Mapping[str, Any]) -> dict[int, float]:
    return {int(start): took for start, took in sample["latency_s"].items()}
