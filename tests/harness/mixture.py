"""Which faults a campaign has, by name, and the plan that follows from a seed; data and pure functions only."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from infra.errors import UserError
from tests.harness import cut_sorts, lag_sorts, stall_sorts
from tests.harness.adapters.drivers import SIGKILL
from tests.harness.cluster_sorts import CLUSTER, ZOMBIE
from tests.harness.cut_sorts import CUT, CUTS, EMBEDDED_CUTS, TO_RESULTS, steps_of_cut
from tests.harness.lag_sorts import IN_PODS, LAGS
from tests.harness.lengths import with_lengths
from tests.harness.platform_sorts import (
    BROKER,
    DISK_LOST,
    NODE_DRAIN,
    OBJECT_STORE,
    OUT_OF_MEMORY,
    RESULT_STORE,
    ROLLOUT,
    SIGSTOP,
)
from tests.harness.schedule import (
    DECLARED,
    DRIVER,
    EVERY_EXECUTOR,
    EXECUTOR,
    PYTHON_WORKER,
    STEPS,
    PlannedFault,
    Strike,
)
from tests.harness.sinks import ACCEPTED_ROWS
from tests.harness.slow_disk_sorts import SERVER_DISKS, SLOW_DISK, SLOW_DISKS
from tests.harness.stall_sorts import (
    DELAYED,
    EMBEDDED_STALLS,
    NEIGHBOURS,
    READING,
    REQUESTS,
    STALL,
    UNFELT,
    Steps,
    with_declaration,
)

Stack = Literal["embedded", "cluster"]
STACKS: tuple[Stack, ...] = ("embedded", "cluster")

SECOND, LONG_STOP, RESTART, TAKEN_ID = "second_driver", "sigstop_beyond_time_out", "restart", "taken_id"
FORGETS = "forgotten_markers"
ERRORS, LATE, LOST, NO_ROOM = "error_answers", "late_answers", "lost_answers", "no_room"
CLOCK = "clock_step"
PRODUCER = "producer"

EMBEDDED = {
    "executor-kill": Strike(SIGKILL),
    "executors-kill": Strike(SIGKILL, EVERY_EXECUTOR),
    "executor-stop": Strike(SIGSTOP),
    "driver-kill": Strike(SIGKILL, DRIVER),
    "zombie": Strike(ZOMBIE, DRIVER),
    "two-drivers": Strike(SECOND, DRIVER),
    "clock-step": Strike(CLOCK, DRIVER),
    "worker-kill": Strike(SIGKILL, PYTHON_WORKER),
    "worker-hang": Strike(SIGSTOP, PYTHON_WORKER),
    "broker-kill": Strike(SIGKILL, BROKER),
    "broker-stop": Strike(SIGSTOP, BROKER),
    "broker-long-stop": Strike(LONG_STOP, BROKER),
    "broker-restart": Strike(RESTART, BROKER),
    "broker-forget": Strike(FORGETS, BROKER),
    "second-producer": Strike(TAKEN_ID, PRODUCER),
    "store-kill": Strike(SIGKILL, OBJECT_STORE),
    "store-stop": Strike(SIGSTOP, OBJECT_STORE),
    "store-errors": Strike(ERRORS, OBJECT_STORE),
    "store-slow": Strike(LATE, OBJECT_STORE),
    "store-reset": Strike(LOST, OBJECT_STORE),
    "store-full": Strike(NO_ROOM, OBJECT_STORE),
    "database-kill": Strike(SIGKILL, RESULT_STORE),
    "database-stop": Strike(SIGSTOP, RESULT_STORE),
    **EMBEDDED_STALLS,
    **REQUESTS,
    **EMBEDDED_CUTS,
    **SERVER_DISKS,
}
"""Every sort of fault of the embedded stack. A name is what FAULTS= takes."""
UNPACED = {**EMBEDDED, **LAGS}
"""And those that only a sender goes on through that does not wait for the chain."""
SORTS = {**UNPACED, **CLUSTER, **IN_PODS}
"""Every sort there is. What both stacks have has one name."""
IN_TASKS = (EXECUTOR, EVERY_EXECUTOR, PYTHON_WORKER)
"""Targets that are found by the task which announces a step: an epoch's declaration tells of none."""
GROUPS = {"stalls": STALL, CUTS: CUT, SLOW_DISKS: SLOW_DISK}
"""Words of FAULTS= for every sort of a kind that a stack has."""
IN_COMMIT = (LONG_STOP, RESTART, FORGETS, TAKEN_ID)
"""Kinds that are about a transaction: they strike while one is open, and whoever has it is held until they have."""
OPEN = "transaction_open"
TABLE: Steps = ((OPEN, ACCEPTED_ROWS), ("committed", ACCEPTED_ROWS))
OPENS: Steps = tuple(one for one in STEPS if one[0] == OPEN)
ROWS = ("accepted",)
FLOWING = (ZOMBIE, SECOND, ERRORS, LATE, LOST, NO_ROOM, CLOCK, CUT, SLOW_DISK, ROLLOUT, DISK_LOST, NODE_DRAIN)
"""Kinds during which, or after which, records have to flow before the next fault waits for its step."""


class NoFaultError(UserError):
    """There is no such fault; the message says which there are."""


def parse_faults(text: str, seed: int, sorts: Mapping[str, Strike] = EMBEDDED) -> tuple[Strike, ...]:
    """The strikes that FAULTS= names.

    Args:
        text: `all`; a number, of which the first ones are every sort once, the rest drawn from the seed; or names,
            with commas between and `*count` behind those that are to come more often: `zombie*3,broker-kill`. A
            word of GROUPS is all its sorts.
        seed: draws.
        sorts: those that there are.

    Raises:
        NoFaultError: a name or number is none.
    """
    if text == "all":
        return tuple(sorts.values())
    if text.isdecimal():
        if int(text) < 1:
            raise NoFaultError(f"FAULTS={text}: a number is at least 1")
        return _draw(int(text), seed, sorts)
    strikes: list[Strike] = []
    for word in text.split(","):
        name, star, count = word.strip().partition("*")
        meant = _sorts_of(name, sorts)
        if not meant or (star and (not count.isdecimal() or int(count) < 1)):
            there = ", ".join((*GROUPS, *sorts))
            raise NoFaultError(f"there is no fault {word.strip()!r}; there are: all, a number, {there}")
        strikes += meant * (int(count) if star else 1)
    return tuple(strikes)


def without_result_store(strikes: Sequence[Strike], text: str) -> tuple[Strike, ...]:
    """What is left of the strikes of FAULTS=`text` where there is no result store.

    Raises:
        NoFaultError: one was asked for by its name.
    """
    left = tuple(one for one in strikes if RESULT_STORE not in one.target)
    if "database-" in text:
        raise NoFaultError(f"FAULTS={text}: there is no result store here; leave out what begins with database-")
    return left


def without_clock(strikes: Sequence[Strike], text: str, why: str) -> tuple[Strike, ...]:
    """What is left of the strikes of FAULTS=`text` where no clock can be stepped, for a reason.

    Raises:
        NoFaultError: one was asked for by its name.
    """
    return _without((CLOCK,), strikes, text, why, ("clock-step",))


def without_requests(strikes: Sequence[Strike], text: str, why: str) -> tuple[Strike, ...]:
    """What is left of the strikes of FAULTS=`text` where nobody can ask Spark for the end of a task or stage.

    Raises:
        NoFaultError: one was asked for by its name.
    """
    return _without([one.kind for one in REQUESTS.values()], strikes, text, why, REQUESTS)


def without_slow_disks(strikes: Sequence[Strike], text: str, why: str) -> tuple[Strike, ...]:
    """What is left of the strikes of FAULTS=`text` where no disk can be slowed, for a reason.

    Raises:
        NoFaultError: one was asked for by its name, or all of them were.
    """
    return _without((SLOW_DISK,), strikes, text, why, (SLOW_DISKS, *SERVER_DISKS))


def _without(
    kinds: Collection[str], strikes: Sequence[Strike], text: str, why: str, names: Iterable[str]
) -> tuple[Strike, ...]:
    if any(name in text for name in names):
        raise NoFaultError(f"FAULTS={text}: {why}")
    return tuple(one for one in strikes if one.kind not in kinds)


def plan(
    seed: int,
    strikes: Sequence[Strike],
    shards: int,
    first_epoch: int = 1,
    *,
    steps: Steps = STEPS,
    table: Steps = (),
    opens: Steps = OPENS,
    rows: Collection[str] = ROWS,
    lengths_s: Sequence[float] = stall_sorts.LENGTHS_S,
    cuts_s: Sequence[float] = cut_sorts.LENGTHS_S,
    lags_s: Sequence[float] = lag_sorts.LENGTHS_S,
) -> list[PlannedFault]:
    """Every strike once, in an order drawn from the seed, each at a step and shard that are drawn too.

    Args:
        seed: draws.
        strikes: what is done.
        shards: of the pipeline.
        first_epoch: that may be hit.
        steps: of a task that any fault takes.
        table: of the pipeline's tables, which those of the result store take; none where it has no table.
        opens: of its topics, at which a transaction is open.
        rows: topics that hold rows, of which none is an epoch's last.
        lengths_s: of stalls and slow disks.
        cuts_s: of cuts.
        lags_s: of drivers and leaders that are away and partitions that lag.

    Raises:
        NoFaultError: a strike needs a step that this pipeline does not have.
    """
    rng = random.Random(f"campaign of {seed}")
    order = list(strikes)
    rng.shuffle(order)
    planned = []
    for strike in order:
        own = steps_of(strike, steps, table, opens, rows)
        if not own:
            raise NoFaultError(
                f"{strike.kind} of the {strike.target} needs a transaction of rows, and the pipeline has no such sink: "
                "leave it out of FAULTS"
            )
        step, sink = rng.choice(own)
        planned.append(PlannedFault(first_epoch, step, sink, rng.randrange(shards), strike))
    return with_lengths(planned, seed, lengths_s, cuts_s, lags_s)


def steps_of(
    strike: Strike, steps: Steps = STEPS, table: Steps = (), opens: Steps = OPENS, rows: Collection[str] = ROWS
) -> Steps:
    """Steps, with their sinks, at which a strike may come; see `plan`."""
    if strike.kind == CUT:
        return steps_of_cut(strike, steps, table, rows)
    if strike.target == RESULT_STORE and table:
        return table
    if strike.kind in IN_COMMIT:
        # Who ends in order still commits what is open: of the last transaction of an epoch nothing would be left.
        return tuple(one for one in opens if strike.kind != RESTART or one[1] in rows)
    if strike.target == NEIGHBOURS:
        return READING
    if strike.kind in DELAYED:
        return with_declaration(strike, steps)
    by_task = strike.target in IN_TASKS and strike.kind != OUT_OF_MEMORY
    return steps if by_task else (*steps, (DECLARED, None))


def with_work_left(planned: PlannedFault) -> PlannedFault:
    """The same fault when a shard begins, and all of its work may meet it; one in a commit stays where it is.

    A cut comes with the declaration, and so does a stall on a node: in pods it takes a second from an announcement to
    the rules, or the signal.
    """
    if planned.strike.kind in IN_COMMIT:
        return planned
    by_declaration = planned.strike.kind == CUT and planned.strike.target != TO_RESULTS.target
    if by_declaration or planned.strike in UNFELT:
        return replace(planned, step=DECLARED, sink=None, after_s=0.0)
    (step, sink), *_ = READING
    return replace(planned, step=step, sink=sink, after_s=0.0)


def name_of(strike: Strike) -> str:
    """As FAULTS= calls it. Raises KeyError."""
    return {one: name for name, one in SORTS.items()}[strike]


def _sorts_of(name: str, sorts: Mapping[str, Strike]) -> list[Strike]:
    """The sorts that a word of FAULTS= means, none where there are none."""
    if name in GROUPS:
        return [one for one in sorts.values() if one.kind == GROUPS[name]]
    return [sorts[name]] if name in sorts else []


def _draw(count: int, seed: int, sorts: Mapping[str, Strike]) -> tuple[Strike, ...]:
    rng = random.Random(f"sorts of {seed}")
    every = list(sorts.values())
    rng.shuffle(every)
    return tuple(every[:count] + [rng.choice(every) for _ in range(count - len(every))])
