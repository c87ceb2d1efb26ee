"""Driver and executors of a pipeline know each other by a secret of its own, which is a file and nowhere else."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from infra.components.derived import derive
from tests.charts.render import Rendered, mounted, render
from tests.infra.platform import PLAIN, Deployed, deploy_once, settings

PIPELINES = {"user_counts": {}, "clicks": {"job": "own.clicks"}}
NAMES = ("user-counts", "clicks")
ROOT = base64.b64encode(b"root").decode()


@pytest.fixture
def made() -> Deployed:
    return deploy_once(settings(security={**PLAIN, "spark": True}, pipelines=PIPELINES))


def rendered(made: Deployed, name: str = "user-counts") -> Rendered:
    return render("streaming-pipeline", made.values(name), name)


def application(made: Deployed) -> dict[str, Any]:
    spec: dict[str, Any] = rendered(made).one("SparkApplication", "user-counts")["spec"]
    return spec


def test_each_pipeline_has_its_own_and_waits_for_it(made: Deployed) -> None:
    secrets = made.engine.of("Secret")
    data = [secrets[f"{name}-spark"].inputs["data"] for name in NAMES]
    assert all(set(each) == {"rpc", "page"} for each in data)
    assert len({value for each in data for value in each.values()}) == 4
    assert "user-counts-spark" in made.engine.below(made.engine.of("Chart")["user-counts"])
    assert secrets["platform-root"].ignore_changes == ("data",)


def test_both_sides_read_it_from_a_file_and_encrypt_what_they_say(made: Deployed) -> None:
    spec = application(made)
    conf = spec["sparkConf"]
    assert (conf["spark.authenticate"], conf["spark.network.crypto.enabled"]) == ("true", "true")
    assert conf["spark.network.crypto.saslFallback"] == "false", "else who asks for less gets less"
    folder, _, file = conf["spark.authenticate.secret.file"].rpartition("/")
    page = conf["spark.org.effectivelyonce.ui.PasswordFilter.param.file"]
    assert (file, page) == ("rpc", f"{folder}/page")
    for role in ("driver", "executor"):
        pod = spec[role]["template"]["spec"]
        assert mounted(pod)[folder]["secret"]["secretName"] == "user-counts-spark"


def test_the_jobs_other_pods_do_not_have_it(made: Deployed) -> None:
    for name, pod in rendered(made).pods():
        if not name.startswith("SparkApplication/"):
            assert "user-counts-spark" not in str(pod), name


def test_a_raised_number_gives_other_secrets_and_starts_pipelines_anew(made: Deployed) -> None:
    raised = application(deploy_once(settings(security={**PLAIN, "spark": True, "rotation": 1}, pipelines=PIPELINES)))
    for role in ("driver", "executor"):
        assert raised[role]["template"]["metadata"] != application(made)[role]["template"]["metadata"]
    assert derive(ROOT, "a", 1) != derive(ROOT, "a", 0) == derive(ROOT, "a", 0)


def test_derived_secrets_are_long_and_tell_nothing_of_each_other() -> None:
    purposes = ["a", "b", "a/1", "a\n1", ""]
    drawn = {derive(root, purpose, number) for root in (ROOT, "AAAA") for purpose in purposes for number in (0, 1, 10)}
    assert len(drawn) == len(purposes) * 6
    assert {len(one) for one in drawn} == {32}
