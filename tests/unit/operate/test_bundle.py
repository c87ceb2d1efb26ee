"""`make bundle`: what is in it, and that nothing secret is."""

from __future__ import annotations

import base64
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cluster.access import Access
from infra.cluster.api import ApiError, UnreachableError
from infra.cluster.platform import NoStackError
from infra.operate.bundle import Bundle, BundleError, bundle, settings_without_secrets, summarise_state
from infra.operate.redact import Redactor
from tests.unit.operate.cluster import (
    BORN,
    PASSWORD,
    PIPELINES,
    PLATFORM,
    Cluster,
    access,
    container,
    event,
    exited,
    pod,
    secret,
    spark,
)

AT = datetime(2026, 11, 20, 20, 0, 5, tzinfo=UTC)
DRIVER_KEY = ("user-counts-driver", "spark-kubernetes-driver", False)
STATE = {
    "deployment": {
        "manifest": {"time": BORN, "version": "v3.259.0", "magic": "x"},
        "secrets_providers": {"type": "passphrase", "state": {"salt": "v1:salty-salt"}},
        "resources": [
            {
                "urn": "urn:a",
                "type": "kubernetes:core/v1:Secret",
                "id": "ns/s",
                "modified": BORN,
                "parent": "urn:stack",
                "inputs": {"data": {"password": {"ciphertext": "CIPHER-ABC"}}},
                "outputs": {"data": {"x": "CIPHER-ABC"}},
            },
        ],
        "pending_operations": [{"type": "creating", "resource": {"urn": "urn:b", "inputs": {"data": "CIPHER-ABC"}}}],
    }
}
CONFIG = {
    "effectively-once:profile": {"value": "laptop", "secret": False},
    "effectively-once:kafka": {"value": '{"nodes":1}', "objectValue": {"nodes": 1}, "secret": False},
    "effectively-once:token": {"value": "config-secret-1", "secret": True},
}


def _made(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, str]]:
    def pulumi(_: Access, *words: str) -> str:
        return json.dumps({("stack", "export"): STATE, ("config", "--json"): CONFIG}[words[0], words[1]])

    monkeypatch.setattr(Access, "pulumi", pulumi)
    said: list[str] = []
    path = bundle(access(cluster), tmp_path / "runs", said.append, AT)
    assert len(said) == 1
    assert said[0].startswith(f"{path} (")
    return path, _read(path)


def _read(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        files = {}
        for one in archive.getmembers():
            opened = archive.extractfile(one)
            assert opened is not None
            files[one.name.split("/", 1)[1]] = opened.read().decode()
        return files


def test_it_holds_events_objects_logs_nodes_state_settings_and_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster().ready()
    broken = container("kafka", restartCount=1, lastState=exited(137))
    cluster.put_pod(pod("kafka-0", PLATFORM, {}, broken))
    cluster.logs |= {("kafka-0", "kafka", False): "now\n", ("kafka-0", "kafka", True): "before the restart\n"}
    cluster.put_event(event("Pod", "kafka-0", PLATFORM, "BackOff", "restarting\nfailed container"))
    path, files = _made(cluster, tmp_path, monkeypatch)
    assert path.name == "bundle-20261120-200005.tar.gz"
    assert path.stat().st_mode & 0o077 == 0
    assert files[f"logs/{PLATFORM}/kafka-0/kafka.log"] == "now\n"
    assert files[f"logs/{PLATFORM}/kafka-0/kafka.previous.log"] == "before the restart\n"
    assert f"logs/{PLATFORM}/minio-0/minio.previous.log" not in files
    assert "Pod/kafka-0 BackOff: restarting failed container" in files[f"events/{PLATFORM}.txt"]
    assert yaml.safe_load(files["objects/cluster/nodes/node-1.yaml"])["status"]["conditions"]
    assert f"objects/{PIPELINES}/sparkapplications/user-counts.yaml" in files
    assert yaml.safe_load(files["settings/stack.yaml"])["effectively-once:kafka"] == {"nodes": 1}
    assert yaml.safe_load(files["settings/platform.yaml"])["object_store"]["secret"] == "object-store-credentials"
    versions = yaml.safe_load(files["versions.yaml"])
    assert versions["cluster"] == {"gitVersion": "v1.36.3"}
    assert "spark" in versions["pinned"]
    assert "pipeline user-counts" in files["status.txt"]
    state = yaml.safe_load(files["pulumi/state.yaml"])
    assert state["resources"][0]["urn"] == "urn:a"
    assert state["pending_operations"] == [{"type": "creating", "urn": "urn:b"}]
    # Logs that are missing here are noted one by one.
    assert "minio-0" in files["problems.txt"]


PLANTED = "planted-S3cret-value"


def test_a_planted_secret_is_nowhere_in_it_whatever_way_it_would_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster().ready()
    encoded = base64.b64encode(PLANTED.encode()).decode()
    held = secret("planted", PIPELINES, value=PLANTED, username="somebody")
    held["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"data": encoded})
    }
    cluster.put_secret(held)
    driver = pod("user-counts-driver", PIPELINES, spark("driver"), container("spark-kubernetes-driver"))
    driver["metadata"]["annotations"] = {"note": f"base64 {encoded}"}
    driver["metadata"]["managedFields"] = [{"fieldsV1": {}}]
    driver["spec"]["containers"][0]["env"] = [
        {"name": "AWS_SECRET_ACCESS_KEY", "value": "only-in-env-1"},
        {"name": "DB_PASSWORD", "value": "only-in-env-2"},
        {"name": "GITHUB_TOKEN", "value": "only-in-env-3"},
        {"name": "JAVA_OPTS", "value": f"-Dx.password=only-in-env-4 -Dy={PLANTED}"},
        {"name": "PLAIN", "value": "kept-as-it-is"},
        {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "planted", "key": "value"}}},
    ]
    driver["spec"]["containers"][0]["args"] = ["--conf", "spark.hadoop.fs.s3a.secret.key=only-in-args"]
    cluster.put_pod(driver)
    config = {"metadata": {"name": "settings"}, "data": {"app.properties": "db.password: 'only in config'\nsafe=1\n"}}
    cluster.put(f"/api/v1/namespaces/{PIPELINES}/configmaps", config)
    cluster.put_event(event("Pod", "x", PIPELINES, "Failed", f"could not log in with {PLANTED}"))
    cluster.logs[DRIVER_KEY] = (
        f"store said {PASSWORD} is wrong\n"
        "postgresql://me:only-in-url@db/x\nAuthorization: Bearer only.in.header.12345\n"
        '{"secretKey": "only-in-json", "epoch": 7}\n'
    )
    path, files = _made(cluster, tmp_path, monkeypatch)
    everything = "\n".join(files.values())
    for value in (
        PLANTED,
        encoded,
        PASSWORD,
        "only-in-",
        "only in config",
        "only.in.header",
        "another-S3cret",
        "config-secret-1",
        "CIPHER-ABC",
        "salty-salt",
    ):
        assert value not in everything, value
    assert PLANTED.encode() not in path.read_bytes()
    shown = yaml.safe_load(files[f"objects/{PIPELINES}/secrets/planted.yaml"])
    assert shown["keys"] == ["username", "value"]
    assert shown["metadata"]["name"] == "planted"
    env = yaml.safe_load(files[f"objects/{PIPELINES}/pods/user-counts-driver.yaml"])["spec"]["containers"][0]["env"]
    assert {"name": "PLAIN", "value": "kept-as-it-is"} in env
    assert {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "planted", "key": "value"}}} in env
    log = files[f"logs/{PIPELINES}/user-counts-driver/spark-kubernetes-driver.log"]
    assert f"[removed: secret {PIPELINES}/object-store-credentials AWS_SECRET_ACCESS_KEY] is wrong" in log
    assert '"epoch": 7' in log
    # The access key is our project's name: it stays readable.
    assert "effectively-once-pipelines" in everything


def test_secrets_that_may_not_be_read_cost_the_logs_not_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster().ready()
    cluster.logs[DRIVER_KEY] = "anything\n"
    path = f"/api/v1/namespaces/{PIPELINES}/secrets"
    cluster.objects[path] = ApiError(403, "forbidden", path)
    _, files = _made(cluster, tmp_path, monkeypatch)
    assert not [name for name in files if name.startswith(f"logs/{PIPELINES}")]
    assert f"objects/{PIPELINES}/pods/user-counts-driver.yaml" in files
    assert f"logs of {PIPELINES}: its Secrets may not be read" in files["problems.txt"]


def test_a_cluster_that_is_gone_leaves_what_is_known_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster().ready()
    cluster.objects["/version"] = UnreachableError("the cluster does not answer")
    _, files = _made(cluster, tmp_path, monkeypatch)
    assert "the cluster does not answer" in files["problems.txt"]
    assert "urn:a" in files["pulumi/state.yaml"]
    assert len([path for path, _ in cluster.asked if path.startswith("/api")]) == 0


def test_a_stack_that_cannot_be_read_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pulumi(_: Access, *words: str) -> str:
        raise NoStackError("nothing is deployed yet")

    monkeypatch.setattr(Access, "pulumi", pulumi)
    path = bundle(access(Cluster().ready()), tmp_path, lambda _: None, AT)
    assert "stack state: nothing is deployed yet" in _read(path)["problems.txt"]


def test_a_value_that_slipped_through_stops_the_writing(tmp_path: Path) -> None:
    made = Bundle(Redactor([secret("planted", PIPELINES, value=PLANTED)]))
    made.files["somewhere.txt"] = f"raw {PLANTED}"
    with pytest.raises(BundleError, match=r"somewhere.txt.*planted"):
        made.write(tmp_path / "bundle.tar.gz", AT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (
            {".dockerconfigjson": '{"auths": {"r.example": {"username": "me", "password": "reg-istry-pass"}}}'},
            "login with reg-istry-pass failed",
        ),
        ({"key.pem": "-----BEGIN-----\nMIIabcdefghijkl\n-----END-----\n"}, "read MIIabcdefghijkl"),
        ({"value": 'with "quotes" in'}, 'json: "with \\"quotes\\" in"'),
        ({"value": "with/slash+plus"}, "http://x/?k=with%2Fslash%2Bplus"),
        ({"value": "ends-with-newline\n"}, "said ends-with-newline here"),
    ],
)
def test_values_are_found_in_the_forms_that_texts_give_them(held: dict[str, str], text: str) -> None:
    redactor = Redactor([secret("s", "n", **held)])
    assert redactor.leak(text) is not None
    clean = redactor.text(text)
    assert "[removed: secret n/s" in clean
    assert redactor.leak(clean) is None


def test_users_hosts_and_short_values_stay_readable() -> None:
    redactor = Redactor([secret("s", "n", username="effectively_once", host="postgres", value="on")])
    text = "effectively_once at postgres is on; tokens: 5; secretName: s; 12 password attempts"
    assert redactor.text(text) == text


def test_references_to_secrets_are_kept() -> None:
    redactor = Redactor([secret("object-store-credentials", "n", value="abcdefgh")])
    values: dict[str, Any] = {"credentialsSecret": "object-store-credentials", "imagePullSecrets": ["pull"]}
    assert redactor.tree(values) == values


def test_the_states_summary_and_the_settings_hold_no_input_and_no_secret() -> None:
    summary = summarise_state(STATE)
    assert "CIPHER" not in json.dumps(summary)
    assert summary["manifest"] == {"time": BORN, "version": "v3.259.0"}
    assert summarise_state({}) == {
        "manifest": {"time": None, "version": None},
        "pending_operations": [],
        "resources": [],
    }
    assert settings_without_secrets(CONFIG)["effectively-once:token"] == "[secret]"
