"""Cuts: a network that drops every packet between two roles for a while, without a reset; data and pure functions."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tests.harness.platform_sorts import API_SERVER, BROKER, KUBELET, NODE, OBJECT_STORE, OPERATOR, RESULT_STORE
from tests.harness.results import BOTH, IN, OUT
from tests.harness.schedule import DECLARED, DRIVER, EXECUTOR, Strike

CUT, CUTS = "cut", "cuts"
"""The kind of every sort here, and the word by which FAULTS= takes them all."""
PIPELINE = "pipeline"
LENGTHS_S = (3.0, 12.0, 40.0, 70.0)
"""Within every time-out; beyond the time that clients wait for an answer (10 s); beyond Spark's of the network (15 s
in these runs); and beyond what a transaction may take (60 s)."""
SHORT_S, SHORT_IN_PODS_S = (3.0, 6.0), (12.0,)
"""Those that a demo has time for, and a suite in pods: there an epoch does not feel a shorter one."""


@dataclass(frozen=True, slots=True)
class Between:
    """Two roles; `steps` are those at which a cut may come besides the declaration.

    Attributes:
        first: whom the direction is seen from.
        second: the other one.
        steps: of a task, with their sinks.
    """

    first: str
    second: str
    steps: tuple[tuple[str, str | None], ...] = ()

    @property
    def target(self) -> str:
        """As history names it."""
        return f"{self.first} and {self.second}"

    @property
    def strike(self) -> Strike:
        """The sort."""
        return Strike(CUT, self.target)


IDS, OPEN, DONE = ("ids_decided", None), ("transaction_open", "accepted"), ("committed", "accepted")
TO_BROKER, TO_STORE = Between(PIPELINE, BROKER, (OPEN, DONE)), Between(PIPELINE, OBJECT_STORE, (IDS, DONE))
TO_RESULTS = Between(PIPELINE, RESULT_STORE)
"""Of the embedded stack, where all executors and the driver reach a server by one link."""
IN_PODS = {
    # An exchange of shuffle files is over in less time than a pod's announcement takes: only one that is still to come
    # can be met. At the first decision none of five tries dropped a packet.
    "executor-executor-cut": Between(EXECUTOR, EXECUTOR),
    "driver-executor-cut": Between(DRIVER, EXECUTOR, (IDS, OPEN, DONE)),
    "executor-broker-cut": Between(EXECUTOR, BROKER, (IDS, OPEN)),
    "executor-store-cut": Between(EXECUTOR, OBJECT_STORE, (IDS, DONE)),
    "executor-database-cut": Between(EXECUTOR, RESULT_STORE),
    "driver-broker-cut": Between(DRIVER, BROKER, (DONE,)),
    "driver-store-cut": Between(DRIVER, OBJECT_STORE, (IDS, DONE)),
    "driver-api-cut": Between(DRIVER, API_SERVER),
    "operator-api-cut": Between(OPERATOR, API_SERVER),
}
OF_NODES = {"kubelet-api-cut": Between(KUBELET, API_SERVER)}
"""The kubelet, and whatever else of its node is no pod."""
BETWEEN_NODES = {"nodes-cut": Between(NODE, "another node")}
"""Two worker nodes, with all that their pods send each other."""
EMBEDDED_BETWEEN = {"broker-cut": TO_BROKER, "store-cut": TO_STORE, "database-cut": TO_RESULTS}
BETWEEN: Mapping[str, Between] = {
    one.target: one
    for one in (*IN_PODS.values(), *OF_NODES.values(), *BETWEEN_NODES.values(), *EMBEDDED_BETWEEN.values())
}
"""By the target of the sort."""
EMBEDDED_CUTS = {name: one.strike for name, one in EMBEDDED_BETWEEN.items()}
NODES_CUT = {name: one.strike for name, one in BETWEEN_NODES.items()}
CLUSTER_CUTS = {name: one.strike for name, one in (IN_PODS | OF_NODES).items()}
ROLE_OF_CUT = {
    name: one.second if one.second in (BROKER, OBJECT_STORE, RESULT_STORE) else one.first
    for name, one in IN_PODS.items()
    if one.first == OPERATOR or one.second in (BROKER, OBJECT_STORE, RESULT_STORE)
}
"""The server that has to be there, as pods of ours."""


@dataclass(frozen=True, slots=True)
class DrawnCut:
    """What a seed draws of a cut besides its length and delay, which are in the plan.

    Attributes:
        direction: one of `results.DIRECTIONS`.
        of: draws who is struck where the announcement leaves that open.
    """

    direction: str
    of: int = 0


def draw_cuts(seed: int) -> Iterator[DrawnCut]:
    """The cuts of a run, one after the other: a try that missed is drawn again."""
    rng = random.Random(f"cuts of {seed}")
    while True:
        # Both ways as often as one way or the other.
        yield DrawnCut(rng.choice((BOTH, BOTH, IN, OUT)), rng.randrange(1 << 16))


def steps_of_cut(
    strike: Strike,
    steps: tuple[tuple[str, str | None], ...],
    table: tuple[tuple[str, str | None], ...],
    rows: Collection[str] = ("accepted",),
) -> tuple[tuple[str, str | None], ...]:
    """Steps at which a cut may come, the declaration first; of the embedded result store, its open transaction.

    Args:
        strike: of kind CUT.
        steps: those that a place has.
        table: of the pipeline's table; none where it has no table.
        rows: its topics that hold rows, as `accepted` does.
    """
    between = BETWEEN[strike.target]
    if between == TO_RESULTS and table:
        return table[:1]
    met = (one for one in steps if (one[0], "accepted" if one[1] in rows else one[1]) in between.steps)
    return ((DECLARED, None), *met)
