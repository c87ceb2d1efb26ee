"""The rules for Prometheus on the page of operators ask for metrics that a driver exports, and alert on warnings."""

from __future__ import annotations

import re

import yaml
from prometheus_client import generate_latest

from effectively_once.driver.metrics import PREFIX, WARNINGS, Metrics
from infra.toolchain.prepare import CHECKOUT

PAGE = CHECKOUT / "docs" / "how-to" / "operate.md"
_NAME = re.compile(rf"\b{PREFIX}\w+")


def read_rules(page: str) -> list[dict[str, str]]:
    """Return all rules of a page, of each of its blocks that has some."""
    found: list[dict[str, str]] = []
    for block in re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if "- alert:" not in block:
            continue
        read = yaml.safe_load(block)
        found += [rule for group in read["groups"] for rule in group["rules"]] if isinstance(read, dict) else read
    return found


def exported() -> set[str]:
    """Return names as a driver's page has them, those of counters and histograms with their endings."""
    lines = generate_latest(Metrics("uc").registry).decode().splitlines()
    kinds = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE"))
    for name, kind in [*kinds.items()]:
        if kind == "histogram":
            kinds |= dict.fromkeys((f"{name}_bucket", f"{name}_count", f"{name}_sum"), kind)
    return {*kinds}


def strangers(page: str) -> set[str]:
    """Metrics in the rules of a page that no driver exports."""
    return {name for rule in read_rules(page) for name in _NAME.findall(rule["expr"])} - exported()


def test_every_metric_of_a_rule_is_exported() -> None:
    page = PAGE.read_text()
    assert all(_NAME.search(rule["expr"]) for rule in read_rules(page))
    assert strangers(page) == set()
    assert len(read_rules(page)) == page.count("- alert:") >= 5


def test_every_metric_that_the_page_names_is_exported() -> None:
    assert {*_NAME.findall(PAGE.read_text())} - exported() == set()


def test_a_rule_of_a_metric_that_nobody_exports_is_seen() -> None:
    block = "```\n  - alert: Never\n    expr: max(effectively_once_left_behind_total) > 0\n```\n"
    assert strangers(block) == {"effectively_once_left_behind_total"}
    whole = "```\ngroups:\n- name: x\n  rules:\n  - alert: Never\n    expr: effectively_once_gone > 0\n```\n"
    assert strangers(whole) == {"effectively_once_gone"}


def test_what_a_start_warns_of_has_a_rule() -> None:
    """By the metric's own label, whichever warning it is."""
    page = PAGE.read_text()
    (rule,) = [rule for rule in read_rules(page) if "start_warning" in rule["expr"]]
    assert "by (pipeline, warning)" in rule["expr"]
    for name in WARNINGS:
        assert f"| `{name}` |" in page


def test_no_rule_of_a_driver_at_work_sees_a_standby() -> None:
    """Of a standby they would take 0 for an input that is lost, and for a driver that never lived."""
    waiting = Metrics("uc", standby=True)
    waiting.show_standby()
    seen = {family.name for family in waiting.registry.collect()}
    assert seen == {"effectively_once_standby", "effectively_once_takeovers"}
    of_standbys = {"NoStandby", "StandbyTookOver"}
    for rule in read_rules(PAGE.read_text()):
        names = {name.removesuffix("_total") for name in _NAME.findall(rule["expr"])}
        assert (names <= seen) == (rule["alert"] in of_standbys), rule
        assert names <= seen or not names & seen, rule
