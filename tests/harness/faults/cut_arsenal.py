"""Makes the cuts of the embedded stack: of every link that stands in front of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tests.harness.adapters.tcp_link import TcpLink
from tests.harness.cut_sorts import CUT, EMBEDDED_BETWEEN, TO_RESULTS, Between, DrawnCut
from tests.harness.faults.cut import CutLink
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.faults.healing_arsenal import Makers
from tests.harness.faults.server import Restartable


def link_cuts(
    links: Mapping[str, TcpLink],
    servers: Mapping[str, Restartable],
    drawn: Iterator[DrawnCut],
    healing: Healing,
    *,
    held: Callable[[Fault], Fault] = lambda fault: fault,
) -> Makers:
    """Who makes a cut of each link whose server is there.

    Args:
        links: by the target of the cut.
        servers: by role.
        drawn: one cut after the other, for as many as are made.
        healing: lets everything pass again.
        held: has who announced a step held until the result store is cut off; needless where there is none.
    """

    def cut(one: Between) -> Fault:
        made = CutLink(one, links[one.target], servers[one.second], next(drawn), healing=healing)
        return held(made) if one == TO_RESULTS else made

    there = [one for one in EMBEDDED_BETWEEN.values() if one.target in links and one.second in servers]
    return {(CUT, one.target): partial(cut, one) for one in there}
