"""What the chart `monitoring` gives Prometheus, Alertmanager and a Prometheus operator is what these take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from infra.components import kafka, monitoring, object_store, spark_operator
from infra.settings import SettingsError
from tests.charts import samples
from tests.charts.render import Rendered, environment, render
from tests.harness.alerts.rules import RULES
from tests.infra.platform import settings
from tests.unit.monitoring.promtool import read_rules, run

IMAGE = {"images": {"monitoring": "effectively-once-monitoring:0123456789ab"}}


def rendered(name: str = "monitoring-all") -> Rendered:
    return render("monitoring", samples.EACH[name][1].to_helm())


def written(folder: Path, objects: Rendered) -> Path:
    """Write the files that the pod of Prometheus mounts."""
    for name, text in objects.one("ConfigMap", "prometheus")["data"].items():
        (folder / name).write_text(text.replace("/etc/prometheus/", f"{folder}/"))
    return folder / "prometheus.yaml"


@pytest.mark.parametrize("name", ["monitoring", "monitoring-all"])
def test_prometheus_takes_its_configuration_with_the_rules(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, rendered(name))
    answer = run("promtool", "check", "config", path, folder=tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    number = (
        len(read_rules())
        if name == "monitoring-all"
        else len(_alerts(next(one for one in RULES if one.stem == "pipelines").read_text()))
    )
    assert answer.stdout.count("rules found") == len([*tmp_path.glob("rules-*.yaml")])
    assert sum(len(_alerts(one.read_text())) for one in tmp_path.glob("rules-*.yaml")) == number


def test_a_configuration_that_prometheus_does_not_take_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path, rendered())
    path.write_text(path.read_text().replace("action: keep", "action: kept", 1))
    assert run("promtool", "check", "config", path, folder=tmp_path).returncode != 0


def test_alertmanager_takes_its_configuration_and_that_of_a_secret_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        rendered("monitoring").one("ConfigMap", "alertmanager")["data"]["alertmanager.yaml"]
    )
    answer = run("amtool", "check-config", "own.yaml", folder=tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    inhibits = yaml.safe_load((tmp_path / "own.yaml").read_text())["inhibit_rules"]
    named = {name for rule in inhibits for one in rule["source_matchers"] for name in one.split('"')[1].split("|")}
    assert named <= set(read_rules())
    pod = dict(rendered().pods())["Deployment/alertmanager"]
    assert {"name": "config", "secret": {"secretName": "alerts"}} in pod["volumes"]


def test_only_rules_of_jobs_that_are_scraped_are_there_and_link_to_the_documentation() -> None:
    """A job that nobody scrapes would be told to be away for ever."""
    own = rendered("monitoring").one("ConfigMap", "prometheus")["data"]
    assert sorted(own) == ["prometheus.yaml", "rules-pipelines.yaml"]
    every = rendered()
    data = every.one("ConfigMap", "prometheus")["data"]
    jobs = {job["job_name"] for job in yaml.safe_load(data["prometheus.yaml"])["scrape_configs"]}
    assert jobs == {"drivers", "kafka", "minio", "spark-operator"}
    links = [rule["annotations"]["runbook_url"] for name in data if "rules" in name for rule in _alerts(data[name])]
    assert len(links) == len(read_rules())
    assert all(link.startswith("https://docs.example/docs/how-to/alerts.md#") for link in links)
    groups = every.one("PrometheusRule", "effectively-once")["spec"]["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == set(read_rules())


def test_monitors_and_our_prometheus_select_the_same_pods_and_give_the_same_labels() -> None:
    every = rendered()
    scraped = {
        job["job_name"]: job
        for job in yaml.safe_load(every.one("ConfigMap", "prometheus")["data"]["prometheus.yaml"])["scrape_configs"]
    }
    for name in ("drivers", "spark-operator"):
        monitor, (config,) = every.one("PodMonitor", name)["spec"], scraped[name]["kubernetes_sd_configs"]
        assert monitor["namespaceSelector"]["matchNames"] == config["namespaces"]["names"]
        selector = monitor["selector"]["matchLabels"]
        assert ",".join(f"{key}={value}" for key, value in selector.items()) == config["selectors"][0]["label"]
        (endpoint,) = monitor["podMetricsEndpoints"]
        given = {one["targetLabel"] for one in endpoint["relabelings"] if "targetLabel" in one}
        ours = {one["target_label"] for one in scraped[name]["relabel_configs"] if "target_label" in one}
        assert given - {"job"} == ours - {"pod"}
        assert endpoint.get("metricRelabelings") == scraped[name].get("metric_relabel_configs")


@pytest.mark.parametrize("told", ["effectively_once_pipeline", "effectively_once/pipeline"])
def test_the_operators_label_becomes_the_application_however_its_name_is_written(told: str) -> None:
    """A Prometheus that takes any name, as ours does, gets it with the slash; an older one has it escaped."""
    config = yaml.safe_load(rendered().one("ConfigMap", "prometheus")["data"]["prometheus.yaml"])
    (job,) = (one for one in config["scrape_configs"] if one["job_name"] == "spark-operator")
    named, dropped = job["metric_relabel_configs"]
    assert (named["action"], named["replacement"], dropped["action"]) == ("labelmap", "application", "labeldrop")
    assert all(re.fullmatch(one["regex"], told) for one in (named, dropped))


def test_prometheus_may_ask_for_pods_and_for_nothing_else() -> None:
    every = rendered()
    roles = every.of("Role")
    assert {one["metadata"]["namespace"] for one in roles} == {"pipelines", "more"}
    for one in roles:
        assert one["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]


def test_objects_for_an_operator_alone_bring_no_pod() -> None:
    values = {**samples.EACH["monitoring-all"][1].to_helm(), "server": False}
    kinds = {one["kind"] for one in render("monitoring", values)}
    assert kinds == {"PodMonitor", "PrometheusRule", "ConfigMap"}


def test_servers_tell_what_they_do_only_where_something_watches() -> None:
    for enabled in (False, True):
        wanted = settings(profile="ci", monitoring={"enabled": enabled}, **IMAGE)
        store, operator = object_store.values(wanted), spark_operator.values(wanted)
        assert store is not None
        assert operator is not None
        brokers = kafka.values(wanted)
        assert brokers is not None
        objects = render("kafka", brokers.to_helm())
        pod = dict(objects.pods())["StatefulSet/kafka"]
        assert (environment(pod).get("KAFKA_METRICS_PORT") == "9404") is enabled
        assert ("metrics.yaml" in objects.one("ConfigMap", "kafka")["data"]) is enabled
        assert (brokers.metrics == ("kafka-0.kafka-nodes:9404",)) is enabled
        pod = dict(render("minio", store.to_helm()).pods())["StatefulSet/minio"]
        assert ("MINIO_PROMETHEUS_AUTH_TYPE" in environment(pod)) is enabled
        (container,) = dict(render("spark-operator", operator.to_helm()).pods())["Deployment/spark-operator"][
            "containers"
        ]
        assert ("--metrics-bind-address=:8080" in container["args"]) is enabled
        assert ("--metrics-labels=effectively-once/pipeline" in container["args"]) is enabled
        assert (monitoring.values(wanted) is None) is not enabled


def test_an_image_that_nobody_built_is_asked_for() -> None:
    with pytest.raises(SettingsError, match="make images MONITORING=1"):
        settings(profile="ci", monitoring={"enabled": True})
    assert monitoring.values(settings(profile="ci", monitoring={"enabled": True, "operator_objects": True})) is not None


def test_what_is_not_ours_is_not_asked() -> None:
    store = {"endpoint": "https://s3.example", "credentials_secret": "own/keys"}
    wanted = settings(
        profile="production",
        monitoring={"enabled": True},
        object_store={"external": store},
        spark_operator={"installed": True},
        kafka={"external": "broker.example:9093"},
        **IMAGE,
    )
    values = monitoring.values(wanted)
    assert values is not None
    assert (values.object_store, values.operator, values.kafka) == (None, None, ())
    policies = values.network_policies
    assert (policies.object_store, policies.operator, policies.kafka) == (None, None, ())


def _alerts(text: str) -> list[dict[str, dict[str, str]]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
