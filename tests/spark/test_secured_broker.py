"""A pipeline whose broker asks for TLS and a login: killed, with another password, every output is what it must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from effectively_once.kafka_client import FOLDER, client_config
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.infra.platform import settings as platform
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import Pipeline
from tests.spark.records import late, mixture
from tests.stack.secured_kafka import SecuredKafka, secured

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAME, STEP_S = "secured", 180.0
SEED, NUMBER, LATE = 5, 1_200, 20
ACCESS = 77


class Secured(Pipeline):
    """One that logs in; the test itself has all rights."""

    def __init__(self, toolchain: Toolchain, stack: EmbeddedStack, folder: Path, kafka: SecuredKafka) -> None:
        self.kafka, self.password = kafka, ""
        endpoints = replace(stack.endpoints, kafka_bootstrap=kafka.bootstrap)
        super().__init__(toolchain, endpoints, folder, NAME, {"epoch_rows_max": 300})

    @property
    def client(self) -> dict[str, object]:
        return client_config(self.kafka.nodes, self.kafka.folders.admin)

    @property
    def own_env(self) -> Mapping[str, str]:
        """As the chart has it: files of a login, of which the JVM is told one."""
        own = self.kafka.folders.user(NAME, self.password)
        return {**own, "JAVA_TOOL_OPTIONS": f"-Djava.security.auth.login.config={own[FOLDER]}/jaas.conf"}


@pytest.fixture
def pipeline(stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path) -> Iterator[Secured]:
    own = {"job": "effectively_once_jobs.user_counts", "topic": f"events.{NAME}"}
    with secured(platform(security={"kafka": True}, pipelines={NAME: own}), toolchain, tmp_path) as kafka:
        made = Secured(toolchain, stack, tmp_path, kafka)
        made.create_topics()
        yield made
        made.end()


def test_a_killed_driver_and_one_with_another_password_leave_every_output_exact(pipeline: Secured) -> None:
    assert pipeline.kafka.give({NAME: "the first"}) == 0
    pipeline.password = "the first"
    pipeline.send(mixture(SEED, NUMBER))
    first = pipeline.start()
    wait_for("a declared epoch", STEP_S, lambda: bool(pipeline.events("epoch", state="declared", epoch=1)), first)
    first.kill()

    assert pipeline.kafka.give({NAME: "the second"}) == 0
    refused = pipeline.start()
    assert refused.wait(STEP_S)
    assert refused.status() == ACCESS, refused.post_mortem()
    assert f"refuses its login: user {NAME}" in refused.post_mortem()

    pipeline.password = "the second"
    last = pipeline.start()
    pipeline.wait_processed(last)
    pipeline.send(late(SEED, LATE))
    pipeline.wait_committed(last)
    last.stop()
    counts = assert_exact(pipeline, running=True)
    assert (counts["UNREAD"], counts["LATE"]) == (0, LATE)
    logs = [path.read_text(errors="replace") for path in (pipeline.folder / "logs").rglob("*") if path.is_file()]
    assert len(logs) >= 3, "of each driver"
    assert [one for one in logs if pipeline.password in one] == []
