"""Which faults a campaign has, by name, and the plan that follows from a seed; data and pure functions only."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.harness.schedule import DECLARED, EVERY_EXECUTOR, EXECUTOR, STEPS, PlannedFault, Strike

SIGKILL, SIGSTOP, ZOMBIE = "sigkill", "sigstop", "zombie"
DRIVER, PYTHON_WORKER, BROKER, OBJECT_STORE = "driver", "python worker", "broker", "object store"

SORTS = {
    "executor-kill": Strike(SIGKILL),
    "executors-kill": Strike(SIGKILL, EVERY_EXECUTOR),
    "executor-stop": Strike(SIGSTOP),
    "driver-kill": Strike(SIGKILL, DRIVER),
    "zombie": Strike(ZOMBIE, DRIVER),
    "worker-kill": Strike(SIGKILL, PYTHON_WORKER),
    "worker-hang": Strike(SIGSTOP, PYTHON_WORKER),
    "broker-kill": Strike(SIGKILL, BROKER),
    "broker-stop": Strike(SIGSTOP, BROKER),
    "store-kill": Strike(SIGKILL, OBJECT_STORE),
    "store-stop": Strike(SIGSTOP, OBJECT_STORE),
}
"""Every sort of fault of the embedded stack. An outer name is what FAULTS= takes."""
IN_TASKS = (EXECUTOR, EVERY_EXECUTOR, PYTHON_WORKER)
"""Targets that are found by the task which announces a step: an epoch's declaration tells of none."""


class NoFaultError(Exception):
    """There is no such fault; the message says which there are."""


def asked_for(text: str, seed: int) -> tuple[Strike, ...]:
    """The strikes that FAULTS= names.

    Args:
        text: `all`; a number, of which the first ones are every sort once, the rest drawn from the seed; or names,
            with commas between and `*count` behind those that are to come more often: `zombie*3,broker-kill`.
        seed: draws.

    Raises:
        NoFaultError: a name or number is none.
    """
    if text == "all":
        return tuple(SORTS.values())
    if text.isdecimal():
        if int(text) < 1:
            raise NoFaultError(f"FAULTS={text}: at least 1")
        return _drawn(int(text), seed)
    strikes: list[Strike] = []
    for word in text.split(","):
        name, star, count = word.strip().partition("*")
        if name not in SORTS or (star and (not count.isdecimal() or int(count) < 1)):
            raise NoFaultError(f"there is no fault {word.strip()!r}; there are: all, a number, {', '.join(SORTS)}")
        strikes += [SORTS[name]] * (int(count) if star else 1)
    return tuple(strikes)


def plan(seed: int, strikes: Sequence[Strike], shards: int, first_epoch: int = 1) -> list[PlannedFault]:
    """Every strike once, in an order drawn from the seed, each at a step and shard that are drawn too."""
    rng = random.Random(f"campaign of {seed}")
    order = list(strikes)
    rng.shuffle(order)
    everywhere = (*STEPS, (DECLARED, None))
    planned = []
    for strike in order:
        step, sink = rng.choice(STEPS if strike.target in IN_TASKS else everywhere)
        planned.append(PlannedFault(first_epoch, step, sink, rng.randrange(shards), strike))
    return planned


def name_of(strike: Strike) -> str:
    """As FAULTS= calls it. Raises KeyError."""
    return {one: name for name, one in SORTS.items()}[strike]


def _drawn(count: int, seed: int) -> tuple[Strike, ...]:
    rng = random.Random(f"sorts of {seed}")
    every = list(SORTS.values())
    rng.shuffle(every)
    return tuple(every[:count] + [rng.choice(every) for _ in range(count - len(every))])
