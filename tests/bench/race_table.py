"""The tables of the race: rows per second, CPU seconds, and ratios of one round; an arm that is wrong has none."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.bench import table
from tests.bench.facts import spread
from tests.bench.place import BROKER, STORE
from tests.bench.race_arms import OURS, Arm, Course
from tests.bench.s1_arms import ARM

WRONG = "wrong"
"""Field of a sample that is none: why."""
CPU_AT_MOST = table.Target(at_most=1.2)
ENOUGH_S = 3.0
"""Rows are counted when a batch or a transaction ends, about every second: less than this measures mostly that."""
SHARES = {"its own": ARM, BROKER: BROKER, STORE: STORE}
HEADING = ("arm", "rows/s, median (from, to)", "CPU s per million records, median (from, to)", *SHARES)
Sample = Mapping[str, Any]
Taken = Mapping[Arm, Sequence[Sample]]


def write(samples: Mapping[Course, Taken]) -> tuple[str, dict[str, list[float]]]:
    """Return the text, and rows per second by what they are of."""
    (course, first), *_ = samples.items()
    rounds = len(next(iter(first.values())))
    head = (
        f"{course.records:,} events of {course.events.users:,} users, {course.events.duplicates:.0%} copies; broker "
        f"and object store on the same machine; {rounds} round{'s' if rounds > 1 else ''}; ratios are medians of those "
        "of one round (from, to)"
    )
    programs = {arm.key: arm.program for arm in first}.values()
    does = "\n".join(f"- {program.name}: {program.does}" for program in programs)
    text = "\n\n".join([head, *(_section(*each) for each in samples.items()), does])
    right = {(arm, course): taken[arm] for course, taken in samples.items() for arm in taken if not _wrong(taken[arm])}
    if (shortest_s := min((one["measured_s"] for each in right.values() for one in each), default=ENOUGH_S)) < ENOUGH_S:
        text += f"\n\nTOO SHORT: one arm was measured for {shortest_s:.1f} s only. Take more records."
    return text, {f"{arm.name}, {course}": _speed(each) for (arm, course), each in right.items()}


def say(sample: Sample) -> str:
    """Say what came of one run."""
    if WRONG in sample:
        return f"WRONG: {sample[WRONG]}"
    return f"{sample['rows_per_s']:,.0f} rows/s, {_cpu(sample):.1f} CPU s per million records"


def _section(course: Course, taken: Taken) -> str:
    rows = [[arm.name, *_row(each)] for arm, each in taken.items()]
    return "\n".join([f"Records of {course}", "", table.table(HEADING, rows), "", *_ratios(taken)])


def _row(each: Sequence[Sample]) -> list[str]:
    if why := _wrong(each):
        return [f"WRONG: {why}", *["-"] * (len(HEADING) - 2)]
    shares = (statistics.median(one["cpu_s_per_million"].get(of, 0.0) for one in each) for of in SHARES.values())
    return [spread(_speed(each)), spread([*map(_cpu, each)], 1), *(f"{share:.1f}" for share in shares)]


def _ratios(taken: Taken) -> Iterator[str]:
    """Ours beside each peer that publishes the same, and beside the one that takes the least CPU time."""
    right = {arm: each for arm, each in taken.items() if not _wrong(each)}
    speed = {arm.name: _speed(each) for arm, each in right.items()}
    cpu = {arm.name: [*map(_cpu, each)] for arm, each in right.items()}
    for ours in (arm for arm in right if arm.key == OURS):
        peers = [arm for arm in right if arm.key != OURS and arm.accepted == ours.accepted]
        for peer in peers:
            yield table.paired(speed, ours.name, peer.name, table.Target(at_least=peer.program.ahead))
        if peers:
            cheapest = min(peers, key=lambda arm: statistics.median(cpu[arm.name]))
            yield f"CPU seconds beside the cheapest peer: {table.paired(cpu, ours.name, cheapest.name, CPU_AT_MOST)}"


def _wrong(each: Sequence[Sample]) -> str | None:
    """Why an arm was wrong, in the first round in which it was."""
    return next((str(one[WRONG]) for one in each if WRONG in one), None)


def _speed(each: Sequence[Sample]) -> list[float]:
    return [float(one["rows_per_s"]) for one in each]


def _cpu(sample: Sample) -> float:
    return float(sum(sample["cpu_s_per_million"].values()))
