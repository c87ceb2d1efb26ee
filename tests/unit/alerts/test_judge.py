"""An alert that does not come, comes late, names nobody, goes nowhere or stays speaks against the claim."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.alerts import judge
from tests.harness.alerts.answers import AnswerError
from tests.harness.alerts.queries import Query, answer, list_queries
from tests.harness.alerts.results import AlertResults, Asked, Played, Quiet, Raised, markdown
from tests.harness.alerts.rules import read_alerts
from tests.harness.results import Verdict

GOOD: dict[str, Any] = {
    "alert": "DriverAway",
    "stated_s": 360.0,
    "fired_s": 340.0,
    "resolved_s": 60.0,
    "labels": {"alertname": "DriverAway", "pipeline": "uc"},
    "due": {"pipeline": "uc"},
    "received": "active",
}


def played(*, lacks: str = "", **changes: Any) -> Played:
    one = Raised.model_validate({**GOOD, **changes})
    return Played(fault="operator-away", says="", since="", raised=(one,), lacks=lacks, may=("OperatorAway",))


def test_an_alert_as_its_rule_states_is_right() -> None:
    assert judge.find_wrong(Raised.model_validate(GOOD)) == []
    # It is seen with the next look.
    assert judge.find_wrong(Raised.model_validate({**GOOD, "fired_s": 364.9})) == []
    assert judge.find_wrong(Raised.model_validate({**GOOD, "due": {"pipeline": None}})) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fired_s": None}, "it did not fire, stated are 360 s"),
        ({"fired_s": 366.0}, "it fired after 366 s, stated are 360 s"),
        ({"labels": {"pipeline": "other"}}, "its label pipeline is 'other', not 'uc'"),
        ({"labels": {}, "due": {"pipeline": None}}, "its label pipeline is None, not None"),
        ({"received": ""}, "Alertmanager did not get it"),
        ({"resolved_s": None}, "it fired on after the fault was healed"),
    ],
)
def test_what_is_wrong_is_told_and_refutes(changes: dict[str, Any], says: str) -> None:
    wrong = [*judge.list_refuting([], [], [played(**changes)])]
    assert wrong == [f"DriverAway: {says}"]
    assert judge.conclude(wrong, []) is Verdict.FAIL
    results = AlertResults(claim="", verdict=Verdict.FAIL, faults=(played(**changes),), not_raised={"Other": "why"})
    table = markdown(results, judge.find_all_wrong(results.faults))
    assert says in table
    assert "| Other |  |  |  |  |  | not raised here: why |" in table


def test_an_alert_in_the_quiet_a_bad_query_and_one_that_a_fault_does_not_raise_refute() -> None:
    bad = Asked(by="panel", query="x", series=0, why="no series", holds=False)
    other = played().model_copy(update={"others": {"OperatorAway": {}, "TwoDrivers": {"pipeline": "uc"}}})
    assert [*judge.list_refuting([Quiet(seconds=180, alerts=("A",))], [bad], [other])] == [
        "A fired within 180 s in which nothing was done",
        "panel: x: no series",
        "operator-away: TwoDrivers {'pipeline': 'uc'} fired, which it does not raise",
    ]


def test_what_was_not_played_or_not_tried_is_unknown_and_never_a_pass() -> None:
    lacking = played(lacks="there is one broker", fired_s=None)
    assert [*judge.list_refuting([], [], [lacking])] == []
    unknown = [*judge.list_unknown([lacking], ["DriverAway", "TwoDrivers", "LeftBehind"], ["LeftBehind"])]
    assert unknown == ["operator-away was not played: there is one broker", "TwoDrivers was not tried"]
    assert judge.conclude([], unknown) is Verdict.UNKNOWN
    assert judge.conclude([], []) is Verdict.PASS


def test_a_query_without_a_series_needs_a_reason() -> None:
    def ask(expression: str) -> list[tuple[dict[str, str], float]]:
        if expression == "sum(":
            raise AnswerError("parse error")
        return [({}, 1.0)] if expression == "up" else []

    assert answer(Query("a", "up"), ask).holds
    assert answer(Query("a", "ALERTS"), ask).why == "nothing fires"
    assert answer(Query("a", "ALERTS"), ask).holds
    assert not answer(Query("a", "effectively_once_generation"), ask).holds
    assert not answer(Query("a", "sum("), ask).holds


def test_what_is_asked_has_every_panel_every_metric_of_a_rule_and_what_joins_them() -> None:
    alerts = read_alerts()
    found = list_queries(alerts.values(), "user_counts", "user-counts")
    assert {one.asked_by for one in found} >= {*alerts, "Alerts that fire", "operator by application"}
    assert not [one.expression for one in found if "$pipeline" in one.expression]
    joins = [one.expression for one in found if one.asked_by.endswith("by application")]
    assert all('application="user-counts"' in one for one in joins)
    without = [one for one in alerts.values() if one.file != "spark-operator"]
    assert not [one for one in list_queries(without, "uc", "uc") if "spark_application" in one.expression.split("(")[0]]
