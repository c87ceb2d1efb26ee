"""Each alert fires within its stated time on what its fault makes, resolves after it, and a quiet hour fires none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.monitoring.cases import CASES, QUIET, Case
from tests.unit.monitoring.promtool import play, read_rules, to_quiet_test, to_test

RULES = read_rules()
HOUR_S = 3600.0
SHORT = {"an hour of records", "a planned update"}
"""What `make test` waits for; every hour takes a second."""


@pytest.mark.parametrize("others", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["alone", "among all"])
@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case.alert}" for number, case in enumerate(CASES)])
def test_a_fault_raises_its_alert_in_time_and_its_end_resolves_it(case: Case, tmp_path: Path, *, others: bool) -> None:
    rule = RULES[case.alert]
    answer = play(tmp_path, RULES if others else {case.alert: rule}, to_test(case, rule, others=others))
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("what", [one if one in SHORT else pytest.param(one, marks=pytest.mark.deep) for one in QUIET])
def test_nothing_fires_in(what: str, tmp_path: Path) -> None:
    answer = play(tmp_path, RULES, to_quiet_test(QUIET[what](1200, HOUR_S), HOUR_S))
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_every_alert_has_a_fault() -> None:
    assert {case.alert for case in CASES} == set(RULES)


def test_a_rule_that_does_not_fire_or_fires_late_or_for_ever_is_seen(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.alert == "BrokerDegraded")
    rule = RULES[case.alert]
    wrong = {
        "never": {**rule, "expr": f"{rule['expr']} > 1e9"},
        "late": {**rule, "for": "15m"},
        "for ever": {**rule, "keep_firing_for": "2h"},
        "without its pipeline": {**rule, "expr": "max(effectively_once_input_degraded_partitions) > 0"},
        "always": {**rule, "expr": "max by (pipeline) (effectively_once_generation)"},
    }
    test, quiet = to_test(case, rule, others=False), to_quiet_test({}, HOUR_S)
    assert play(tmp_path, {case.alert: rule}, test, quiet).returncode == 0
    for how, other in wrong.items():
        assert play(tmp_path, {case.alert: other}, test).returncode == 1, f"{how} was not seen"
    assert play(tmp_path, {case.alert: wrong["always"]}, quiet).returncode == 1, "a quiet hour was not"
