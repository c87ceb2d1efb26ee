"""Access to a deployed stack: what is read, and what an operator is told when it cannot be."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from infra.cluster.access import explain, load_access
from infra.cluster.api import ApiError
from infra.cluster.platform import AccessError, NoStackError, PassphraseError, parse_platform
from tests.unit.operate.cluster import OUTPUT, PASSWORD, PIPELINES, Cluster, access, output, secret


def _pulumi(directory: Path, script: str) -> dict[str, str]:
    """A program `pulumi` that does what the script says; the environment that finds it."""
    program = directory / "bin" / "pulumi"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": str(program.parent), "PULUMI_STACK": "laptop", "KUBECONFIG": str(directory / "kubeconfig")}


def test_the_stacks_output_is_read_through_pulumi_with_stack_checkout_and_environment(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(output())
    script = f'echo "$@ $MARK" > {tmp_path}/asked; cat {tmp_path}/out.json'
    env = {**_pulumi(tmp_path, script), "MARK": "own-environment"}
    found = load_access(env, tmp_path, checkout=tmp_path)
    asked = (tmp_path / "asked").read_text()
    assert f"stack output --json --stack laptop --cwd {tmp_path}" in asked
    assert "own-environment" in asked
    assert found.kubeconfig == tmp_path / "kubeconfig"
    assert found.platform.namespaces.ours == tuple(OUTPUT["namespaces"].values())
    assert found.platform.pipelines["user_counts"].executors.count == 2


def test_without_a_kubeconfig_in_the_environment_the_state_directorys_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "out.json").write_text(output())
    env = _pulumi(tmp_path, f"cat {tmp_path}/out.json")
    del env["KUBECONFIG"]
    assert load_access(env, tmp_path / "state", checkout=tmp_path).kubeconfig == tmp_path / "state" / "kubeconfig"


@pytest.mark.parametrize(
    ("said", "kind", "todo"),
    [
        ("error: no stack named 'laptop' found", NoStackError, "make up"),
        ("error: no stack selected; specify a stack name with --stack", NoStackError, "make up"),
        ("error: open /s/pulumi/.pulumi/meta.yaml: no such file or directory", NoStackError, "make up"),
        ("error: getting secrets manager: incorrect passphrase", PassphraseError, "not the one"),
        ("error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE or ...", PassphraseError, "is lost"),
        ("error: reading passphrase file: open /s/passphrase: no such file or directory", PassphraseError, "is lost"),
        ("error: PULUMI_ACCESS_TOKEN must be set for login", AccessError, "make env"),
        ("error: something\n  new", AccessError, "error: something new"),
    ],
)
def test_each_failure_of_pulumi_has_a_name_and_a_remedy(said: str, kind: type[AccessError], todo: str) -> None:
    env = {"PULUMI_BACKEND_URL": "file:///s/pulumi", "PULUMI_CONFIG_PASSPHRASE_FILE": "/s/passphrase"}
    error = explain(said, env)
    assert type(error) is kind
    assert todo in str(error)
    if kind is PassphraseError:
        assert "/s/passphrase" in str(error)


def test_a_pulumi_that_fails_a_missing_one_and_one_without_output_are_told_apart(tmp_path: Path) -> None:
    env = _pulumi(tmp_path / "a", "echo \"error: no stack named 'laptop' found\" >&2; exit 255")
    with pytest.raises(NoStackError, match="make up"):
        load_access(env, tmp_path, checkout=tmp_path)
    with pytest.raises(NoStackError, match="did not finish"):
        load_access(_pulumi(tmp_path / "b", "echo '{}'"), tmp_path, checkout=tmp_path)
    with pytest.raises(AccessError, match="no JSON object"):
        load_access(_pulumi(tmp_path / "c", "echo oops"), tmp_path, checkout=tmp_path)


def test_no_pulumi_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AccessError, match="no `pulumi` on PATH"):
        load_access({}, tmp_path, checkout=tmp_path)


def test_after_an_update_that_failed_the_default_names_are_assumed_only_when_asked_for(tmp_path: Path) -> None:
    env = _pulumi(tmp_path, "echo '{}'")
    with pytest.raises(NoStackError):
        load_access(env, tmp_path, checkout=tmp_path, assume=True)  # nor a cluster: nothing to look at
    (tmp_path / "kubeconfig").touch()
    found = load_access(env, tmp_path, checkout=tmp_path, assume=True)
    assert found.platform.profile == "unknown"
    assert found.platform.namespaces.ours == tuple(OUTPUT["namespaces"].values())
    with pytest.raises(NoStackError):
        load_access(env, tmp_path, checkout=tmp_path)


def test_an_output_of_another_version_is_refused_by_field() -> None:
    broken = {**OUTPUT, "namespaces": {"platform": "x"}}
    with pytest.raises(AccessError, match=r"platform\.namespaces\.pipelines"):
        parse_platform(json.dumps({"platform": broken}))


def test_endpoints_are_those_outside_with_the_secrets_credentials_and_the_pipelines_bucket() -> None:
    found = access(Cluster().ready()).endpoints()
    assert (found.kafka_bootstrap, found.s3_endpoint) == ("127.0.0.1:12092", "http://127.0.0.1:12000")
    assert (found.s3_access_key, found.s3_secret_key) == ("effectively-once", PASSWORD)
    assert found.s3_bucket == "counts-bucket"
    assert PASSWORD not in repr(found)


def test_pipelines_with_different_buckets_have_no_common_one() -> None:
    two = {name: {"name": name, "settings": {"s3_bucket": f"bucket-{name}"}} for name in ("a", "b")}
    found = access(Cluster().ready(), pipelines=two)
    assert found.endpoints("b").s3_bucket == "bucket-b"
    assert found.endpoints().s3_bucket == "effectively-once"
    with pytest.raises(AccessError, match="there is: a, b"):
        found.endpoints("c")


def test_the_keys_of_a_root_user_are_taken_too() -> None:
    cluster = Cluster().ready()
    cluster.put_secret(secret("object-store-credentials", PIPELINES, rootUser="admin", rootPassword="rootpass"))
    found = access(cluster).endpoints()
    assert (found.s3_access_key, found.s3_secret_key) == ("admin", "rootpass")


def test_missing_ways_in_secrets_and_keys_are_named() -> None:
    cluster = Cluster().ready()
    inside = {"bootstrap": "kafka:9092", "external_bootstrap": None}
    with pytest.raises(AccessError, match=r"kafka cannot be reached.*external_access"):
        access(cluster, kafka=inside).endpoints()
    path = f"/api/v1/namespaces/{PIPELINES}/secrets/object-store-credentials"
    cluster.objects[path] = secret("object-store-credentials", PIPELINES, other="value")
    with pytest.raises(AccessError, match="holds other; needed are AWS_ACCESS_KEY_ID"):
        access(cluster).endpoints()
    cluster.objects[path]["data"] = {"AWS_ACCESS_KEY_ID": "YQ==", "AWS_SECRET_ACCESS_KEY": "no base64!"}
    with pytest.raises(AccessError, match="not base64"):
        access(cluster).endpoints()
    del cluster.objects[path]
    with pytest.raises(AccessError, match="--refresh"):
        access(cluster).endpoints()
    cluster.objects[path] = ApiError(403, "forbidden", path)
    with pytest.raises(ApiError, match="forbidden"):
        access(cluster).endpoints()
