"""The evaluator of NetworkPolicies follows the words of networking.k8s.io/v1."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.policies import Endpoint, Object, UnknownError, allowed

SHOP = Endpoint("shop", "10.0.0.1", "front", {"app": "shop"})
BOOKS = Endpoint("books", "10.0.0.2", "back", {"app": "books"})
LEDGER = Endpoint("ledger", "10.0.0.3", "back", {"app": "ledger"})
OUTSIDE = Endpoint("outside", "203.0.113.7")
METADATA = Endpoint("metadata", "169.254.169.254")


def policy(namespace: str = "back", pods: Object | None = None, **rules: Any) -> Object:
    types = [way.title() for way in rules]
    return {
        "metadata": {"name": "x", "namespace": namespace},
        "spec": {"podSelector": pods or {}, "policyTypes": types, **{way: one for way, one in rules.items() if one}},
    }


def labels(**wanted: str) -> Object:
    return {"podSelector": {"matchLabels": wanted}}


TCP_80 = [{"port": 80, "protocol": "TCP"}]
FRONT = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "front"}}}


def test_a_pod_that_no_policy_selects_is_open() -> None:
    other = [policy(pods={"matchLabels": {"app": "ledger"}}, ingress=[]), policy("elsewhere", ingress=[])]
    assert allowed(other, SHOP, BOOKS, 80)
    assert not allowed(other, SHOP, LEDGER, 80)


def test_one_direction_closed_leaves_the_other_open() -> None:
    closed = [policy(ingress=[])]
    assert allowed(closed, BOOKS, SHOP, 80)
    assert not allowed(closed, SHOP, BOOKS, 80)


def test_policies_add_up() -> None:
    both = [policy(ingress=[]), policy(ingress=[{"from": [FRONT], "ports": TCP_80}])]
    assert allowed(both, SHOP, BOOKS, 80)
    assert not allowed(both, OUTSIDE, BOOKS, 80)


def test_both_sides_have_to_be_open() -> None:
    taken = policy(ingress=[{"from": [FRONT]}])
    assert not allowed([taken, policy("front", egress=[])], SHOP, BOOKS, 80)
    assert allowed([taken, policy("front", egress=[{"ports": TCP_80}])], SHOP, BOOKS, 80)


@pytest.mark.parametrize(
    ("rule", "opens"),
    [
        ({"from": [labels(app="ledger")]}, {LEDGER}),
        ({"from": [labels(app="shop")]}, set()),  # of its own namespace alone
        ({"from": [FRONT | labels(app="shop")]}, {SHOP}),
        ({"from": [FRONT | labels(app="ledger")]}, set()),
        ({"from": [FRONT, labels(app="ledger")]}, {SHOP, LEDGER}),
        ({"from": [{"namespaceSelector": {}}]}, {SHOP, LEDGER}),
        (
            {"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}}]},
            {LEDGER},
        ),
        ({"from": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]}, {OUTSIDE}),
        ({"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}}]}, {SHOP, LEDGER, OUTSIDE}),
        ({}, {SHOP, LEDGER, OUTSIDE, METADATA}),
        ({"ports": TCP_80}, {SHOP, LEDGER, OUTSIDE, METADATA}),
        ({"ports": [{"port": 80, "protocol": "UDP"}]}, set()),
        ({"ports": [{"port": 81, "protocol": "TCP"}]}, set()),
    ],
)
def test_whom_a_rule_opens_a_pod_to(rule: Object, opens: set[Endpoint]) -> None:
    there = [policy(pods={"matchLabels": {"app": "books"}}, ingress=[rule])]
    assert {one for one in (SHOP, LEDGER, OUTSIDE, METADATA) if allowed(there, one, BOOKS, 80)} == opens


@pytest.mark.parametrize(
    "rule",
    [
        {"to": [FRONT]},
        {"ports": [{"port": 80, "endPort": 90, "protocol": "TCP"}]},
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}} | FRONT]},
        {"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}]},
    ],
)
def test_what_it_does_not_understand_is_no_answer(rule: Object) -> None:
    with pytest.raises(UnknownError, match="nothing is known of"):
        allowed([policy(ingress=[rule])], LEDGER, BOOKS, 80)


def test_rules_for_a_direction_that_is_not_closed_are_a_mistake() -> None:
    half = policy(ingress=[{"from": [FRONT]}])
    half["spec"]["policyTypes"] = ["Egress"]
    with pytest.raises(UnknownError, match="ingress"):
        allowed([half], SHOP, BOOKS, 80)
