"""Each query of the dashboard is answered by Prometheus, with what a deployment that is well exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from effectively_once.driver.metrics import PREFIX
from infra.values.dashboard import FILE
from infra.values.generate import CHARTS
from tests.unit.monitoring import exported
from tests.unit.monitoring.promtool import play, read_rules, to_answer_test
from tests.unit.monitoring.worlds import WELL, always, driver

DASHBOARD: dict[str, Any] = json.loads((CHARTS / FILE).read_text())
RULES = read_rules()
_SERIES = re.compile(r"(\w+)\{(.*)\}")
_TARGET = {"pipeline", "application", "instance", "job"}


def queries() -> Iterator[str]:
    """Yield the queries as Grafana sends them, for all pipelines."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$pipeline", ".*")


def test_every_query_has_an_answer(tmp_path: Path) -> None:
    """Of a pipeline with a refused source, so that an alert fires too."""
    answer = play(tmp_path, RULES, to_answer_test({driver("sources_released"): always(1)}, [*queries()]))
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_a_query_without_an_answer_or_a_meaning_is_seen(tmp_path: Path) -> None:
    for wrong in (f"rate({PREFIX}rows[5m])", f'{PREFIX}rows_total{{outcome="refused"}}', f"sum by ({PREFIX}rows_total"):
        answer = play(tmp_path, RULES, to_answer_test({}, [*queries(), wrong]))
        assert answer.returncode == 1, f"{wrong} was not seen"


def test_the_deployment_that_is_well_exports_what_a_driver_and_servers_do() -> None:
    """Else rules and queries would be tried on series that nobody has."""
    real = exported.of_drivers()
    for name in WELL:
        found = _SERIES.fullmatch(name)
        assert found is not None
        metric, labels = found[1], {*re.findall(r'(\w+)="', found[2])}
        if metric.startswith(PREFIX):
            assert {*real[metric].labels} == labels - _TARGET - {"le"}, name
        else:
            assert metric == "up" or metric in exported.OF_SERVERS, name
    told = {name.partition("{")[0] for name in WELL}
    used = exported.find_names(" ".join([*queries(), *(rule["expr"] for rule in RULES.values())]))
    assert used <= told


def test_the_dashboard_has_an_id_and_a_place_for_each_panel() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == len({panel["title"] for panel in panels})
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
