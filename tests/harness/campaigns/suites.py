"""What an acceptance run does, by suite; data only."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from infra.errors import UserError
from tests.harness.cluster_sorts import CLUSTER, lacking
from tests.harness.cut_sorts import CUT
from tests.harness.mixture import NoFaultError
from tests.harness.platform_sorts import BROKER, DISK_LOST, NODE_DRAIN, ROLLOUT
from tests.harness.schedule import EVERY_EXECUTOR, Strike

SIGKILL, NOW, GRACEFULLY = Strike("sigkill"), Strike("pod_delete_now"), Strike("pod_delete_graceful")
ALL_SIGKILL, ALL_NOW = Strike("sigkill", EVERY_EXECUTOR), Strike("pod_delete_now", EVERY_EXECUTOR)

# An epoch takes in 80 s of event time at most (the pacing). A portion holds a little more, so that a strike that waits
# when it begins finds an epoch; the epoch that is struck is repeated, so
# that one portion a strike is enough; a strike that misses takes another, of which there are two more.
# Records flow while a cut lasts, and it drops nothing where nobody just asks: it has the records of one more try.
# Each is over within a minute.
BEYOND_EXECUTORS = (
    "driver-kill",
    "driver-delete",
    "broker-kill",
    "broker-delete",
    "broker-stop",
    "store-kill",
    "store-delete",
    "store-stop",
    "operator-kill",
    "operator-delete",
    "operator-then-driver",
    "driver-then-operator",
    "executor-stall",
    "executor-broker-cut",
    "executor-store-cut",
    "driver-executor-cut",
    "driver-store-cut",
)

HA_SORTS = (
    "brokers-rollout",
    "controllers-rollout",
    "stores-rollout",
    "operators-rollout",
    "broker-disk-lost",
    "store-disk-lost",
    "node-drain",
    "node-restart",
    "nodes-cut",
    "broker-kill",
    "store-kill",
    "operator-kill",
    "driver-kill",
    "executor-kill",
)
"""What servers of several copies are to stand in for, a node that fails, and one of each part of the pipeline."""

PORTION_MINUTES, PORTIONS_PER_STRIKE, PORTIONS_PER_CUT, ROWS_PER_MINUTE = 2, 1, 4, 4_500
PORTIONS_PER_COPY = 5
"""A copy that is replaced takes a minute and more, in which records flow, and again once it is back."""


JOBS = "jobs"
"""Of the other jobs, each judged by itself: no suite of strikes at user_counts."""
ALERTS = "alerts"
"""Each alert, raised by its fault: likewise."""
UPGRADE = "upgrade"
"""A pipeline that is changed while it runs."""


class NoSuiteError(UserError):
    """There is no such suite; the message says which there are."""


@dataclass(frozen=True)
class Suite:
    """What is done.

    Attributes:
        name: on the command line.
        strikes: at the main run's executors; their order is drawn from the seed.
        baseline: whether a run without fault comes first.
        seldom: of these one is added, drawn from the seed; of executors, too.
        beyond: names of sorts of other roles, and of short stalls and cuts, of which it may be one too.
        every_control: whether all negative controls are played, and not only those of every run.
        needed: names of sorts that the cluster has to have: it is refused otherwise, and no strike is left out.
    """

    name: str
    strikes: tuple[Strike, ...]
    baseline: bool
    seldom: tuple[Strike, ...] = ()
    beyond: tuple[str, ...] = ()
    every_control: bool = False
    needed: tuple[str, ...] = ()

    def draw(self, seed: int, roles: Collection[str] | None = None, nodes: int = 0) -> tuple[Strike, ...]:
        """The strikes for a seed.

        Args:
            seed: draws.
            roles: servers that may be struck, beside the driver; None: nothing but executors may.
            nodes: how many can be reached as machines: a cut is made there.
        """
        there = () if roles is None else [CLUSTER[name] for name in self.beyond if lacking(name, nodes, roles) is None]
        of = (*self.seldom, *there)
        return (*self.strikes, *((random.Random(f"suite of {seed}").choice(of),) if of else ()))

    def minutes(self, strikes: Sequence[Strike]) -> int:
        """Event time of the main run."""
        per_kind = {CUT: PORTIONS_PER_CUT, **dict.fromkeys((ROLLOUT, DISK_LOST, NODE_DRAIN), PORTIONS_PER_COPY)}
        portions = (per_kind.get(one.kind, PORTIONS_PER_STRIKE) for one in strikes)
        return PORTION_MINUTES * (sum(portions) + 2)

    def refuse(self, nodes: int, copies: Mapping[str, int]) -> None:
        """Refuse a cluster that lacks what the suite strikes.

        Args:
            nodes: how many can be reached as machines.
            copies: how many pods each server has, by role; none where servers may not be struck.

        Raises:
            NoFaultError: it lacks something; the message says what, and the way out.
        """
        for name in self.needed:
            if (why := lacking(name, nodes, copies, copies.get(BROKER, 0), copies=copies)) is not None:
                raise NoFaultError(f"SUITE={self.name}: {why}")


SUITES = {
    "smoke": Suite(
        "smoke",
        (SIGKILL,) * 3 + (NOW,),
        False,
        seldom=(GRACEFULLY, ALL_SIGKILL, ALL_NOW),
        beyond=BEYOND_EXECUTORS,
    ),
    "all": Suite(
        "all",
        (SIGKILL,) * 5 + (NOW,) * 5 + (GRACEFULLY,) * 2 + (ALL_SIGKILL, ALL_NOW),
        True,
        every_control=True,
    ),
    "ha": Suite("ha", tuple(CLUSTER[name] for name in HA_SORTS), False, needed=HA_SORTS),
}


def refuse_foreign(suite: str, changes: str | None) -> None:
    """Refuse what is asked of another suite, before anything is looked for. Raises NoSuiteError."""
    if changes is not None and suite != UPGRADE:
        raise NoSuiteError(f"CHANGES is of SUITE={UPGRADE}, and SUITE is {suite}: leave one of them out")


def suite_named(name: str) -> Suite:
    """The suite of a name. Raises NoSuiteError."""
    if name not in SUITES:
        raise NoSuiteError(f"there is no suite {name!r}; there are: {', '.join(SUITES)}, {JOBS}, {ALERTS}, {UPGRADE}")
    return SUITES[name]
