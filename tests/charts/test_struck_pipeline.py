"""The chart takes what a campaign lays over a deployed pipeline for one that its author defined."""

from __future__ import annotations

import json
from pathlib import Path

from tests.charts.render import environment, render
from tests.charts.samples import pipeline
from tests.harness.adapters.rendering import lay_over, values_for
from tests.harness.definition.in_pods import values_of
from tests.unit.harness.test_defined_in_pods import definition, subject


def test_its_package_is_in_every_pod_in_its_folders_and_nothing_of_the_deployed_program_is(tmp_path: Path) -> None:
    deployed = pipeline(module="other.program", service={"module": "other.answers"})
    values = deployed.model_dump(mode="json", by_alias=True)
    own = definition(tmp_path)
    (tmp_path / "installed" / "clicks" / "data").mkdir()
    (tmp_path / "installed" / "clicks" / "data" / "names.csv").write_text("a\n")
    changes = values_of(own, subject(tmp_path), values)
    settings = {**values["settings"], **changes.pop("settings"), "pipeline": "uc_7"}
    rendered = render("streaming-pipeline", lay_over(values_for(values, "uc-7", settings), changes), "uc-7")
    application = rendered.one("SparkApplication", "uc-7")
    assert application["spec"]["arguments"][:2] == ["effectively_once", "run"]
    assert not rendered.of("Service")
    for role in ("driver", "executor"):
        pod = application["spec"][role]["template"]["spec"]
        (extra,) = (one["configMap"]["items"] for one in pod["volumes"] if one["name"] == "extra")
        assert {one["path"] for one in extra} == {"clicks/__init__.py", "clicks/data/names.csv"}
        assert environment(pod)["EFFECTIVELY_ONCE_WHEEL_DIGEST"] == changes["wheelDigest"]
    told = json.loads(rendered.one("ConfigMap", "uc-7-settings")["data"]["settings.json"])
    assert (told["job"], told["shards"], told["kafka_bootstrap"]) == (
        "clicks",
        3,
        values["settings"]["kafka_bootstrap"],
    )
