"""The object store shows a certificate of our authority; each pipeline has keys of its own, for its own folders."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from effectively_once.ledger.layout import Layout
from effectively_once.operate.create.bucket import EVENT_LOG
from effectively_once.operate.grant_objects import Grants
from infra.components import object_security
from tests.charts.render import environment, mounted, render, secret_at
from tests.infra.platform import IMAGES, PLAIN, Deployed, deploy_once, settings

PIPELINES = {
    "user_counts": {"backup": {"schedule": "@daily"}},
    "clicks": {
        "job": "own.clicks",
        "bucket": "clicks-lake",
        "backup": {"schedule": "@daily", "place": "s3://copies/clicks"},
    },
}
BUCKET = PLATFORM = "effectively-once"
NAMESPACE = "effectively-once-pipelines"


def made(**security: Any) -> Deployed:
    wanted = settings(profile="production", security={**PLAIN, "object_store": True, **security}, pipelines=PIPELINES)
    return deploy_once(wanted)


def keys(one: Deployed, name: str) -> tuple[str, str]:
    found = one.secret(f"{name}-object-store")
    assert set(found) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    return found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"]


def test_both_sides_have_the_same_keys_and_every_pipeline_others() -> None:
    one = made()
    users = one.secret("minio-users-0")
    assert dict(keys(one, name) for name in ("user-counts", "clicks", "history-server")) == users
    assert len({*users.values()}) == len(users) == 3


def test_no_pod_of_a_pipeline_is_given_the_owners_keys() -> None:
    """They are copied to where no pipeline runs; without it they are where all pipelines are."""
    owner = {"minio-root", "object-store-credentials-effectively-once"}
    for one, inside in ((made(), False), (deploy_once(settings(pipelines=PIPELINES, security=PLAIN)), True)):
        secrets = one.engine.of("Secret")
        told = {name for name, each in secrets.items() if "rootPassword" in str(each.inputs) or name in owner}
        assert {secrets[name].inputs["metadata"]["namespace"] for name in told} == {"effectively-once"}
        assert ("object-store-credentials-effectively-once-pipelines" in secrets) is inside
    one = made()
    assert one.platform["object_store"]["secret_namespace"] == "effectively-once"
    for name in ("user-counts", "clicks"):
        rendered = render("streaming-pipeline", one.values(name), name)
        assert "object-store-credentials" not in str(rendered.objects)
        pods = [rendered.one("SparkApplication", name)["spec"][role]["template"] for role in ("driver", "executor")]
        for pod in pods:
            for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                found = environment(pod["spec"])[variable]
                assert found == {"secretKeyRef": {"name": f"{name}-object-store", "key": variable}}


def test_a_pipeline_has_what_is_below_its_identity_and_its_event_logs() -> None:
    wanted = settings(profile="production", security={"object_store": True}, pipelines=PIPELINES)
    told = object_security.values(wanted)
    assert told is not None
    rights = {name: {(one.bucket, one.folder) for one in each} for name, each in told.policies.items()}
    assert rights == {
        "user_counts": {
            (BUCKET, "user_counts/"),
            (BUCKET, "backups/user_counts/"),
            (BUCKET, "spark-events/user-counts/"),
        },
        "clicks": {("clicks-lake", "clicks/"), ("copies", "clicks/"), (BUCKET, "spark-events/clicks/")},
        "history-server": {(BUCKET, EVENT_LOG)},
    }
    assert Layout("user_counts").head.startswith("user_counts/")
    without = wanted.model_copy(update={"history_server": wanted.history_server.model_copy(update={"enabled": False})})
    told = object_security.values(without)
    assert told is not None
    assert {folder.folder for one in told.policies.values() for folder in one} == {
        "user_counts/",
        "backups/user_counts/",
        "clicks/",
    }
    assert told.folders == ()


def test_event_logs_are_written_and_read_where_their_pipeline_may() -> None:
    charts = made().engine.of("Chart")
    folders = []
    for name in ("user-counts", "clicks"):
        rendered = render("streaming-pipeline", charts[name].inputs["values"], name)
        conf = rendered.one("SparkApplication", name)["spec"]["sparkConf"]
        folders.append(conf["spark.eventLog.dir"])
        create = str([pod for kind, pod in rendered.pods() if kind.startswith("Job/")])
        assert f"--event-log-folder=spark-events/{name}/" in create
    assert folders == [f"s3a://{BUCKET}/spark-events/{name}" for name in ("user-counts", "clicks")]
    history = render("history-server", charts["history-server"].inputs["values"])
    (pod,) = dict(history.pods()).values()
    options = environment(pod)["SPARK_HISTORY_OPTS"].split()
    assert f"-Dspark.history.fs.logDirectory={','.join(folders)}" in options
    made_ahead = charts["minio"].inputs["values"]["security"]["folders"]
    assert {f"s3a://{one['bucket']}/{one['folder']}".removesuffix("/") for one in made_ahead} >= {*folders}


def test_keys_of_before_open_the_store_until_the_next_ones_are_renewed() -> None:
    """Pods have them until they are started anew; so no epoch is interrupted."""
    names = ("clicks", "history-server", "user_counts")
    for number in range(3):
        one = made(rotation=number)
        found = one.secret(f"minio-users-{number}")
        kept = [each for each in (number - 1, number) if each >= 0]
        assert set(found) == {f"{name}-{each}" for name in names for each in kept}
        assert len({*found.values()}) == len(found)
        assert keys(one, "clicks") == (f"clicks-{number}", found[f"clicks-{number}"])
        granted = Grants.model_validate({"endpoint": "http://m:1", **_granted(one)})
        assert set(granted.users) == set(found)


def test_every_client_believes_the_authority_by_what_it_mounts() -> None:
    one = made()
    charts = [("streaming-pipeline", "clicks"), ("streaming-pipeline", "user-counts"), ("history-server",) * 2]
    for chart, name in charts:
        for what, pod in render(chart, one.values(name), name).pods():
            assert secret_at(pod, environment(pod)["AWS_CA_BUNDLE"]) == ("object-store-certificates", "ca.crt"), what
    assert one.values("clicks")["settings"]["s3_endpoint"].startswith("https://minio.")
    (server,) = [name for name in one.engine.of("Secret") if name.startswith("minio-tls")]
    copies = [one.secret(f"object-store-certificates-{name}") for name in ("effectively-once", NAMESPACE)]
    assert copies == [{"ca.crt": one.secret(server)["ca.crt"]}] * 2, "and no key of the server is where pipelines are"


def test_prometheus_believes_the_authority_too() -> None:
    for security, scheme in ((True, "https"), (False, None)):
        wanted = settings(
            profile="production",
            security={"object_store": security},
            images={**IMAGES, "monitoring": IMAGES["spark"]},
            monitoring={"enabled": True},
        )
        rendered = render("monitoring", deploy_once(wanted).values("monitoring"))
        told = yaml.safe_load(rendered.one("ConfigMap", "prometheus")["data"]["prometheus.yaml"])
        (job,) = [each for each in told["scrape_configs"] if each["job_name"] == "minio"]
        assert job.get("scheme") == scheme
        pod = rendered.one("StatefulSet", "prometheus")["spec"]["template"]["spec"]
        assert (job.get("tls_config", {}).get("ca_file", "/").rpartition("/")[0] in mounted(pod)) is security


def test_the_certificate_is_for_every_name_that_clients_and_nodes_use(tmp_path: Path) -> None:
    outside = {"object_store": {"by": "LoadBalancer", "host": "s3.example"}, "console": {"by": "NodePort"}}
    wanted = settings(
        profile="production", security={"object_store": True}, external_access=outside, pipelines=PIPELINES
    )
    one = deploy_once(wanted)
    store = one.values("minio")["security"]
    server = one.secret(store["tlsSecret"])
    for name in ("tls.crt", "ca.crt"):
        (tmp_path / name).write_text(server[name])
    told = one.platform["object_store"]
    addresses = [told[name] for name in ("endpoint", "external_endpoint", "external_console")]
    assert {address.partition("://")[0] for address in addresses} == {"https"}
    (container,) = dict(render("minio", one.values("minio"), "minio", PLATFORM).pods())["StatefulSet/minio"][
        "containers"
    ]
    addresses += [container["args"][1].replace("{0...3}", "3"), "https://localhost:9000"]
    hosts = [str(urlsplit(address).hostname) for address in addresses]
    assert {"s3.example", "127.0.0.1"} < {*hosts}
    for host, answer in (*((each, 0) for each in hosts), ("minio.elsewhere.svc", 2)):
        by = "-verify_ip" if host[0].isdigit() else "-verify_hostname"
        words = ["openssl", "verify", "-CAfile", "ca.crt", "-purpose", "sslserver", by, host, "tls.crt"]
        ended = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
        assert ended.returncode == answer, (host, ended)
    assert one.engine.of("Secret")[store["tlsSecret"]].ignore_changes == ("data",), "it survives later updates"
    assert store["tlsSecret"] != made().values("minio")["security"]["tlsSecret"], "other names, another certificate"


def _granted(one: Deployed) -> dict[str, Any]:
    told = one.values("minio")["security"]
    return {name: told[name] for name in ("policies", "users", "folders")}


def test_renewed_keys_start_every_pod_anew_that_has_them() -> None:
    wanted = {"clicks": {"job": "own.clicks", "service": {"module": "own.answers"}}}
    found = []
    for number in (0, 1):
        told = settings(profile="production", security={"object_store": True, "rotation": number}, pipelines=wanted)
        charts = deploy_once(told).engine.of("Chart")
        pipeline = render("streaming-pipeline", charts["clicks"].inputs["values"], "clicks")
        spec = pipeline.one("SparkApplication", "clicks")["spec"]
        (service,) = pipeline.of("Deployment")
        (history,) = render("history-server", charts["history-server"].inputs["values"]).of("Deployment")
        templates = [spec["driver"]["template"], spec["executor"]["template"]]
        templates += [one["spec"]["template"] for one in (service, history)]
        found.append([one["metadata"] for one in templates])
    assert all(before != after for before, after in zip(*found, strict=True))
