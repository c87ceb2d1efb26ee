"""Rules are about metrics that are exported, have a page that says what to do, and are what the page is about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from effectively_once.driver.metrics import PREFIX, WARNINGS, Metrics
from infra.operate.logs import COMPONENTS
from infra.toolchain.prepare import CHECKOUT
from tests.harness.alerts.rules import RULES, to_seconds
from tests.unit.monitoring import exported
from tests.unit.monitoring.promtool import Rule, read_rules, run

PAGE = "docs/how-to/alerts.md"
REST = ("Raise them on a cluster", "What no alert sees")
_NAMED = re.compile(rf"(?i:pipeline) {{{{ \$labels\.(pipeline|application) }}}}|\b({'|'.join(COMPONENTS)})\b")
OPERATE = CHECKOUT / "docs" / "how-to" / "operate.md"


def read_sections(page: str) -> dict[str, str]:
    """Return the text of each section by its heading."""
    _, *parts = re.split(r"^## (.*)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def find_wrong(rules: dict[str, Rule], page: str) -> list[str]:
    """Return what rules and their page do not agree about."""
    sections = read_sections(page)
    found = [f"section {name} has no alert" for name in sections if name not in rules and name not in REST]
    for name, rule in rules.items():
        text = sections.get(name, "")
        parts = ("**Means.**", "**Look", "**Do.**" if "**Look, do.**" not in text else "**Look, do.**")
        if not all(part in text for part in parts):
            found.append(f"{name}: its section does not say what it means, what to look at and what to do")
        notes = rule["annotations"]
        if notes.get("runbook_url") != f"{PAGE}#{name.lower()}":
            found.append(f"{name}: its runbook is {notes.get('runbook_url')}")
        if not _NAMED.search(notes["summary"]):
            found.append(f"{name}: its summary names no pipeline, and no server as `make status` does")
        if rule["labels"].get("severity") not in ("critical", "warning"):
            found.append(f"{name}: its severity is {rule['labels'].get('severity')}")
        if to_seconds(notes["fires_within"]) <= to_seconds(rule.get("for", "0s")):
            found.append(f"{name}: it cannot fire within {notes['fires_within']}")
    return found


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    assert find_wrong(read_rules(), (CHECKOUT / PAGE).read_text()) == []


def test_a_section_or_an_alert_that_is_missing_is_seen() -> None:
    page = (CHECKOUT / PAGE).read_text()
    rules = read_rules()
    assert find_wrong({**rules, "Other": {**rules["LeftBehind"]}}, page) == [
        "Other: its section does not say what it means, what to look at and what to do",
        f"Other: its runbook is {PAGE}#leftbehind",
    ]
    assert find_wrong(rules, page + "\n## Gone\n\nText.\n") == ["section Gone has no alert"]
    assert find_wrong(rules, page.replace("## LeftBehind\n\n**Means.**", "## LeftBehind\n\n")) == [
        "LeftBehind: its section does not say what it means, what to look at and what to do"
    ]
    nameless = {**rules["LeftBehind"]["annotations"], "summary": "A pipeline holds too much"}
    assert find_wrong({**rules, "LeftBehind": {**rules["LeftBehind"], "annotations": nameless}}, page) == [
        "LeftBehind: its summary names no pipeline, and no server as `make status` does"
    ]
    late = {**rules["LeftBehind"], "for": "2m"}
    assert find_wrong({**rules, "LeftBehind": late}, page) == ["LeftBehind: it cannot fire within 1m"]


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_prometheus_takes_the_file(path: Path, tmp_path: Path) -> None:
    answer = run("promtool", "check", "rules", "--lint=all", "--lint-fatal", path, folder=tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def find_strangers(text: str) -> set[str]:
    """Return metrics that a text names and that nobody exports."""
    return (
        exported.find_names(text)
        - exported.of_drivers().keys()
        - exported.OF_STORE
        - exported.OF_OPERATOR
        - exported.OF_KAFKA
    )


def test_rules_and_pages_name_metrics_that_are_exported() -> None:
    for name, rule in read_rules().items():
        assert exported.find_names(rule["expr"]) or "up{" in rule["expr"], name
        assert find_strangers(rule["expr"]) == set(), name
    for path in (CHECKOUT / PAGE, OPERATE):
        assert find_strangers(path.read_text()) == set(), path


def test_a_metric_that_nobody_exports_is_seen() -> None:
    text = f"max({PREFIX}left_behind_total) > 0 or minio_drives_gone > 1 or {PREFIX}left_behind"
    assert find_strangers(text) == {f"{PREFIX}left_behind_total", "minio_drives_gone"}


def test_what_a_start_warns_of_has_an_alert_and_says_what_to_do() -> None:
    """By the metric's own label, whichever warning it is."""
    (rule,) = [rule for rule in read_rules().values() if "start_warning" in rule["expr"]]
    assert "by (pipeline, warning)" in rule["expr"]
    for name in WARNINGS:
        assert f"| `{name}` |" in OPERATE.read_text()


def test_no_rule_of_a_driver_at_work_sees_a_standby() -> None:
    """Of a standby they would take 0 for an input that is lost, and for a driver that never lived."""
    waiting = Metrics("uc", standby=True)
    waiting.show_standby()
    seen = {*exported.of_drivers(waiting)}
    assert seen == {f"{PREFIX}standby", f"{PREFIX}takeovers_total"}
    for name, rule in read_rules().items():
        named = exported.find_names(rule["expr"])
        assert (named <= seen and bool(named)) == (name in ("NoStandby", "StandbyTookOver")), name
        assert named <= seen or not named & seen, name
