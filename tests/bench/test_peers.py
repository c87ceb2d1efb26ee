"""Each peer runs with the client of Kafka that it is made for."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from infra.versions import KAFKA_BROKER, SLF4J_SIMPLE
from tests.bench import peers

SPACE = "{http://maven.apache.org/POM/4.0.0}"


@pytest.mark.parametrize(
    ("peer", "versions"),
    [
        ("streams", {"kafka.version": KAFKA_BROKER}),
        ("flink", {"flink.version": "2.2.1", "connector.version": "5.0.0-2.2"}),
    ],
)
def test_the_jars_of_a_peer_fit_one_another(peer: str, versions: dict[str, str]) -> None:
    """Kafka Streams is of the broker's version; a connector's version ends with the Flink that it is built for."""
    stated = ET.parse(peers.HERE / peer / "pom.xml").getroot().find(f"{SPACE}properties")  # noqa: S314 - our own file
    assert stated is not None
    found = {one.tag.removeprefix(SPACE): one.text or "" for one in stated}
    assert found == {**versions, "slf4j.version": SLF4J_SIMPLE}
    built_for = found.get("connector.version", "").rpartition("-")[2]
    assert found.get("flink.version", "").startswith(built_for)
