"""The arms of the race run for real on a few records: what each publishes is right, and it is measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from infra.console import Console
from infra.embedded.stack import EmbeddedStack
from infra.toolchain.prepare import Toolchain
from tests.bench.place import BROKER, MASTERS, STORE, Place
from tests.bench.race_arms import PROGRAMS, Arm, Course
from tests.bench.s1_arms import ARM, run_arm

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Of fewer records a copy could come later than windows wait: what a peer counts would depend on its pace.
COURSE, BATCH_ROWS = Course(60_000, 100, 4), 5_000


@pytest.fixture(scope="module")
def place(stack: EmbeddedStack, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    servers = {BROKER: stack.kafka.pid, STORE: stack.object_store.pid}
    admin = AdminClient({"bootstrap.servers": stack.endpoints.kafka_bootstrap, "log_level": 0})
    made = Place(toolchain, stack.endpoints, tmp_path_factory.mktemp("race"), Console(), admin, servers)
    made.fill_topic(COURSE.topic, COURSE.events.values(), str(COURSE), COURSE.partitions)
    yield made
    made.delete([COURSE.topic])


@pytest.mark.parametrize("accepted", [True, False], ids=["both", "counts"])
@pytest.mark.parametrize("key", PROGRAMS)
def test_an_arm_publishes_what_is_due_and_is_measured(place: Place, tmp_path: Path, key: str, accepted: bool) -> None:
    arm = Arm(key, accepted)
    # No warm-up: peers commit once a second, perhaps all of so few records at once.
    run = arm.run(place, COURSE, 0, batch_rows=BATCH_ROWS, master=MASTERS["cluster"], warm_up=0.0)

    sample = run_arm(arm.name, run, arm.program.start)

    assert sample["windows_compared"] >= 10
    assert sample["rows_per_s"] > 0
    assert set(sample["cpu_s_per_million"]) == {ARM, BROKER, STORE}
    assert sample["cpu_s_per_million"][ARM] > 0
