"""Each alert has a fault or a reason for none, and a fault waits for nothing that its rule does not name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from infra.toolchain.prepare import CHECKOUT
from tests.harness.alerts.faults import FAULTS, Fault
from tests.harness.alerts.play import NoFaultError, choose
from tests.harness.alerts.rules import Alert, read_alerts
from tests.harness.alerts.table import NOT_RAISED

ALERTS = read_alerts()


def find_unassigned(alerts: Collection[str], faults: Iterable[Fault], reasons: Collection[str]) -> list[str]:
    """Return what is wrong with who raises which alert."""
    raised = Counter(name for fault in faults for name in fault.raises)
    found = [f"{name} has neither a fault nor a reason" for name in alerts if name not in {*raised, *reasons}]
    found += [f"{name} has a fault and a reason for none" for name in reasons if name in raised]
    found += [f"{name} has {number} faults" for name, number in raised.items() if number > 1]
    return found + [f"{name} is no alert" for name in {*raised, *reasons}.difference(alerts)]


def test_every_alert_is_raised_by_one_fault_or_has_a_reason() -> None:
    assert find_unassigned(ALERTS, FAULTS, NOT_RAISED) == []
    assert {name for fault in FAULTS for name in fault.may} <= ALERTS.keys()


def test_an_alert_without_a_fault_and_one_with_both_are_seen() -> None:
    assert find_unassigned([*ALERTS, "New"], FAULTS, NOT_RAISED) == ["New has neither a fault nor a reason"]
    assert find_unassigned(ALERTS, FAULTS, [*NOT_RAISED, "DriverAway"]) == [
        "DriverAway has a fault and a reason for none"
    ]
    assert find_unassigned(ALERTS, (*FAULTS, FAULTS[0]), NOT_RAISED) == ["ObjectStoreAway has 2 faults"]
    assert find_unassigned(ALERTS, FAULTS, [*NOT_RAISED, "Gone"]) == ["Gone is no alert"]


def test_faults_are_chosen_by_name() -> None:
    assert choose(None) == FAULTS
    assert [one.name for one in choose("dead-letters, store-away")] == ["dead-letters", "store-away"]
    with pytest.raises(NoFaultError, match="there is no fault stroe-away; there are: store-away, "):
        choose("stroe-away")


def test_an_alert_is_read_with_what_it_states_and_whom_it_names(tmp_path: Path) -> None:
    path = tmp_path / "spark-operator.yaml"
    path.write_text(
        "groups: [{name: a, rules: [{alert: A, expr: 'max by (job) (up{job=\"x\"}) == 0', "
        "annotations: {fires_within: 90s}}]}]"
    )
    (alert,) = read_alerts([path]).values()
    assert alert == Alert("A", "spark-operator", 'max by (job) (up{job="x"}) == 0', 90, ("job",))
    assert alert.expect("uc", "uc") == {"job": "spark-operator"}
    assert alert.series == ('up{job="x"}',)
    assert ALERTS["OperatorStuck"].expect("user_counts", "user-counts") == {
        "application": "user-counts",
        "pipeline": "user_counts",
    }
    assert ALERTS["StartWarned"].expect("uc", "uc") == {"pipeline": "uc", "warning": None}


def test_every_alert_that_is_raised_names_the_pipeline_or_a_server() -> None:
    for fault in FAULTS:
        for name in fault.raises:
            assert any(ALERTS[name].expect("uc", "uc").values()), name


def read_table(page: str) -> dict[str, tuple[str, ...]]:
    """Return what the page says of each fault: its alerts."""
    rows = re.findall(r"^\| `([\w-]+)` \| ([\w, ]+) \|", page, flags=re.MULTILINE)
    return {name: tuple(raised.strip().split(", ")) for name, raised in rows}


def test_the_page_has_every_fault_and_names_every_alert_that_none_raises() -> None:
    page = (CHECKOUT / "docs" / "how-to" / "alerts.md").read_text()
    assert read_table(page) == {fault.name: fault.raises for fault in FAULTS}
    assert all(name in page.partition("## PipelineStalled")[0] for name in NOT_RAISED)
    assert "dead-letters" not in read_table(page.replace("| `dead-letters` |", "|"))
