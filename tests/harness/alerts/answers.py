"""What Prometheus and Alertmanager answer, as what matters here; pure functions of the bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from infra.errors import UserError


class AnswerError(UserError):
    """Prometheus or Alertmanager did not answer, or answered with an error; the message says to what."""


@dataclass(frozen=True, slots=True)
class Active:
    """An alert whose rule holds; it fires once it has held for long enough."""

    labels: Mapping[str, str]
    fires: bool

    @property
    def name(self) -> str:
        """Of the alert."""
        return self.labels["alertname"]

    @property
    def says(self) -> str:
        """Name and labels, for people."""
        own = {name: value for name, value in self.labels.items() if name not in ("alertname", "severity")}
        return f"{self.name} {own}" if own else self.name


@dataclass(frozen=True, slots=True)
class Target:
    """What Prometheus asks for metrics; `error` is empty where the last answer was one."""

    job: str
    address: str
    up: bool
    error: str


def read_data(body: bytes, asked: str) -> Any:
    """Return what Prometheus' API answers. Raises AnswerError."""
    try:
        found = orjson.loads(body)
        status = found["status"]
        if status == "success":
            return found["data"]
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerError(f"{asked}: Prometheus answered {body[:200]!r}") from error
    raise AnswerError(f"{asked}: {found.get('errorType')}: {found.get('error')}")


def list_active(data: Mapping[str, Any]) -> list[Active]:
    """Read /api/v1/alerts."""
    return [Active(one["labels"], one["state"] == "firing") for one in data["alerts"]]


def list_targets(data: Mapping[str, Any]) -> list[Target]:
    """Read /api/v1/targets."""
    return [
        Target(one["labels"]["job"], one["labels"]["instance"], one["health"] == "up", one.get("lastError") or "")
        for one in data["activeTargets"]
    ]


def read_health(data: Mapping[str, Any]) -> dict[str, str]:
    """Read /api/v1/rules: what is wrong with each alert's rule; empty: nothing, it was evaluated."""
    rules = [rule for group in data["groups"] for rule in group["rules"] if rule["type"] == "alerting"]
    bad = {rule["name"]: f"{rule['health']}: {rule.get('lastError') or 'not evaluated'}" for rule in rules}
    return bad | {rule["name"]: "" for rule in rules if rule["health"] == "ok"}


def read_rows(data: Mapping[str, Any]) -> list[tuple[dict[str, str], float]]:
    """Read /api/v1/query: labels and value of each series."""
    if data["resultType"] != "vector":
        raise AnswerError(f"an answer of type {data['resultType']}, not a vector")
    return [(dict(one["metric"]), float(one["value"][1])) for one in data["result"]]


def list_received(body: bytes) -> dict[str, str]:
    """Read Alertmanager's /api/v2/alerts: the state of each alert by name, `active` before `suppressed`."""
    try:
        told = [(one["labels"]["alertname"], one["status"]["state"]) for one in orjson.loads(body)]
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerError(f"Alertmanager answered {body[:200]!r}") from error
    return dict(sorted(told, key=lambda one: one[1], reverse=True))
