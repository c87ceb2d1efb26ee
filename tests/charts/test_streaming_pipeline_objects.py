"""The objects around a pipeline: the job that makes its bucket and topics, rights, and what Pulumi waits for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from effectively_once.__main__ import parser
from infra.values.streaming_pipeline import Backup, EventLog, Source
from tests.charts.render import NAMESPACE, render
from tests.charts.samples import pipeline
from tests.charts.streaming_pipeline import application, job, objects


@pytest.mark.parametrize(("bucket", "expected"), [(None, "pipelines"), ("logs", "logs")])
def test_event_log(bucket: str | None, expected: str) -> None:
    """It is written where the history server looks, and the job makes the place."""
    rendered = objects(event_log=EventLog(enabled=True, bucket=bucket))
    conf = application(rendered)["spec"]["sparkConf"]
    assert conf["spark.eventLog.dir"] == f"s3a://{expected}/spark-events"
    assert conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert f"--event-log-bucket={expected}" in job(rendered)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "spark.eventLog.enabled" not in application(objects())["spec"]["sparkConf"]


def test_job_makes_what_is_asked_for() -> None:
    """The source when it is to be made, sinks always, with the copies that are asked for."""
    args = job(objects(source=Source(partitions=6, replication=3)))["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--source-partitions=6", "--replication=3"} <= set(args)
    args = job(objects(source=Source(create=False)))["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not [one for one in args if one.startswith("--source-partitions")]


def test_job_runs_again_only_for_something_else() -> None:
    """Its name follows from what it makes: the driver's memory, say, is none of its business.

    Another image may hold another declaration, with other sinks.
    """

    def name(**changes: Any) -> str:
        return str(job(objects(**changes))["metadata"]["name"])

    assert name() == name(announce=True) == name(wheel_digest="cd" * 32)
    other = pipeline().settings.model_copy(update={"shards": 4})
    image = "registry.example/effectively-once-job-clicks:4567"
    assert len({name(), name(settings=other), name(source=Source(partitions=8)), name(image=image)}) == 4
    assert job(objects(image=image))["spec"]["template"]["spec"]["containers"][0]["image"] == image
    assert "ttlSecondsAfterFinished" not in job(objects())["spec"]


def test_backups_are_taken_one_after_the_other_with_what_the_pipeline_may_read() -> None:
    """Nobody but the pod that takes them sees their place; without a schedule there are none."""
    rendered = objects(backup=Backup(schedule="17 3 * * *", place="s3://copies/clicks", keep=3))
    made = rendered.of("CronJob")[0]["spec"]
    assert (made["schedule"], made["timeZone"], made["concurrencyPolicy"]) == ("17 3 * * *", "Etc/UTC", "Forbid")
    pod = made["jobTemplate"]["spec"]["template"]["spec"]
    container, creates = pod["containers"][0], job(rendered)["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][-2:] == ["effectively_once", "backup"]
    assert container["args"] == ["/etc/effectively-once/settings.json", "s3://copies/clicks", "--keep=3"]
    assert (container["env"], container["image"]) == (creates["env"], creates["image"])
    assert parser().parse_args(["backup", *container["args"]]).keep == 3
    rendered = objects(backup=Backup(schedule="17 3 * * *", place="s3://copies/clicks", topics=True))
    pod = rendered.of("CronJob")[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    asked = parser().parse_args(["backup", *pod["containers"][0]["args"]])
    assert (asked.keep, asked.topics) == (7, True)
    assert objects().of("CronJob") == []


def test_changed_settings_change_the_application() -> None:
    """So the operator starts it anew; the same settings do not."""
    spec = application(objects())["spec"]
    other = pipeline().settings.model_copy(update={"epoch_rows_max": 10_000})
    assert spec == application(objects())["spec"] != application(objects(settings=other))["spec"]


def test_pulumi_waits_for_job_and_driver() -> None:
    """A suspended pipeline never runs, so nobody waits for it."""
    running, suspended = objects(), objects(suspend=True)
    annotations = application(running)["metadata"]["annotations"]
    assert annotations["pulumi.com/waitFor"] == "jsonpath={.status.applicationState.state}=RUNNING"
    name = job(running)["metadata"]["name"]
    assert annotations["config.kubernetes.io/depends-on"] == f"batch/namespaces/{NAMESPACE}/Job/{name}"
    assert "pulumi.com/waitFor" not in application(suspended)["metadata"]["annotations"]
    assert application(suspended)["spec"]["suspend"] is True


def test_a_driver_that_is_replaced_keeps_its_executors_while_it_finishes_its_epoch() -> None:
    """A foreground deletion is handed on to the driver's pod, and from there to executors: they would go at once."""
    made = application(objects(driver_grace_s=90))
    assert made["metadata"]["annotations"]["pulumi.com/deletionPropagationPolicy"] == "background"
    driver, executor = (made["spec"][role]["template"]["spec"] for role in ("driver", "executor"))
    assert (driver["terminationGracePeriodSeconds"], executor["terminationGracePeriodSeconds"]) == (90, 5)


def test_driver_may_make_executors_and_no_more() -> None:
    """Pods of its own namespace, by what Spark 4.2 calls; all else that it would make or delete is switched off."""
    rendered = objects()
    verbs = ["get", "list", "watch", "create", "delete", "deletecollection"]
    assert rendered.one("Role", "user-counts")["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    conf = application(rendered)["spec"]["sparkConf"]
    assert conf["spark.kubernetes.executor.disableConfigMap"] == "true"
    assert conf["spark.kubernetes.driver.service.deleteOnTermination"] == "false"
    assert conf["spark.kubernetes.executor.deleteOnTermination"] == "true"
    assert conf["spark.kubernetes.driver.ownPersistentVolumeClaim"] == "false"
    assert conf["spark.kubernetes.driver.reusePersistentVolumeClaim"] == "false"
    binding = rendered.one("RoleBinding", "user-counts")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "user-counts", "namespace": NAMESPACE}]
    assert application(rendered)["spec"]["driver"]["serviceAccount"] == "user-counts"


def test_executors_that_are_left_for_a_post_mortem_are_labelled_by_their_driver() -> None:
    rendered = objects(spark_conf={"spark.kubernetes.executor.deleteOnTermination": "false"})
    (rule,) = rendered.one("Role", "user-counts")["rules"]
    assert rule["verbs"] == ["get", "list", "watch", "create", "delete", "deletecollection", "patch"]


def test_two_pipelines_share_no_object() -> None:
    """Two releases in one namespace have no name in common."""
    one, other = objects(), render("streaming-pipeline", pipeline(name="fraud").to_helm(), "fraud")
    assert set(one.names()).isdisjoint(other.names())
    labels = other.one("SparkApplication", "fraud")["metadata"]["labels"]
    assert labels["effectively-once/pipeline"] == "fraud"


def test_a_standby_is_a_second_application_alike_but_for_its_name() -> None:
    """Whichever works, the other waits: so nothing may tell the operator, or a driver, which is the first."""
    given = pipeline().settings.model_copy(update={"standby": True})
    rendered = objects(settings=given)
    names = [one["metadata"]["name"] for one in rendered.of("SparkApplication")]
    assert names == ["user-counts", "user-counts-standby"]
    one, other = rendered.of("SparkApplication")
    assert other == {**one, "metadata": {**one["metadata"], "name": "user-counts-standby"}}
    assert len(rendered.of("ServiceAccount")) == len(rendered.of("ConfigMap")) == 1
    (settings,) = rendered.of("ConfigMap")
    assert json.loads(settings["data"]["settings.json"])["standby"] is True


def test_the_drivers_of_a_pipeline_with_a_standby_keep_off_each_others_nodes() -> None:
    """Their executors may be anywhere, and a cluster of one node takes both."""
    given = pipeline().settings.model_copy(update={"standby": True})
    spec = objects(settings=given).of("SparkApplication")[0]["spec"]
    (rule,) = spec["driver"]["template"]["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = spec["driver"]["template"]["metadata"]["labels"]
    wanted = rule["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert wanted.pop("spark-role") == "driver"
    assert wanted.items() <= labels.items()
    assert wanted["effectively-once/pipeline"] == "user-counts"
    assert "affinity" not in spec["executor"]["template"]["spec"]


def test_without_a_standby_there_is_one_application_and_its_driver_may_be_anywhere() -> None:
    (one,) = objects().of("SparkApplication")
    assert "affinity" not in one["spec"]["driver"]["template"]["spec"]
