"""What came of raising alerts: `results.json`, and a table for people."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from tests.harness.results import On, Verdict

COLUMNS = ("alert", "fault", "stated", "fired after", "resolved after", "labels", "verdict")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Raised(_Frozen):
    """One alert that a fault was to raise. Times in seconds.

    Attributes:
        alert: its name.
        stated_s: within which it fires, as its rule says.
        fired_s: after the fault; None: it did not.
        resolved_s: after the fault was healed; None: it did not.
        labels: as Prometheus gave them.
        due: that it has to have; None: any value.
        received: its state at Alertmanager; empty: it was not there.
    """

    alert: str
    stated_s: float
    fired_s: float | None = None
    resolved_s: float | None = None
    labels: dict[str, str] = {}
    due: dict[str, str | None] = {}
    received: str = ""


class Played(_Frozen):
    """One fault.

    Attributes:
        fault: its name.
        says: what was done.
        since: the moment from which the stated time counts.
        raised: the alerts that it was to raise.
        others: alerts that fired meanwhile, with their labels.
        may: of them those that such a fault may raise.
        lacks: why it could not be played, or not to its end; empty: it was.
    """

    fault: str
    says: str
    since: str
    raised: tuple[Raised, ...] = ()
    others: dict[str, dict[str, str]] = {}
    may: tuple[str, ...] = ()
    lacks: str = ""


class Quiet(_Frozen):
    """A time in which nothing was done, and the alerts that fired in it."""

    seconds: float
    alerts: tuple[str, ...] = ()


class Asked(_Frozen):
    """A query of the dashboard or of a rule, with how many series it had and why there were none."""

    by: str
    query: str
    series: int
    why: str
    holds: bool


class AlertResults(_Frozen):
    """`results.json`.

    Attributes:
        claim: what is to be shown.
        verdict: whether it was.
        reasons: what speaks against it, or is not known.
        quiet: before the faults, and after them.
        targets: whom Prometheus asks, and whether each answers.
        queries: what was asked.
        faults: what was played.
        not_raised: alerts that no fault raises here, and why.
    """

    claim: str
    verdict: Verdict
    on: On = "cluster"
    reasons: tuple[str, ...] = ()
    quiet: tuple[Quiet, ...] = ()
    targets: dict[str, bool] = {}
    queries: tuple[Asked, ...] = ()
    faults: tuple[Played, ...] = ()
    not_raised: dict[str, str] = {}
    duration_s: float = 0.0
    versions: dict[str, Any] = {}
    git: dict[str, Any] = {}


def list_rows(results: AlertResults, wrong: dict[str, list[str]]) -> list[tuple[str, ...]]:
    """Return a row an alert, in the order of COLUMNS; `wrong` has what speaks against each."""
    rows: list[tuple[str, ...]] = []
    for played in results.faults:
        for one in played.raised:
            bad = f"not played: {played.lacks}" if played.lacks else "; ".join(wrong.get(one.alert, ["as stated"]))
            named = ", ".join(f"{name}={one.labels.get(name, '')}" for name in one.due)
            rows.append(
                (one.alert, played.fault, _shown(one.stated_s), _shown(one.fired_s), _shown(one.resolved_s), named, bad)
            )
    return rows + [(name, "", "", "", "", "", f"not raised here: {why}") for name, why in results.not_raised.items()]


def markdown(results: AlertResults, wrong: dict[str, list[str]]) -> str:
    """Return the table as the docs hold it."""
    lines = [COLUMNS, ("--",) * len(COLUMNS), *list_rows(results, wrong)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"
