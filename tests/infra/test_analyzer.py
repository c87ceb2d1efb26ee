"""The policy pack answers as the engine asks: over its protocol, with unknown values, secrets and charts."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime import rpc
from pulumi.runtime.proto import analyzer_pb2

from infra.policy.analyzer import NAME, VERSION, Analyzer, read_object
from infra.policy.pods import Object
from infra.policy.rules import RULES
from infra.settings.section import PROJECT
from infra.toolchain.prepare import CHECKOUT
from tests.infra.rule_cases import CASES, STRICT, Case, objects

SECRET = {rpc._special_sig_key: rpc._special_secret_sig}
ASKED = {f"{PROJECT}:security": '{"kafka": true, "result_store": true, "pinned_images": true}'}


def struct(one: Object) -> Any:
    """Return an object as the engine hands it over."""
    return json_format.ParseDict(one, struct_pb2.Struct())


def kind(one: Object) -> str:
    """Return Pulumi's word for what an object is."""
    group, _, version = one["apiVersion"].rpartition("/")
    return f"kubernetes:{group or 'core'}/{version}:{one['kind']}"


def analyzer(config: dict[str, str]) -> Analyzer:
    """Return one that knows its stack."""
    made = Analyzer(threading.Event())
    made.ConfigureStack(analyzer_pb2.AnalyzerStackConfigureRequest(stack="team", config=config), None)
    return made


def list_violations(answer: Any) -> list[tuple[str, str]]:
    """Return rules and objects of an answer; every one ends the update."""
    assert {one.enforcementLevel for one in answer.diagnostics} <= {analyzer_pb2.MANDATORY}
    assert {(one.policyPackName, one.policyPackVersion) for one in answer.diagnostics} <= {(NAME, VERSION)}
    return [(one.policyName, one.urn) for one in answer.diagnostics]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_names_rule_object_and_what_breaks_it(case: Case) -> None:
    asks, bad = analyzer(ASKED), case.bad
    request = analyzer_pb2.AnalyzeRequest(urn="urn:x", type=kind(bad), properties=struct(bad))
    answer = asks.Analyze(request, None)
    assert (case.rule, "urn:x") in list_violations(answer)
    (one,) = (each for each in answer.diagnostics if each.policyName == case.rule)
    assert one.message.startswith(f"{one.description}\n")
    assert case.says in one.message
    request.properties.CopyFrom(struct(case.good))
    assert list_violations(asks.Analyze(request, None)) == []


def test_a_stack_that_asks_for_nothing_is_asked_for_nothing() -> None:
    (case, *_) = (case for case in CASES if case.rule == "pinned-images")
    request = analyzer_pb2.AnalyzeRequest(urn="urn:x", type=kind(case.bad), properties=struct(case.bad))
    assert list_violations(analyzer({}).Analyze(request, None)) == []


def test_a_budget_is_missed_in_the_whole_stack() -> None:
    every = {f"urn:{number}": one for number, one in enumerate(objects(STRICT))}
    budget = next(urn for urn, one in every.items() if one["kind"] == "PodDisruptionBudget")
    name = every[budget]["metadata"]["name"]
    (urn,) = (urn for urn, one in every.items() if (one["kind"], one["metadata"]["name"]) == ("StatefulSet", name))
    resources = {
        urn: analyzer_pb2.AnalyzerResource(urn=urn, type=kind(one), properties=struct(one))
        for urn, one in every.items()
    }
    resources["urn:stack"] = analyzer_pb2.AnalyzerResource(urn="urn:stack", type="pulumi:pulumi:Stack")
    asks = analyzer(ASKED)
    assert (
        list_violations(asks.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=resources.values()), None)) == []
    )
    del resources[budget]
    answer = asks.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=resources.values()), None)
    assert list_violations(answer) == [("budget", urn)]


def test_what_is_not_known_yet_and_what_is_secret_is_passed_over() -> None:
    case = CASES[0]
    hidden = {
        **case.bad,
        "metadata": {**case.bad["metadata"], "labels": {"x": rpc.UNKNOWN}},
        "data": {**SECRET, "value": {"a": "b"}},
    }
    found = read_object(kind(case.bad), struct(hidden))
    assert found is not None
    assert found["data"] == {"a": "b"}
    request = analyzer_pb2.AnalyzeRequest(urn="urn:x", type=kind(case.bad), properties=struct(hidden))
    assert (case.rule, "urn:x") in list_violations(analyzer({}).Analyze(request, None))


@pytest.mark.parametrize(
    ("what", "properties"),
    [
        ("kubernetes:helm.sh/v4:Chart", {"metadata": {"name": "x"}, "kind": "x"}),
        ("effectively-once:platform:Kafka", {"metadata": {"name": "x"}}),
        ("kubernetes:core/v1:Pod", {"metadata": {"name": rpc.UNKNOWN}}),
        ("kubernetes:core/v1:Pod", {}),
    ],
)
def test_what_is_no_object_is_left_alone(what: str, properties: Object) -> None:
    assert read_object(what, struct(properties)) is None


def test_it_says_which_rules_it_has_and_who_it_is() -> None:
    answer = Analyzer(threading.Event()).GetAnalyzerInfo(None, None)
    assert {one.name for one in answer.policies} == {"budget", *(rule.name for rule in RULES)}
    said = (CHECKOUT / "infra" / "policy" / "PulumiPolicy.yaml").read_text().splitlines()
    assert f"name: {answer.name}" in said
    assert f"version: {answer.version}" in said
    assert "runtime: python" in said
