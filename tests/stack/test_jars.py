"""The class path that Spark gets beside its own."""

from __future__ import annotations

import re

import pytest

from infra.toolchain.cache import Cache, cache_root
from infra.toolchain.jars import resolve_jars
from infra.toolchain.jvm import pyspark_jars
from infra.versions import AWS_SDK, KAFKA_CLIENTS, KAFKA_CONNECTOR, KAFKA_TOKEN_PROVIDER

pytestmark = pytest.mark.stack


def _artefact(name: str) -> str:
    return re.sub(r"-\d.*\.jar$", "", name)


def test_nothing_that_pyspark_ships_is_brought_twice() -> None:
    ours = {_artefact(jar.name) for jar in resolve_jars(Cache(cache_root()), "spark").glob("*.jar")}
    theirs = {_artefact(jar.name) for jar in pyspark_jars().glob("*.jar")}
    assert len(theirs) > 100
    assert ours & theirs == set()


def test_the_connector_and_the_sdk_are_there_in_the_pinned_versions_and_without_the_netty_client() -> None:
    jars = {jar.name for jar in resolve_jars(Cache(cache_root()), "spark").glob("*.jar")}
    assert {
        f"spark-sql-kafka-0-10_2.13-{KAFKA_CONNECTOR}.jar",
        f"spark-token-provider-kafka-0-10_2.13-{KAFKA_TOKEN_PROVIDER}.jar",
        f"kafka-clients-{KAFKA_CLIENTS}.jar",
        f"s3-{AWS_SDK}.jar",
        f"apache-client-{AWS_SDK}.jar",
    } <= jars
    assert not [jar for jar in jars if jar.startswith(("netty-nio-client", "slf4j", "aws-crt-client"))]
