"""Figures of each variant, computed from what its driver left: answers, Spark's event log, pods of its executors."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.bench import event_log
from tests.bench.event_log import Query
from tests.bench.optimisations_table import EPOCH, QUERY
from tests.experiments import figures as shared
from tests.experiments.figures import FACTS
from tests.experiments.optimisations.plan import ACTORS, ARMS, ROUND, Plan
from tests.harness.evidence import EvidenceError
from tests.harness.run_directory import RunDirectory

LOG = "spark-events"
COUNTED = "user_counts"
EPOCH_OPERATOR = "MapInArrow"
"""Only the query of an epoch has it."""
Counts = Mapping[tuple[str, int], int]


class Facts(shared.Facts):
    """What the play noted down of a driver; `executors`: address -> pod, as name@uid."""

    executors: dict[str, str]


class Figures(shared.Figures):
    """One variant.

    Attributes:
        part: the query, or the pipeline's epochs.
        queries: of Spark that are added up: one, or the epochs.
        stages: of one of them.
        remote_bytes: of the bytes, those that went from one executor to another.
        by_stage: records and bytes that each stage of the last one wrote for a shuffle.
        tasks: pod -> tasks that ended well in it.
        elsewhere: tasks that ran in none of the executors' pods.
        windows: that had to be answered, and were compared.
        wrong: where it answered otherwise than was sent.
        answer: digest of all that was compared.
        plan: operators of one query, from the source on.
    """

    part: str
    arm: str
    queries: int
    stages: int
    shuffled_bytes: int
    shuffled_records: int
    remote_bytes: int
    by_stage: list[tuple[int, int]]
    tasks: dict[str, int]
    elsewhere: int
    windows: int
    wrong: list[str]
    answer: str
    plan: list[str]


def figures(run: Path, plan: Plan, name: str) -> list[Figures]:
    """Read what a driver left: the figures of its variants.

    Raises:
        EvidenceError: something of it is missing, or it broke off.
        OSError: a file cannot be read.
        ValueError: a file is damaged.
    """
    directory, actor = RunDirectory(run / name), next(one for one in ACTORS if one.name == name)
    facts = Facts.model_validate_json((directory.path / FACTS).read_bytes())
    if facts.broke_off:
        raise EvidenceError(f"it broke off: {facts.broke_off}", directory.path, "run again")
    logged = event_log.read(directory.path / LOG)
    if actor.arm is None:
        return list(_of_query(directory, facts, logged, plan))
    epochs = [one for one in logged if any(EPOCH_OPERATOR in line for line in one.plan)]
    rows = [(row["user"], row["window_start_ms"], row["count"]) for row in directory.rows(COUNTED)]
    due = plan.events.per_user(copies=False)
    closed = {key: count for key, count in due.items() if plan.closed(key[1])}
    published = {(user, start): count for user, start, count in rows}
    answer = sorted((key, published.get(key)) for key in closed)
    windows = len({start for _, start in closed})
    wrong = find_wrong_rows(rows, due, closed)
    return [_count((EPOCH, actor.arm), epochs, facts, windows=windows, wrong=wrong, answer=answer)]


def find_wrong_rows(rows: Iterable[tuple[str, int, int]], due: Counts, closed: Iterable[tuple[str, int]]) -> list[str]:
    """Say where a pipeline's output is not what was sent.

    Args:
        rows: user, start of the window and count, as published.
        due: what was sent, copies counted once.
        closed: users and windows that have to be there.
    """
    found: dict[tuple[str, int], list[int]] = {}
    for user, start, count in rows:
        found.setdefault((user, start), []).append(count)
    wrong = [
        f"{user} in {start}: {counts} and not {due.get((user, start), 0)}"
        for (user, start), counts in sorted(found.items())
        if counts != [due.get((user, start))]
    ]
    return wrong + [f"{user} in {start}: nothing" for user, start in sorted(set(closed) - set(found))]


def find_wrong_answers(found: Sequence[Sequence[int]], due: Counts) -> list[str]:
    """Say where the query's answer is not what was sent: of each window its start, records, users, and a digest."""
    records, users = Counter[int](), Counter[int]()
    for (_, start), count in due.items():
        records[start] += count
        users[start] += 1
    told = {start: (many, who) for start, many, who, _ in found}
    return [
        f"window {start}: {told.get(start)} and not {(records[start], users[start])} records and users"
        for start in sorted({*told, *records})
        if told.get(start) != (records[start], users[start])
    ]


def _of_query(directory: RunDirectory, facts: Facts, logged: Sequence[Query], plan: Plan) -> Iterator[Figures]:
    told = [one for one in directory.events() if one["event"] == "query"]
    due = plan.events.per_user(copies=True)
    by_group = {one.group: one for one in logged}
    for arm in ARMS[QUERY]:
        mine = [one["found"] for one in told if one["arm"] == arm]
        shown = by_group.get(f"{arm}/{ROUND}")
        if not mine or shown is None:
            todo = "run again"
            raise EvidenceError(f"{arm}: {len(mine)} answers, and no query {ROUND} in the log", directory.path, todo)
        wrong = [each for found in mine for each in find_wrong_answers(found, due)]
        windows = len({start for _, start in due})
        yield _count((QUERY, arm), [shown], facts, windows=windows, wrong=wrong, answer=mine)


def _count(
    which: tuple[str, str], queries: Sequence[Query], facts: Facts, *, windows: int, wrong: Sequence[str], answer: Any
) -> Figures:
    part, arm = which
    if not queries:
        raise EvidenceError(f"{arm}: no {part} is in Spark's event log", LOG, "run again")
    ran = sum((one.hosts for one in queries), Counter[str]())
    last = queries[-1]
    return Figures(
        part=part,
        arm=arm,
        queries=len(queries),
        stages=len(last.stages),
        shuffled_bytes=sum(one.shuffled[0] for one in queries),
        shuffled_records=sum(one.shuffled[1] for one in queries),
        remote_bytes=sum(one.remote_bytes for one in queries),
        by_stage=[(one.written_records, one.written_bytes) for one in last.stages.values()],
        tasks={pod: ran[address] for address, pod in sorted(facts.executors.items()) if ran[address]},
        elsewhere=sum(number for address, number in ran.items() if address not in facts.executors),
        windows=windows,
        wrong=list(wrong),
        answer=hashlib.sha256(orjson.dumps(answer)).hexdigest(),
        plan=list(last.plan),
    )
