"""A SIGKILL between any two steps of the protocol: the repeat leaves every output exactly as it must be.

Each test holds one process at one point, kills a Python worker, an executor or the driver there, and judges all outputs
by a plain recomputation. The table in docs/explanation/protocol.md names them.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.embedded.process import Child, wait_for
from tests.spark.held import Held, executor_of, killed
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import Pipeline
from tests.spark.records import mixture

pytestmark = pytest.mark.spark

SEED, RECORDS = 11, 160
STEP_S = 60.0
HEAD, DELTA = r".*/head\.json", r".*/deltas/{}/.*"
STAGED, MANIFEST = r".*/global_counts/data/.*", r".*/global_counts/manifests/.*"

# Point, and which passing of it: the other shard goes on meanwhile.
IN_TASKS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "dedup_begun": ("dedup_begun", {"shard": 0}),
    "ids_delta": ("put_done", {"key": DELTA.format("ids")}),
    "ids_decided": ("ids_decided", {"shard": 0}),
    "accepted_open": ("transaction_open", {"sink": "accepted", "shard": 0}),
    "accepted_committed": ("committed", {"sink": "accepted", "shard": 0}),
    "accepted_published": ("published", {"sink": "accepted", "shard": 0}),
    "dead_letter_open": ("transaction_open", {"sink": "dead_letter", "shard": 1}),
    "dead_letter_published": ("published", {"sink": "dead_letter", "shard": 1}),
    "count_begun": ("count_begun", {"shard": 1}),
    "counts_decided": ("counts_decided", {"shard": 1}),
    "user_counts_open": ("transaction_open", {"sink": "user_counts", "shard": 1}),
    "user_counts_committed": ("committed", {"sink": "user_counts", "shard": 1}),
    "user_counts_published": ("published", {"sink": "user_counts", "shard": 0}),
}
IN_DRIVER: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "batch_planned": ("batch_planned", {}),
    "head_put": ("put", {"key": HEAD}),
    "head_answered": ("put_done", {"key": HEAD}),
    "declared": ("declared", {}),
    "job_done": ("job_done", {}),
    "file_staged": ("put_done", {"key": STAGED}),
    "manifest_created": ("put_done", {"key": MANIFEST}),
    "epoch_published": ("epoch_published", {}),
}
QUICK = ("accepted_open-worker", "accepted_committed-executor", "manifest_created-driver")
"""Those that every test run has; the others need minutes and are left to `make test-all`."""


@dataclass
class Attacked:
    """One pipeline for all points, and the driver that it has at the moment."""

    pipeline: Pipeline
    held: Held
    driver: Child
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(0, RECORDS))

    def send(self) -> None:
        self.pipeline.send(mixture(SEED, RECORDS, first=next(self.numbers)))

    def again(self) -> None:
        self.driver = self.pipeline.start(env=self.held.env)

    def exact(self) -> None:
        """Everything sent is published, exactly once."""
        self.pipeline.wait_processed(self.driver)
        assert_exact(self.pipeline, running=True)


@pytest.fixture(scope="module")
def attacked(new_pipeline: Callable[..., Pipeline]) -> Attacked:
    pipeline = new_pipeline("crash_points")
    held = Held(pipeline.folder / "points")
    held.folder.mkdir()
    made = Attacked(pipeline, held, pipeline.start(env=held.env))
    # The first epochs close windows for those that come, and have something to collect.
    for _ in range(3):
        made.send()
        pipeline.wait_processed(made.driver)
    return made


def _cases() -> list[Any]:
    names = [f"{name}-{victim}" for name in IN_TASKS for victim in ("worker", "executor", "driver")]
    names += [f"{name}-driver" for name in IN_DRIVER]
    return [pytest.param(name, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("case", _cases())
def test_killed_at(attacked: Attacked, case: str) -> None:
    name, victim = case.rsplit("-", 1)
    point, where = {**IN_TASKS, **IN_DRIVER}[name]
    attacked.held.ask(point, **where)
    attacked.send()
    process = attacked.held.wait(attacked.driver)
    if victim == "driver":
        attacked.driver.kill()
        attacked.again()
    else:
        killed(executor_of(process) if victim == "executor" else process)
    attacked.exact()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["started", "taken_over"])
def test_killed_while_starting(attacked: Attacked, point: str) -> None:
    attacked.driver.kill()
    generation = attacked.pipeline.head().generation
    attacked.held.ask(point)
    attacked.again()
    attacked.held.wait(attacked.driver)
    attacked.driver.kill()
    assert attacked.pipeline.head().generation == generation + (point == "taken_over")
    attacked.send()
    attacked.again()
    attacked.exact()


@pytest.mark.slow
def test_killed_while_stopping(attacked: Attacked) -> None:
    attacked.send()
    attacked.pipeline.wait_processed(attacked.driver)
    attacked.held.ask("stopping")
    attacked.driver.signal(signal.SIGTERM)
    attacked.held.wait(attacked.driver)
    attacked.driver.kill()
    assert attacked.pipeline.head().declared is not None
    attacked.again()
    attacked.send()
    attacked.exact()


@pytest.mark.slow
def test_killed_between_two_batches(attacked: Attacked) -> None:
    """Spark has written `commits/n`, and there is nothing to do."""
    attacked.send()
    attacked.pipeline.wait_processed(attacked.driver)
    last = attacked.pipeline.events("epoch", state="published")[-1]["epoch"]
    wait_for("commits of the last batch", STEP_S, lambda: _committed(attacked.pipeline, last), attacked.driver)
    attacked.driver.kill()
    attacked.again()
    attacked.send()
    attacked.exact()


def _committed(pipeline: Pipeline, epoch: int) -> bool:
    head = pipeline.head()
    declared = head.declared
    if declared is None or declared.epoch != epoch:
        return False
    name = f"{pipeline.layout.checkpoint(declared.lineage)}/commits/{declared.batch_id}"
    return name in pipeline.store.names(name)
