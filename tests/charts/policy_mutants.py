"""Policies with something left out of them: a rule that is missing, or one that is too wide."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from tests.charts.policies import PEERS, Object

TELLING: Final = ("effectively-once/pipeline", "spark-role", "app.kubernetes.io/component", "k8s-app")
"""Labels that no other pod of ours has alike; a name beside them only says the same again."""


def mutants(policy: Object) -> Iterator[tuple[str, Object]]:
    """Yield each mutant with what it lacks."""
    for where in _places(policy["spec"], ()):
        mutant = copy.deepcopy(policy)
        place: Any = mutant["spec"]
        for step in where[:-1]:
            place = place[step]
        del place[where[-1]]
        yield f"{policy['metadata']['name']} without {'.'.join(map(str, where))}", mutant


def _places(spec: Object, at: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    for index, _ in enumerate(spec["policyTypes"]):
        yield (*at, "policyTypes", index)
    yield from _labels(spec["podSelector"], (*at, "podSelector"))
    for way, peers in PEERS.items():
        for number, rule in enumerate(spec.get(way) or ()):
            here = (*at, way, number)
            yield here
            yield from ((*here, name) for name in rule)
            yield from ((*here, "ports", one) for one, _ in enumerate(rule["ports"]) if len(rule["ports"]) > 1)
            for one, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(peer, (*here, peers, one), alone=len(rule[peers]) == 1)


def _peer(peer: Object, at: tuple[str | int, ...], *, alone: bool) -> Iterator[tuple[str | int, ...]]:
    if not alone:
        # The last one gone means everybody: that is the list itself gone.
        yield at
    if "ipBlock" in peer:
        yield from ((*at, "ipBlock", "except", one) for one, _ in enumerate(peer["ipBlock"].get("except", ())))
        return
    if len(peer) > 1:
        yield from ((*at, name) for name in peer)
    for name, selector in peer.items():
        yield from _labels(selector, (*at, name))


def _labels(selector: Object, at: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    named = selector.get("matchLabels", {})
    if named:
        yield (*at, "matchLabels")
    yield from ((*at, "matchLabels", one) for one in named if one in TELLING and len(named) > 1)
