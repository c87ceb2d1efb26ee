"""What the dashboard and the rules ask: each has an answer on a real cluster, or there is a reason for none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from infra.values.dashboard import FILE
from infra.values.generate import CHARTS
from tests.harness.alerts.answers import AnswerError
from tests.harness.alerts.rules import Alert

EMPTY = {
    "ALERTS": "nothing fires",
    "effectively_once_dead_letters_total": "no letter has had a reason yet",
    "effectively_once_certificate_expiry_timestamp_seconds": "no server of this profile speaks TLS",
}
"""What may be without a series where all is well, and why."""


@dataclass(frozen=True)
class Query:
    """One query, by whom it is asked."""

    asked_by: str
    expression: str


@dataclass(frozen=True)
class Answered:
    """What became of a query.

    Attributes:
        query: it.
        series: how many it answered with.
        why: it may be empty, or what is wrong; empty where it has an answer.
        holds: whether all is well with it.
    """

    query: Query
    series: int
    why: str
    holds: bool


def list_queries(alerts: Iterable[Alert], pipeline: str, application: str) -> list[Query]:
    """Return the dashboard's queries as Grafana sends them, what rules look at, and what joins them.

    The last are the two metrics by whose label `application` a rule joins drivers with the operator.
    """
    panels = json.loads((CHARTS / FILE).read_text())["panels"]
    found = [
        Query(panel["title"], target["expr"].replace("$pipeline", ".*"))
        for panel in panels
        for target in panel["targets"]
    ]
    found += [Query(alert.name, f"count({series})") for alert in alerts for series in alert.series]
    driver = f'effectively_once_generation{{pipeline="{pipeline}",application="{application}"}}'
    found += [Query("driver by application", driver)]
    if any(alert.file == "spark-operator" for alert in alerts):
        found += [Query("operator by application", f'spark_application_running_count{{application="{application}"}}')]
    return found


def answer(query: Query, ask: Callable[[str], list[tuple[dict[str, str], float]]]) -> Answered:
    """Ask a query, and judge the answer."""
    try:
        series = len(ask(query.expression))
    except AnswerError as error:
        return Answered(query, 0, str(error), holds=False)
    if series:
        return Answered(query, series, "", holds=True)
    reasons = [why for name, why in EMPTY.items() if name in query.expression]
    return Answered(query, 0, "; ".join(reasons) or "no series, and nobody knows of a reason", holds=bool(reasons))
