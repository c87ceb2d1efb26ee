"""Prometheus' own programs, built as those of a deployment are, and what they say of rules."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.go_tools import ALERTMANAGER_TOOL, PROMETHEUS_TOOL, build
from tests.harness.alerts.rules import RULES, to_seconds
from tests.unit.monitoring.cases import Case
from tests.unit.monitoring.worlds import STEP_S, WELL, World, to_values

TIMEOUT_S = 60.0
Rule = dict[str, Any]


def read_rules() -> dict[str, Rule]:
    """Return the rules by the names of their alerts."""
    rules = [rule for path in RULES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
    found = {rule["alert"]: rule for rule in rules}
    assert len(found) == len(rules), "an alert has two rules"
    return found


@cache
def find_program(name: str) -> Path:
    """Return one of Prometheus' programs or Alertmanager's, built first if need be."""
    tool = next(tool for tool in (PROMETHEUS_TOOL, ALERTMANAGER_TOOL) if name in tool.binaries)
    return build(Cache(cache_root()), tool) / name


def run(name: str, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `promtool` or `amtool`."""
    argv = [find_program(name), *arguments]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def play(folder: Path, rules: dict[str, Rule], *tests: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Play tests of rules."""
    (folder / "rules.yaml").write_text(json.dumps({"groups": [{"name": "all", "rules": [*rules.values()]}]}))
    whole = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{STEP_S}s", "tests": [*tests]}
    (folder / "tests.yaml").write_text(json.dumps(whole))
    return run("promtool", "test", "rules", "tests.yaml", folder=folder)


def to_test(case: Case, rule: Rule, *, others: bool = True) -> dict[str, Any]:
    """Write a fault as a test: silent before it, raised within the stated time, silent some time after it.

    Args:
        case: the fault.
        rule: of its alert.
        others: all rules are played, of which it may raise more than its own.
    """
    fires_s = case.begins_s + to_seconds(rule["annotations"]["fires_within"])
    ends_s = fires_s + 300
    silent_s = ends_s + case.resolves_s
    labels = {**case.labels, **rule["labels"]}
    told = {"exp_labels": labels, "exp_annotations": _expanded(rule["annotations"], case.labels)}
    return {
        **_world(case.fault(case.begins_s, ends_s), silent_s),
        "alert_rule_test": [
            {"eval_time": f"{at:.0f}s", "alertname": case.alert, "exp_alerts": alerts}
            for at, alerts in ((case.begins_s - STEP_S, []), (fires_s, [told]), (silent_s, []))
        ],
        "promql_expr_test": [
            _firing(fires_s, "{}", {case.alert} | (case.also if others else set())),
            _firing(silent_s, "{}", set()),
        ],
    }


def to_quiet_test(fault: World, length_s: float) -> dict[str, Any]:
    """Write an hour in which nothing may fire."""
    return {
        **_world(fault, length_s),
        "promql_expr_test": [_firing(length_s, f"max_over_time({{}}[{length_s:.0f}s])", set())],
    }


def to_answer_test(changes: World, queries: list[str]) -> dict[str, Any]:
    """Write that each query has an answer after ten minutes."""
    return {
        **_world(changes, 600),
        "promql_expr_test": [
            {"eval_time": "600s", "expr": f"count({query}) > bool 0", "exp_samples": [{"labels": "{}", "value": 1}]}
            for query in queries
        ],
    }


def _world(changes: World, length_s: float) -> dict[str, Any]:
    lines = {**WELL, **changes}
    return {
        "interval": f"{STEP_S}s",
        "input_series": [{"series": name, "values": to_values(line, length_s)} for name, line in lines.items()],
    }


def _firing(at: float, over: str, alerts: set[str]) -> dict[str, Any]:
    firing = over.format('ALERTS{alertstate="firing"}')
    return {
        "eval_time": f"{at:.0f}s",
        "expr": f"group by (alertname) ({firing})",
        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)],
    }


def _expanded(annotations: dict[str, str], labels: dict[str, str]) -> dict[str, str]:
    """Return annotations as they are told; a label that an alert does not have is a KeyError."""
    found = {}
    for name, text in annotations.items():
        first, *rest = text.split("{{ $labels.")
        parts = (part.partition(" }}") for part in rest)
        found[name] = first + "".join(labels[label] + after for label, _, after in parts)
    return found
