"""The chart of a pipeline."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from effectively_once.driver import metrics
from effectively_once.pipeline.settings import load
from infra.values.network import PipelinePolicies
from infra.values.streaming_pipeline import EventLog, SecretEnvironment, SecretKey, Service
from tests.charts.render import Object, Rendered, environment
from tests.charts.samples import WHEEL, pipeline, with_database
from tests.charts.streaming_pipeline import application, job, objects


def pod(rendered: Rendered, role: str) -> Object:
    return dict(rendered.pods())[f"SparkApplication/user-counts/{role}"]


def test_settings_arrive_as_the_library_reads_them() -> None:
    """What the ConfigMap holds is loaded by the library's own strict loader, and equals what was given."""
    text = objects().one("ConfigMap", "user-counts-settings")["data"]["settings.json"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settings.json"
        path.write_text(text)
        assert load(path) == pipeline().settings


def test_what_a_job_declares_is_not_overwritten_by_defaults() -> None:
    """Settings that nobody set are not in the file, so that the declaration's stand."""
    text = objects().one("ConfigMap", "user-counts-settings")["data"]["settings.json"]
    assert {"window_ms", "lateness_ms", "semantics", "database"}.isdisjoint(json.loads(text))
    own = pipeline().settings.model_copy(update={"window_ms": 60_000})
    text = objects(settings=own).one("ConfigMap", "user-counts-settings")["data"]["settings.json"]
    assert json.loads(text)["window_ms"] == 60_000


def test_driver_is_told_command_and_settings() -> None:
    """The file that both name is mounted in driver and job."""
    rendered = objects()
    spec = application(rendered)["spec"]
    assert (spec["type"], spec["mode"]) == ("Python", "cluster")
    assert spec["mainApplicationFile"] == "local:///opt/effectively-once/job.py"
    assert spec["arguments"] == ["effectively_once", "run", "/etc/effectively-once/settings.json"]
    for one in (pod(rendered, "driver"), job(rendered)["spec"]["template"]["spec"]):
        mounts = {mount["mountPath"] for mount in one["containers"][0]["volumeMounts"]}
        assert "/etc/effectively-once" in mounts


def test_stream_is_started_again_whatever_its_end() -> None:
    """Also a driver that ended in order; the back-off grows by a second at a time."""
    policy = application(objects())["spec"]["restartPolicy"]
    assert policy == {"type": "Always", "onFailureRetryInterval": 1, "onSubmissionFailureRetryInterval": 1}


def test_nothing_needs_the_webhook() -> None:
    """The operator turns these fields into arguments of spark-submit; all else is in pod templates."""
    spec = application(objects(extra_files={"a.py": ""}))["spec"]
    common = {"cores", "coreRequest", "memory", "memoryOverhead", "serviceAccount", "javaOptions", "template"}
    assert set(spec["driver"]) == common
    assert set(spec["executor"]) == common | {"instances"}
    assert {"volumes", "nodeSelector", "monitoring"}.isdisjoint(spec)
    names = [spec[role]["template"]["spec"]["containers"][0]["name"] for role in ("driver", "executor")]
    assert names == ["spark-kubernetes-driver", "spark-kubernetes-executor"]


def test_credentials_are_referenced_and_never_in_conf() -> None:
    """Driver, executors and job take them from the Secret."""
    rendered = objects(credentials_secret="keys", event_log=EventLog(enabled=True))
    for _, one in rendered.pods():
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            assert environment(one)[key] == {"secretKeyRef": {"name": "keys", "key": key}}
    assert not [
        key for key in application(rendered)["spec"]["sparkConf"] if key.endswith((".access.key", ".secret.key"))
    ]
    with pytest.raises(ValidationError, match=r"fs\.s3a\.secret\.key"):
        pipeline(spark_conf={"spark.hadoop.fs.s3a.secret.key": "x"})


def test_tables_come_with_credentials_of_their_database() -> None:
    """In driver, executors and job; without tables nobody has them; an address without credentials is refused."""
    rendered = objects(settings=with_database(), database_secret="results")
    for _, one in rendered.pods():
        for key in ("PGUSER", "PGPASSWORD"):
            assert environment(one)[key] == {"secretKeyRef": {"name": "results", "key": key}}
    text = rendered.one("ConfigMap", "user-counts-settings")["data"]["settings.json"]
    assert json.loads(text)["database"] == "postgresql://postgres.platform:5432/results"
    assert not [one for _, one in objects().pods() if "PGPASSWORD" in environment(one)]
    for half in ({"settings": with_database()}, {"database_secret": "results"}):
        with pytest.raises(ValidationError, match="belong together"):
            pipeline(**half)


@pytest.mark.parametrize("announce", [True, False])
def test_environment_of_driver_and_executors(announce: bool) -> None:
    """Both know the wheel; both announce to the container's log when that is asked for."""
    rendered = objects(announce=announce)
    for role in ("driver", "executor"):
        found = environment(pod(rendered, role))
        assert found["EFFECTIVELY_ONCE_WHEEL_DIGEST"] == WHEEL
        assert found["EFFECTIVELY_ONCE_IMAGE"] == application(rendered)["spec"]["image"]
        assert found.get("EFFECTIVELY_ONCE_EVENTS") == ("/proc/1/fd/1" if announce else None)
        assert "PYTHONPATH" not in found


@pytest.mark.parametrize("port", [9404, 0])
def test_the_driver_alone_serves_metrics(port: int) -> None:
    """Where Prometheus' usual discovery finds them; 0 switches them off."""
    rendered = objects(metrics_port=port)
    spec = application(rendered)["spec"]
    told = {role: spec[role]["template"]["metadata"]["annotations"] for role in ("driver", "executor")}
    assert told["driver"].get("prometheus.io/port") == (str(port) if port else None)
    assert environment(pod(rendered, "driver")).get(metrics.VARIABLE) == (str(port) if port else None)
    assert "prometheus.io/scrape" not in told["executor"]
    assert metrics.VARIABLE not in environment(pod(rendered, "executor"))


def test_extra_files_come_first_on_the_path() -> None:
    """In driver, executors and job, before the image's own: a job may be declared there."""
    rendered = objects(extra_files={"control.py": "x = 1\n"})
    assert rendered.one("ConfigMap", "user-counts-extra")["data"] == {"control.py": "x = 1\n"}
    assert len(list(rendered.pods())) == 3
    for _, one in rendered.pods():
        mounts = {mount["mountPath"] for mount in one["containers"][0]["volumeMounts"]}
        assert "/opt/effectively-once/extra" in mounts
        assert environment(one)["PYTHONPATH"].split(":")[0] == "/opt/effectively-once/extra"
        assert extra_of(one) == {"name": "user-counts-extra", "items": [{"key": "control.py", "path": "control.py"}]}


def test_a_service_of_the_job_runs_beside_it_in_its_image() -> None:
    """With the program's settings and the pipeline's credentials; its Service finds its pods, and no driver."""
    given = {"settings": with_database(), "database_secret": "result-store"}
    rendered = objects(service=Service(module="my.presenter", port=8088, replicas=2), **given)
    name = "user-counts-service"
    deployment, service = (rendered.one(kind, name) for kind in ("Deployment", "Service"))
    pod_of_it = deployment["spec"]["template"]
    (container,) = pod_of_it["spec"]["containers"]
    assert container["image"] == pipeline().image
    assert container["command"][2:] == ["python3", "-m", "my.presenter"]
    assert container["args"] == ["--host=0.0.0.0", "--port=8088", "--settings=/etc/effectively-once/settings.json"]
    assert {"PGUSER", "PGPASSWORD"} <= {one["name"] for one in container["env"]}
    assert deployment["spec"]["replicas"] == 2
    labels = pod_of_it["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    driver = application(rendered)["spec"]["driver"]["template"]["metadata"]["labels"]
    assert not service["spec"]["selector"].items() <= driver.items()
    assert not objects().of("Deployment"), "without it nothing of it is there"


def test_who_makes_topics_reads_the_programs_settings_too() -> None:
    """What a job needs beside its sinks may hang on a setting of its own; without any there is one file."""
    (container,) = job(objects(job_settings={"operators": 4}))["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["/etc/effectively-once/create.json", "--whole=/etc/effectively-once/settings.json"]
    plain = objects()
    assert list(plain.one("ConfigMap", "user-counts-settings")["data"]) == ["settings.json"]
    (container,) = job(plain)["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "/etc/effectively-once/settings.json"
    assert not any(word.startswith("--whole") for word in container["args"])


def test_dots_in_the_name_of_an_extra_file_are_folders() -> None:
    rendered = objects(extra_files={"tests.experiments.reconcile.plain_job.py": "", "a.b.json": ""})
    for _, one in rendered.pods():
        told = {item["key"]: item["path"] for item in extra_of(one)["items"]}
        assert told == {
            "tests.experiments.reconcile.plain_job.py": "tests/experiments/reconcile/plain_job.py",
            "a.b.json": "a/b.json",
        }


def extra_of(one: dict[str, Any]) -> dict[str, Any]:
    """The ConfigMap of a pod's extra files."""
    (found,) = (volume["configMap"] for volume in one["volumes"] if volume["name"] == "extra")
    return dict(found)


def test_variables_of_a_job_reach_driver_and_executors() -> None:
    """Beside what the chart sets itself, of which none can be taken."""
    rendered = objects(environment={"PAYMENTS_URL": "http://payments:8080", "TRIES": "3"})
    for role in ("driver", "executor"):
        told = environment(pod(rendered, role))
        assert (told["PAYMENTS_URL"], told["TRIES"]) == ("http://payments:8080", "3")
    for taken in ("AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "EFFECTIVELY_ONCE_IMAGE", "PYTHONPATH"):
        with pytest.raises(ValidationError, match=f"{taken}.*set already"):
            objects(environment={taken: "x"})
    with pytest.raises(ValidationError, match="environment"):
        objects(environment={"no-name": "x"})


def test_secret_variables_are_referenced_and_a_new_value_starts_the_application_anew() -> None:
    """Driver and executors take them from the pipeline's own Secret, beside plain ones."""

    def rendered(version: str) -> Rendered:
        own = SecretEnvironment(secret="user-counts-environment", variables=("GEO_KEY", "GEO_TOKEN"), version=version)
        return objects(environment={"GEO_URL": "http://geo"}, secret_environment=own)

    first, later = rendered("ab" * 8), rendered("cd" * 8)
    for role in ("driver", "executor"):
        told = environment(pod(first, role))
        assert told["GEO_URL"] == "http://geo"
        for key in ("GEO_KEY", "GEO_TOKEN"):
            assert told[key] == {"secretKeyRef": {"name": "user-counts-environment", "key": key}}
    assert application(first)["spec"] != application(later)["spec"]
    assert job(first)["metadata"]["name"] == job(later)["metadata"]["name"]
    with pytest.raises(ValidationError, match=r"AWS_SECRET_ACCESS_KEY.*set already"):
        objects(
            secret_environment=SecretEnvironment(secret="x", variables=("AWS_SECRET_ACCESS_KEY",), version="ab" * 8)
        )


def test_secrets_of_others_are_referenced_and_nothing_else_tells_of_them() -> None:
    """A Secret of many names serves, also one that YAML would take for a number; the job that makes topics has none."""
    given = {"GEO_TOKEN": SecretKey(secret="geo.team", key="token.v1"), "PIN": SecretKey(secret="42", key="7")}
    rendered = objects(environment={"GEO_URL": "http://geo"}, secrets=given)
    for role in ("driver", "executor"):
        told = environment(pod(rendered, role))
        assert told["GEO_URL"] == "http://geo"
        assert told["GEO_TOKEN"] == {"secretKeyRef": {"name": "geo.team", "key": "token.v1"}}
        assert told["PIN"] == {"secretKeyRef": {"name": "42", "key": "7"}}
    assert "GEO_TOKEN" not in environment(job(rendered)["spec"]["template"]["spec"])
    assert application(rendered)["spec"] != application(objects(environment={"GEO_URL": "http://geo"}))["spec"]


def test_a_variable_has_one_origin() -> None:
    one = SecretKey(secret="geo", key="token")
    own = SecretEnvironment(secret="user-counts-environment", variables=("B",), version="ab" * 8)
    for name in ("A", "B"):
        with pytest.raises(ValidationError, match=f"secrets holds '{name}', and environment too"):
            objects(environment={"A": "x"}, secret_environment=own, secrets={name: one})
    with pytest.raises(ValidationError, match=r"secrets holds 'AWS_SECRET_ACCESS_KEY', which is set already"):
        objects(secrets={"AWS_SECRET_ACCESS_KEY": one})
    with pytest.raises(ValidationError, match="no-name"):
        objects(secrets={"no-name": one})


def test_settings_of_a_program_are_in_its_file_and_not_in_the_one_of_the_library() -> None:
    """The job that makes topics and tables refuses what it does not know."""
    rendered = objects(module="my.program", job_settings={"semantics": "at_most_once", "tries": 3, "pace": 0.5})
    files = {name: json.loads(text) for name, text in rendered.one("ConfigMap", "user-counts-settings")["data"].items()}
    own = files["settings.json"]
    assert (own["semantics"], own["tries"], own["pace"]) == ("at_most_once", 3, 0.5)
    assert isinstance(own["tries"], int)
    assert files["create.json"] == {key: own[key] for key in own.keys() - {"semantics", "tries", "pace"}}
    spec = application(rendered)["spec"]
    assert spec["arguments"] == ["my.program", "/etc/effectively-once/settings.json"], "in the declared job's place"


def test_given_conf_wins_and_reaches_the_session() -> None:
    """The library's quick-start settings come after submitted ones: the variable has the last word."""
    rendered = objects(
        spark_conf={"spark.network.timeout": "60s", "spark.kubernetes.executor.apiPollingInterval": "1s"}
    )
    conf = application(rendered)["spec"]["sparkConf"]
    assert conf["spark.kubernetes.executor.apiPollingInterval"] == "1s"
    assert conf["spark.kubernetes.executor.missingPodDetectDelta"] == "10s"
    session = json.loads(environment(pod(rendered, "driver"))["EFFECTIVELY_ONCE_SPARK_CONF"])
    assert session["spark.network.timeout"] == "60s"
    assert session["spark.ui.enabled"] == "true"
    assert session["spark.driver.extraClassPath"] == conf["spark.driver.extraClassPath"], "declarations pin its jars"


def test_policies_open_the_ports_that_spark_is_told() -> None:
    """Those of executors are any by default, which no policy could name."""
    own = {"spark.driver.port": "7001", "spark.driver.blockManager.port": "7002", "spark.blockManager.port": "7003"}
    for conf, expected in (({}, [(7078, 7079), (7079,)]), (own, [(7001, 7002), (7003,)])):
        rendered = objects(spark_conf=conf)
        told = application(rendered)["spec"]["sparkConf"]
        assert (int(told["spark.driver.port"]), int(told["spark.blockManager.port"])) == (expected[0][0], *expected[1])
        for role, ports in zip(("driver", "executor"), expected, strict=True):
            rule = rendered.one("NetworkPolicy", f"user-counts-{role}")["spec"]["ingress"][0]
            assert tuple(one["port"] for one in rule["ports"]) == ports
    for wrong in ("0", "any", "70000"):
        with pytest.raises(ValidationError, match=f"spark.blockManager.port: a port .* got '{wrong}'"):
            objects(spark_conf={"spark.blockManager.port": wrong})


def test_without_policies_spark_makes_none_either() -> None:
    step = "spark.kubernetes.driver.pod.excludedFeatureSteps"
    assert step not in application(objects())["spec"]["sparkConf"]
    rendered = objects(network_policies=PipelinePolicies(enabled=False))
    assert application(rendered)["spec"]["sparkConf"][step].endswith(".NetworkPolicyFeatureStep")
    assert not rendered.of("NetworkPolicy")


def test_conf_holds_text_alone() -> None:
    """The custom resource takes no numbers and no booleans there."""
    conf = application(objects(event_log=EventLog(enabled=True)))["spec"]["sparkConf"]
    assert {type(value) for value in conf.values()} == {str}
