"""Nothing that is deployed breaks a rule, and each rule refuses what it is for."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from infra.policy.listeners import PLAIN
from infra.policy.rules import DELETED, OTHER_PODS, RULES, broken, without_budget
from infra.settings.load import read_security
from infra.settings.profiles import PROFILES
from infra.settings.refused import SettingsError
from infra.settings.security import Security
from tests.charts import samples
from tests.charts.deployment import SECURED, TEAM, WANTED
from tests.charts.render import render
from tests.infra.platform import PLAIN as LEVEL_EACH
from tests.infra.platform import settings
from tests.infra.rule_cases import CASES, STRICT, Case, objects

DEPLOYED = {
    **{profile: settings(profile=profile) for profile in PROFILES},
    **{f"plain {profile}": settings(profile=profile, security=LEVEL_EACH) for profile in PROFILES},
    TEAM: WANTED[TEAM],
    SECURED: WANTED[SECURED],
    "strict": STRICT,
}


@pytest.mark.parametrize("name", DEPLOYED)
@pytest.mark.thinned(3)
def test_nothing_that_is_deployed_breaks_a_rule(name: str) -> None:
    wanted = DEPLOYED[name]
    every = [*objects(wanted)]
    assert {one["kind"] for one in every} > {"StatefulSet", "SparkApplication", "ConfigMap", "PodDisruptionBudget"}
    assert {
        f"{one['kind']} {one['metadata']['name']}": found for one in every if (found := broken(one, wanted.security))
    } == {}
    assert [*without_budget(every)] == []


@pytest.mark.parametrize(("chart", "values"), samples.EACH.values(), ids=samples.EACH.keys())
@pytest.mark.thinned(4)
def test_no_variant_of_a_chart_breaks_a_rule_that_is_always_asked_for(chart: str, values: Any) -> None:
    every = [*render(chart, values.to_helm())]
    assert [found for one in every if (found := broken(one, Security()))] == []
    assert [*without_budget(every)] == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_rule_refuses(case: Case) -> None:
    assert broken(case.good, STRICT.security) == {}
    found = {rule.name: lines for rule, lines in broken(case.bad, STRICT.security).items()}
    # What has no tag has no digest either.
    found.pop("pinned-images" if case.rule == "tagged-images" else "", None)
    assert [*found] == [case.rule]
    assert any(case.says in line for line in found[case.rule]), found


def test_each_rule_has_a_case() -> None:
    assert {rule.name for rule in RULES} == {case.rule for case in CASES}
    assert {rule.name for rule in RULES if rule.expression is None} == {"restricted"}, "a label of the namespace has it"


@pytest.mark.parametrize("rule", [rule for rule in RULES if not rule.asked(Security())], ids=lambda rule: rule.name)
def test_what_nobody_asks_for_is_not_refused(rule: Any) -> None:
    for case in CASES:
        if case.rule == rule.name:
            assert broken(case.bad, Security()) == {}


@pytest.mark.parametrize("case", [case for case in CASES if case.rule.endswith("-encrypted")], ids=str)
def test_plain_listeners_are_said_where_nobody_asks_for_others(case: Case) -> None:
    one = case.bad
    assert broken(one, Security())
    one["metadata"]["annotations"] = {PLAIN: "true"}
    assert broken(one, Security()) == {}
    assert broken(one, STRICT.security), "what is asked for cannot be said away"


def test_volumes_go_where_a_set_says_so() -> None:
    (case, *_) = (case for case in CASES if case.rule == "volumes-kept")
    one = case.bad
    one["metadata"]["annotations"] = {DELETED: "true"}
    assert broken(one, STRICT.security) == {}


def test_a_set_without_a_budget_for_its_own_pods_is_found() -> None:
    every = [*objects(STRICT)]
    names = ["kafka", "kafka-controller", "minio", "postgres"]
    for name in names:
        where, place = next(
            (number, one)
            for number, one in enumerate(every)
            if (one["kind"], one["metadata"]["name"]) == ("PodDisruptionBudget", name)
        )
        other = copy.deepcopy(place)
        other["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] = "other"
        elsewhere = {**place, "metadata": {**place["metadata"], "namespace": "elsewhere"}}
        for change, says in (
            ([], f"there is no budget {name}"),
            ([elsewhere], f"there is no budget {name}"),
            ([other], OTHER_PODS),
        ):
            found = [*without_budget([*every[:where], *change, *every[where + 1 :]])]
            assert [(one["metadata"]["name"], line) for one, line in found] == [(name, says)]


def test_a_set_of_others_is_not_looked_at() -> None:
    (case, *_) = (case for case in CASES if case.rule == "volumes-kept")
    one = case.bad
    one["metadata"] = {"name": "other"}
    assert broken(one, STRICT.security) == {}
    assert [*without_budget([one])] == []


def test_a_stack_says_what_it_asks_for() -> None:
    assert read_security({}) == Security(spark=True, kafka=True, object_store=True, result_store=True)
    config = {"effectively-once:security": '{"level": "each", "kafka": true}', "aws:x": "y"}
    assert read_security(config | {"effectively-once:profile": "production"}) == Security(level="each", kafka=True)
    config = {"effectively-once:kafka": '{"external": "b:1"}'}
    assert read_security(config) == Security(spark=True, object_store=True, result_store=True)
    with pytest.raises(SettingsError, match=r"security.kafak: no such setting"):
        read_security({"effectively-once:security": '{"kafak": true}'})


@pytest.mark.parametrize("where", ["images.kafka", "images.job-own", "pipelines.clicks.image"])
def test_a_stack_that_asks_for_digests_has_them_in_its_settings(where: str) -> None:
    pinned = STRICT.images.kafka
    images = {**dict.fromkeys(STRICT.images.references(), pinned), "job-own": pinned}
    clicks = {"image": pinned, "job": "own.clicks"}
    security = {"pinned_images": True}
    assert settings(security=security, images=images, pipelines={"clicks": clicks})
    changed: dict[str, Any] = {"images": {**images}, "pipelines": {"clicks": clicks}}
    if where.startswith("images."):
        changed["images"][where.removeprefix("images.")] = "x:1"
    else:
        clicks["image"] = "x:1"
    with pytest.raises(SettingsError, match=rf"{where}: security.pinned_images asks for a digest .*got 'x:1'"):
        settings(security=security, **changed)
    assert settings(**changed)
