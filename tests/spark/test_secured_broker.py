"""A pipeline whose broker asks for TLS and a login: killed, with another password, every output is what it must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from effectively_once.kafka_client import FOLDER, client_config
from infra.components.kafka_security import values
from infra.embedded.process import wait_for
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from infra.values.kafka import Security
from tests.infra.platform import settings as platform
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import Pipeline
from tests.spark.records import late, mixture
from tests.stack.secured_kafka import Folders, SecuredKafka

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAME, STEP_S = "secured", 180.0
SEED, NUMBER, LATE = 5, 1_200, 20
ACCESS = 77


class Secured(Pipeline):
    """One that logs in; the test itself has all rights."""

    def __init__(
        self, toolchain: Toolchain, stack: EmbeddedStack, folder: Path, kafka: SecuredKafka, folders: Folders
    ) -> None:
        self._kafka, self._folders = kafka, folders
        self.password = ""
        endpoints = replace(stack.endpoints, kafka_bootstrap=kafka.bootstrap)
        super().__init__(toolchain, endpoints, folder, NAME, {"epoch_rows_max": 300})

    @property
    def client(self) -> dict[str, object]:
        return client_config(self._kafka.nodes, self._folders.admin)

    @property
    def own_env(self) -> Mapping[str, str]:
        """As the chart has it: files of a login, of which the JVM is told one."""
        own = self._folders.user(NAME, self.password)
        return {**own, "JAVA_TOOL_OPTIONS": f"-Djava.security.auth.login.config={own[FOLDER]}/jaas.conf"}

    def give(self, password: str) -> None:
        """Have the broker know another password, and the rights that the program gives."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._folders.admin.items():
                patch.setenv(name, value)
            assert self._kafka.give({NAME: password}) == 0


@pytest.fixture
def pipeline(
    stack: EmbeddedStack, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Secured]:
    folders = Folders.make(tmp_path)
    own = {"job": "effectively_once_jobs.user_counts", "topic": f"events.{NAME}"}
    security = values(platform(security={"kafka": True}, pipelines={NAME: own}))
    assert isinstance(security, Security)
    kafka = SecuredKafka(tmp_path / "broker", tmp_path / "broker.log", toolchain, security, folders)
    kafka.start()
    try:
        made = Secured(toolchain, stack, tmp_path, kafka, folders)
        made.create_topics()
        yield made
        made.end()
    finally:
        kafka.stop()


def test_a_killed_driver_and_one_with_another_password_leave_every_output_exact(pipeline: Secured) -> None:
    pipeline.give("the first")
    pipeline.password = "the first"
    pipeline.send(mixture(SEED, NUMBER))
    first = pipeline.start()
    wait_for("a declared epoch", STEP_S, lambda: bool(pipeline.events("epoch", state="declared", epoch=1)), first)
    first.kill()

    pipeline.give("the second")
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
    assert pipeline.password not in "".join(
        path.read_text(errors="replace") for path in pipeline.folder.glob("driver-*")
    )
