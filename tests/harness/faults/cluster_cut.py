"""Cuts between pods: packets are dropped within the network namespaces of the pipeline's pods, or of the operator's."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from infra.cluster.api import ClusterError
from infra.cluster.engine import EngineError
from tests.harness.adapters.drivers import DELETE_NOW, NoProcessError
from tests.harness.adapters.parties import Parties, Party
from tests.harness.adapters.pod_network import INPUT, OUTPUT, Netns, rules
from tests.harness.cut_sorts import Between, DrawnCut
from tests.harness.faults.cluster_server import wait_ready
from tests.harness.faults.cut import Cut
from tests.harness.faults.fault import SEPARATOR, as_miss
from tests.harness.faults.healing import SPARE_S, Healing
from tests.harness.platform_sorts import OPERATOR
from tests.harness.results import BOTH, IN, OUT
from tests.harness.schedule import DRIVER, EXECUTOR

WALLED = (DRIVER, EXECUTOR, OPERATOR)
"""Who gets the rules. Servers answer and ask nothing of the pipeline; their own network stays as it is."""
COUNT_S = 5.0
WAYS = {
    True: {IN: (INPUT,), OUT: (OUTPUT,), BOTH: (INPUT, OUTPUT)},
    False: {IN: (OUTPUT,), OUT: (INPUT,), BOTH: (INPUT, OUTPUT)},
}
"""The chains of a pod that drop a direction, by whether the pod is at the first end."""


class CutNetworks(Cut):
    """What both sorts of cuts have in common: rules in networks, and what these dropped.

    Args:
        between: the two roles.
        parties: finds their pods.
        drawn: which way, and who.
        mark: comment of the rules, of no other cut.
        healing: removes them whatever happens.
    """

    def __init__(self, between: Between, parties: Parties, drawn: DrawnCut, mark: str, *, healing: Healing) -> None:
        super().__init__(between, drawn, healing=healing)
        self._parties, self._mark = parties, mark
        self._walls: dict[Netns, bool] = {}
        self._counted: dict[Netns, dict[str, int]] = {}

    def _wall(self, who: str, netns: Netns | None, theirs: Sequence[Party], *, is_first: bool) -> None:
        """Have a network drop what the drawn direction says. Raises NoProcessError."""
        peer = tuple(dict.fromkeys(address for one in theirs for address in one.addresses))
        wanted = rules(peer, WAYS[is_first][self._drawn.direction], self._mark)
        if netns is None or not wanted:
            raise NoProcessError(f"the network of {who} or the address of its peer is not known")
        self._walls[netns] = is_first
        with as_miss(f"the network of {who} was not cut", EngineError):
            self._parties.network.drop(netns, wanted, self._mark, self._seconds + SPARE_S)

    def _mend(self) -> None:
        failures = self._note(self._parties.network.remove)
        if failures:
            raise failures[0]

    def _note(self, ask: Callable[[Netns, str], dict[str, int] | None]) -> list[EngineError]:
        """Ask every network and keep what it counted; a failure keeps no other from being asked."""
        failures: list[EngineError] = []
        for netns in self._walls:
            try:
                counted = ask(netns, self._mark)
            except EngineError as error:
                failures.append(error)
                continue
            # Once the rules are removed there is nothing more to count: what was counted before stays.
            self._counted.setdefault(netns, {}).update(counted or {})
        return failures

    def _count(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for netns, counted in self._counted.items():
            ways = {chain: way for way in (IN, OUT) for chain in WAYS[self._walls[netns]][way]}
            for chain, number in counted.items():
                found[f"packets {ways[chain]}"] += number
        return dict(sorted(found.items()))


class CutPods(CutNetworks):
    """Pods of two roles hear nothing of each other for a while.

    Both ends that belong to the pipeline have rules: between two nodes some packets have the address of a node, and
    only the end that opened the connection knows the other by its own.
    """

    def __init__(self, between: Between, parties: Parties, drawn: DrawnCut, mark: str, *, healing: Healing) -> None:
        super().__init__(between, parties, drawn, mark, healing=healing)
        self._there: dict[str, list[Party]] = {}
        self._first: list[Party] = []
        self._second: list[Party] = []
        self._before: set[str] = set()

    def arm(self) -> None:
        """Wait for both roles, and find their pods and networks. Raises ClusterTimeoutError."""
        drivers = self._parties.drivers
        for role in self._roles:
            if role == EXECUTOR:
                drivers.arm(DELETE_NOW)
            elif role == DRIVER:
                drivers.arm_driver(DELETE_NOW)
            else:
                wait_ready(self._parties.servers[role], self._healing.ended)
        # What cannot be found now is looked for when it is struck.
        with suppress(NoProcessError, ClusterError, EngineError, OSError):
            self._look()

    def endure(self) -> None:
        """Until it is over; a pod that ends meanwhile takes its counters with it, so they are read now and then."""
        until = time.monotonic() + self._seconds
        while (left := until - time.monotonic()) > 0 and not self._healing.ended.wait(min(left, COUNT_S)):
            self._note(self._parties.network.count)

    def after(self) -> list[str]:
        """Who works at both ends; executors that were struck, or others in their places."""
        with suppress(ClusterError, OSError, NoProcessError):
            found = [self._workers(role) for role in self._roles]
            return list(dict.fromkeys(itertools.chain(*found))) if all(found) else []
        return []

    @property
    def _roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self._between.first, self._between.second)))

    def _victims(self, event: Mapping[str, Any]) -> list[str]:
        with as_miss(f"nothing was cut between {self._between.target}", ClusterError, EngineError, OSError, ValueError):
            if not self._choose(event):
                self._look()
                if not self._choose(event):
                    raise NoProcessError(f"who is to be cut off does not run: {self._between.target}")
        self._before = set(self._parties.drivers.executors())
        return [one.who for one in (*self._first, *self._second)]

    def _look(self) -> None:
        there = {role: self._parties.of(role) for role in self._roles}
        for role in set(self._roles) & set(WALLED):
            there[role] = [self._parties.locate(one) for one in there[role]]
        self._there = there

    def _choose(self, event: Mapping[str, Any]) -> bool:
        """Choose who is struck among those that were found; whether both ends are there, and run."""
        first, second = self._between.first, self._between.second
        self._first = self._pick(self._alive(first), event)
        others = [one for one in self._alive(second) if one not in self._first]
        # Who announced a step is at the first end then, and any neighbour at the second.
        self._second = self._pick(others, {} if first == second else event)
        return bool(self._first and self._second)

    def _alive(self, role: str) -> list[Party]:
        there = list(self._there.get(role, []))
        return [one for one in there if self._parties.runs(one)] if role in (DRIVER, EXECUTOR) else there

    def _pick(self, there: list[Party], event: Mapping[str, Any]) -> list[Party]:
        """One executor, which is the one that announced the step where one did; all pods of any other role."""
        if not there or there[0].role != EXECUTOR:
            return there
        if event.get("event") == "step":
            return [one for one in there if one.uid == event.get("pod_uid")]
        return [there[self._drawn.of % len(there)]]

    def _sever(self) -> None:
        for ours, theirs, is_first in ((self._first, self._second, True), (self._second, self._first, False)):
            for one in ours:
                if one.role in WALLED:
                    self._wall(one.who, one.netns, theirs, is_first=is_first)
        if not self._walls:
            raise NoProcessError(f"neither end has a network of its own: {self._between.target}")

    def _ends(self) -> list[str]:
        return [SEPARATOR.join(one.name for one in end) for end in (self._first, self._second)]

    def _workers(self, role: str) -> list[str]:
        drivers = self._parties.drivers
        if role == DRIVER:
            return [drivers.running().who]
        if role == EXECUTOR:
            struck = [one.who for one in (*self._first, *self._second) if one.role == EXECUTOR]
            alive = drivers.executors()
            found = [one for one in alive if one in struck] + [one for one in alive if one not in self._before]
            return found[: len(struck)] if len(found) >= len(struck) else []
        server = self._parties.servers[role]
        ready = server.ready()
        return [one.who for one in ready] if len(ready) >= server.count else []
