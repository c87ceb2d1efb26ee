"""No rule is missing, too many or too wide without the table of flows noticing: each has been left out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.charts import deployment as deployed
from tests.charts.deployment import LAPTOP, SECURED, TEAM, Deployment, named
from tests.charts.meant import wrong
from tests.charts.policies import Object, UnknownError, selects
from tests.charts.policy_mutants import mutants

SAME = {
    "kafka without ingress.1.from.0.namespaceSelector",
    "kafka without ingress.2.from.0.namespaceSelector",
    "kafka-controller without ingress.1.from.0.namespaceSelector",
    "prometheus without egress.5.to.0.namespaceSelector",
    "prometheus without egress.6.to.0.namespaceSelector",
    "history-server without egress.1.to.0.namespaceSelector",
    "minio without ingress.0.from.1.namespaceSelector",
    "minio without ingress.0.from.3.namespaceSelector",
    "prometheus without egress.4.to.0.namespaceSelector",
    "alertmanager without ingress.0.from.0.podSelector.matchLabels.app.kubernetes.io/component",
}
"""A rule without a namespace means the policy's own, and these pods are in one. The only other pod of Prometheus' name
is Alertmanager, which connects to none of its own."""


def survivors(there: Deployment, policies: list[Object]) -> Iterator[str]:
    """Yield the mutants of some policies that nobody notices."""
    for policy in policies:
        others = [one for one in policies if one is not policy]
        for lacking, mutant in mutants(policy):
            if lacking not in SAME and not noticed(there, policy, mutant, others):
                yield lacking


def noticed(there: Deployment, policy: Object, mutant: Object, others: list[Object]) -> bool:
    """Whether a mutant opens or closes what it must not, or is about other pods as well."""
    if selected(there, mutant) != selected(there, policy):
        return True
    try:
        return next(wrong(there, [*others, mutant], lambda pod: selects(policy, pod)), None) is not None
    except UnknownError:
        # Rules for a direction that it does not close.
        return True


def selected(there: Deployment, policy: Object) -> set[tuple[str, str]]:
    """Whom a policy is about."""
    spec = {**policy["spec"], "policyTypes": ["Ingress", "Egress"]}
    return {(one.kind, one.owner) for one in there.ours if selects({**policy, "spec": spec}, one)}


@pytest.mark.parametrize("name", [LAPTOP, TEAM, SECURED])
@pytest.mark.thinned(3)
def test_each_part_of_each_policy_is_needed(name: str) -> None:
    """Of the charts' alone: a namespace that was there before has no other policy of ours."""
    there = named(name)
    own = [one for one in there.policies if one["metadata"]["name"] != "default-deny"]
    assert len(own) > 10
    assert {len(selected(there, one)) for one in own} == {1}
    assert [*survivors(there, own)] == []


def test_a_namespace_is_closed_in_both_directions_to_every_pod() -> None:
    there = named(TEAM)
    closed = [one for one in there.policies if one["metadata"]["name"] == "default-deny"]
    assert {one["metadata"]["namespace"] for one in closed} == {one.namespace for one in there.ours}
    strangers = [one for one in there.ours if one.kind == deployed.STRANGER]
    for policy in closed:
        for way in (0, 1):
            mutant = {**policy, "spec": {**policy["spec"], "policyTypes": policy["spec"]["policyTypes"][way : way + 1]}}
            others = [one for one in there.policies if one is not policy]
            assert next(wrong(there, [*others, mutant], strangers.__contains__), None) is not None
