"""How many shards epochs have: as many as the settings say, which a change may set anew while a run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from tests.harness.checkers.case import Case
from tests.harness.checkers.changes import EVENT
from tests.harness.evidence import EvidenceError

FIELD = "shards"
"""Of the event of a change that sets another number."""


def read_set(case: Case) -> list[tuple[int, bool]]:
    """Return the numbers that were set, in order, and of each whether its effect was seen. Raises EvidenceError."""
    numbers = [(case.manifest.settings.shards, True)]
    for event in case.events:
        if event["event"] == EVENT and event.get(FIELD) is not None:
            if type(event[FIELD]) is not int or event[FIELD] < 1:
                raise EvidenceError(f"a change sets {event[FIELD]!r} shards", case.run.history_path, "run again")
            numbers.append((event[FIELD], event.get("seen") is not None))
    return numbers


def most(case: Case) -> int:
    """Return how many partitions every topic of a sink has: none of them is ever removed. Raises EvidenceError."""
    return max(number for number, _ in read_set(case))


def find_of_epochs(case: Case) -> Callable[[Any], int]:
    """Return what tells an epoch's number; the first one where the chain lacks the epoch. Raises EvidenceError."""
    numbers = read_set(case)
    told = {one.epoch: one.shards for one in case.chain.pinned} if len(numbers) > 1 else {}
    return lambda epoch: told.get(epoch, numbers[0][0])


def find_unset(case: Case) -> list[str]:
    """Describe how the numbers of epochs differ from those that were set, in their order. Raises EvidenceError."""
    numbers = read_set(case)
    came = _each_once(one.shards for one in case.chain.epochs)
    due = _each_once(number for number, _ in numbers)
    seen = _each_once(number for number, is_seen in numbers if is_seen)
    # A change that broke off may have taken effect, or not: what is made of that is said elsewhere.
    if _is_within(came, due) and _is_within(seen, came):
        return []
    return [f"epochs have {_join(came)} shards, set were {_join(due)}"]


def _each_once(numbers: Iterable[int]) -> list[int]:
    """Return numbers without those that follow their like."""
    return [number for number, _ in groupby(numbers)]


def _is_within(some: Sequence[int], all_: Sequence[int]) -> bool:
    """Whether numbers are among others, in their order."""
    left = iter(all_)
    return all(number in left for number in some)


def _join(numbers: Sequence[int]) -> str:
    return ", then ".join(map(str, numbers))
