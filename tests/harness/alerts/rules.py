"""The alerts as the rule files of the chart define them: what each states of itself, and what it looks at."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra.values.generate import CHARTS

RULES = tuple(sorted((CHARTS / "monitoring" / "files" / "rules").glob("*.yaml")))
JOBS = {"kafka": "kafka", "object-store": "minio", "spark-operator": "spark-operator"}
"""Rule file -> the job of its targets."""
_UNITS = {"s": 1, "m": 60, "h": 3600}
_BY = re.compile(r"\bby \(([^)]*)\)")
_SERIES = re.compile(r"\b(?:effectively_once|kafka|minio|spark_application)_\w+|\bup\{[^}]*\}")


@dataclass(frozen=True)
class Alert:
    """One alert.

    Attributes:
        name: as it is told.
        file: of its rule, without the suffix.
        expression: of its rule.
        fires_within_s: how long it takes from the fault, as it states.
        labels: that tell of whom it is, in the order of its rule.
    """

    name: str
    file: str
    expression: str
    fires_within_s: float
    labels: tuple[str, ...]

    def expect(self, pipeline: str, application: str) -> dict[str, str | None]:
        """Return the labels that it has to have when this pipeline or a server is struck; None: any value."""
        known = {"pipeline": pipeline, "application": application, "job": JOBS.get(self.file)}
        return {label: known.get(label) for label in self.labels}

    @property
    def series(self) -> tuple[str, ...]:
        """What it looks at, each once."""
        return tuple(dict.fromkeys(_SERIES.findall(self.expression)))


def to_seconds(duration: str) -> float:
    """Return what Prometheus writes as `6m` or `15s`."""
    return float(duration[:-1]) * _UNITS[duration[-1]]


def read_alerts(files: Iterable[Path] = RULES) -> dict[str, Alert]:
    """Return the alerts of rule files by name."""
    found = {}
    for path in files:
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                # Of the outermost aggregation, which comes first in each of our rules.
                by = _BY.search(rule["expr"])
                labels = tuple(label.strip() for label in by[1].split(",")) if by else ()
                stated_s = to_seconds(rule["annotations"]["fires_within"])
                found[rule["alert"]] = Alert(rule["alert"], path.stem, rule["expr"], stated_s, labels)
    return found
