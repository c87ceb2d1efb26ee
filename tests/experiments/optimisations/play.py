"""The play: one topic, then a driver after the other over it, each with two executors in pods of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from effectively_once.ledger.objects import Found, Get, Put
from effectively_once.store.object_store import BucketAddress, S3ObjectStore
from infra.console import Console
from tests.bench import counts
from tests.bench.optimisations_table import QUERY
from tests.bench.place import SINKS
from tests.bench.s1_arms import LATENESS_MS, SHARDS
from tests.bench.s1_events import PARTITIONS, WINDOW_MS, fill
from tests.experiments.arm import ArmPlay, count_done
from tests.experiments.optimisations.figures import COUNTED, LOG, Facts
from tests.experiments.optimisations.plan import ACTORS, ARMS, ROUND, Actor, Plan
from tests.harness.adapters.cluster import label_of
from tests.harness.adapters.topics import Topics
from tests.harness.run_directory import RunDirectory
from tests.harness.stack.cluster import ClusterStack
from tests.harness.stack.processes import Role

_JOBS = ("optimised_job", "uncombined_job", "unfused_job")
_BENCH = ("errors", "optimised", "s1_events", "spark_arm", "uncombined", *_JOBS)
FILES = ("infra/errors.py", *(f"tests/bench/{name}.py" for name in _BENCH))
"""What the drivers run, and all that it imports beside the library."""
TOPIC, PARTS = "optimisations", 2
ACTOR_S, PODS_S, LOG_S = 300.0, 60.0, 60.0
PLACEHOLDER = "here"
"""Spark wants the folder of its event log to be there; on an object store a folder is what has an object in it."""


def play(run: Path, plan: Plan, arms: Sequence[str], stack: ClusterStack, console: Console) -> None:
    """Fill the topic and play drivers over it, one after the other."""
    bootstrap, topic = stack.endpoints.kafka_bootstrap, stack.pipeline(TOPIC)
    Topics(bootstrap, stack.replication).create({topic: PARTITIONS})
    with console.step(f"{plan.records:,} events of {plan.users:,} users into topic {topic}"):
        fill(bootstrap, topic, plan.events.values())
    for actor in ACTORS:
        if actor.name in arms:
            Play(RunDirectory(run / actor.name), stack, console, actor, plan).play()


@dataclass
class Play(ArmPlay[ClusterStack]):
    """One driver."""

    actor: Actor
    plan: Plan
    executors: dict[str, str] = field(default_factory=dict, init=False)

    def go(self) -> None:
        """Play it."""
        actor, stack, role = self.actor, self.stack, self._role()
        folder = f"{stack.pipeline(QUERY)}/{LOG}/{actor.name}"
        self._store.answer(Put(f"{folder}/{PLACEHOLDER}", b"-", None))
        if actor.arm is not None:
            self._make_topics(role.settings["pipeline"])
        self.processes = stack.prepare(
            self.directory, self.history, actor.module, [role], files=FILES, chart=self._chart(folder)
        )
        watch, told = self.processes.watch, "query" if actor.arm is None else "epoch"
        with self.processes.following():
            self.processes.start()
            watch.wait_for(
                f"the first {told}",
                lambda: any(one["event"] == told for one in watch.seen),
                stack.patience.driver_s,
                self.dead,
            )
            self.executors.update(self._executors())
            watch.wait_for(f"all of {actor.name}", lambda: self._done(watch.seen), ACTOR_S, self.dead)
            self.processes.drivers[0].stop()
        self._fetch(folder, self.directory.path / LOG)
        if actor.arm is not None:
            lines = counts.values(stack.endpoints.kafka_bootstrap, f"{role.settings['pipeline']}.{COUNTED}")
            with self.directory.observed_writer(COUNTED) as rows:
                for line in lines:
                    rows.write(orjson.loads(line))

    def facts(self, **told: Any) -> Facts:
        """Note down what it left."""
        return Facts(executors=self.executors, **told)

    def _role(self) -> Role:
        actor, topic = self.actor, self.stack.pipeline(TOPIC)
        settings: dict[str, Any] = {"pipeline": self.stack.pipeline(actor.name), "topic": topic}
        if actor.arm is not None:
            return Role(
                {
                    **settings,
                    "job": actor.module,
                    "shards": SHARDS,
                    "epoch_rows_max": self.plan.epoch_rows,
                    "window_ms": WINDOW_MS,
                    "lateness_ms": LATENESS_MS,
                },
                {},
            )
        options = {
            "kafka.bootstrap.servers": self._deployed["kafka_bootstrap"],
            "subscribe": topic,
            "startingOffsets": "earliest",
            "endingOffsets": "latest",
        }
        return Role(
            settings,
            {
                "format": "kafka",
                "options": options,
                "parts": PARTS,
                "rounds": [ROUND],
                "variants": [*ARMS[QUERY]],
                "stay": True,
            },
        )

    def _chart(self, folder: str) -> dict[str, Any]:
        """Values of the chart: the event log, in a folder of the run's, which is deleted with it."""
        conf = {
            **self.stack.target.values.get("sparkConf", {}),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"s3a://{self._deployed['s3_bucket']}/{folder}",
        }
        return {"eventLog": {"enabled": True}, "sparkConf": conf}

    def _done(self, seen: list[dict[str, Any]]) -> bool:
        if self.actor.arm is None:
            return any(one["event"] == "ended" for one in seen)
        return count_done(seen) >= self.plan.records

    def _executors(self) -> dict[str, str]:
        """Wait for the pods of both executors; address -> name@uid. Raises ClusterTimeoutError."""
        stack, name = self.stack, self.processes.files[0].stem
        selector = f"{label_of(stack.run)},sparkoperator.k8s.io/app-name={name},spark-role=executor"

        def running() -> dict[str, str]:
            pods = [one for one in stack.cluster.pods(selector) if one["status"].get("podIP")]
            return {one["status"]["podIP"]: f"{one['metadata']['name']}@{one['metadata']['uid']}" for one in pods}

        stack.cluster.wait_for(f"two executors of {name}", lambda: len(running()) > 1, PODS_S, running)
        return running()

    def _make_topics(self, pipeline: str) -> None:
        names = [f"{pipeline}.{sink}" for sink in SINKS]
        Topics(self.stack.endpoints.kafka_bootstrap, self.stack.replication).create(
            dict.fromkeys(names, SHARDS), dict.fromkeys([f"{name}.progress" for name in names], SHARDS)
        )

    def _fetch(self, folder: str, to: Path) -> None:
        """Fetch the event log of a driver that has ended; it is there once Spark has closed it."""

        def whole() -> list[str]:
            names = [name for name in self._store.names(f"{folder}/") if not name.endswith(PLACEHOLDER)]
            return [name for name in names if not name.endswith(".inprogress")]

        self.stack.cluster.wait_for(
            f"Spark's event log in {folder}", lambda: bool(whole()), LOG_S, lambda: [*self._store.names(f"{folder}/")]
        )
        to.mkdir()
        for name in whole():
            match self._store.answer(Get(name)):
                case Found(body):
                    (to / name.rpartition("/")[2]).write_bytes(body)

    @property
    def _deployed(self) -> Mapping[str, Any]:
        """Settings of the deployed pipeline: addresses as pods reach them."""
        settings: Mapping[str, Any] = self.stack.target.values["settings"]
        return settings

    @property
    def _store(self) -> S3ObjectStore:
        return S3ObjectStore(BucketAddress(self.stack.endpoints.s3_endpoint, self._deployed["s3_bucket"]))
