"""One pipeline that is attacked at one point after the other, and what the points are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from infra.embedded.process import Child, wait_for
from tests.spark.held import Held, executor_of, kill
from tests.spark.outputs import assert_exact
from tests.spark.pipeline import Pipeline
from tests.spark.records import mixture

SEED, RECORDS = 11, 160
STALE, REPLACED_S = 75, 240.0
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
    "windows_begun": ("windows_begun", {"shard": 1}),
    "windows_decided": ("windows_decided", {"shard": 1}),
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


def cases(in_tasks: Iterable[str], in_driver: Iterable[str], core: Collection[str]) -> list[Any]:
    """Point and victim, `committed-executor`: each process that can be killed there; but for the core's slow."""
    names = [f"{name}-{victim}" for name in in_tasks for victim in ("worker", "executor", "driver")]
    names += [f"{name}-driver" for name in in_driver]
    return [pytest.param(name, id=name, marks=[] if name in core else pytest.mark.slow) for name in names]


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

    def replaced_while_held(self, point: str, where: Mapping[str, Any]) -> Child:
        """Hold the driver, or a task of it, at a point until another one has finished its epoch; it stops as stale."""
        self.held.ask(point, **where)
        self.send()
        stale = self.driver
        process = self.held.wait(stale)
        self.again()
        # The older one may finish the same batch: were it first with Spark's commit, the newer one would end and be
        # started again, as its supervisor does.
        self.pipeline.wait_committed(self.driver)
        assert process.is_running(), "the older one must still be there when it is released"
        self.held.release()

        def stopped() -> bool:
            # One that has nothing to do learns nothing: records come until it has stopped.
            self.send()
            return stale.wait(1.0)

        wait_for("the older driver to stop", REPLACED_S, stopped, self.driver)
        assert stale.status() == STALE, stale.post_mortem()
        return stale

    def exact(self) -> None:
        """Everything sent is published, exactly once."""
        self.pipeline.wait_processed(self.driver)
        assert_exact(self.pipeline, running=True)

    def killed_at(
        self,
        case: str,
        points: Mapping[str, tuple[str, Mapping[str, Any]]],
        *,
        held: Callable[[], object] = lambda: None,
        dead: Callable[[], object] = lambda: None,
    ) -> None:
        """Hold a process at the point of a case, kill there the one that the case names, and judge all outputs.

        Args:
            case: of `cases`.
            points: by name.
            held: looks while the process is held.
            dead: looks once the driver was killed, before it is started again.

        """
        name, victim = case.rsplit("-", 1)
        point, where = points[name]
        self.held.ask(point, **where)
        self.send()
        process = self.held.wait(self.driver, self.send)
        held()
        if victim == "driver":
            self.driver.kill()
            dead()
            self.again()
        else:
            kill(executor_of(process) if victim == "executor" else process)
        self.exact()

    def assert_declared(self) -> None:
        """An epoch is to be repeated."""
        assert self.pipeline.head().declared is not None

    @classmethod
    def begun(cls, pipeline: Pipeline, epochs: int = 3) -> Self:
        """With a driver, and some epochs that close windows for those that come and leave something to collect."""
        held = Held(pipeline.folder / "points")
        held.folder.mkdir()
        made = cls(pipeline, held, pipeline.start(env=held.env))
        for _ in range(epochs):
            made.send()
            pipeline.wait_processed(made.driver)
        return made
