"""Shared class data of the JVMs of a run: what they load, parsed and verified once, not at every start.

A kill ends a JVM, and a new one has to be there soon. Loading some 20,000 classes is most of its start: with the
archive a driver spent 9.4 s of CPU until its eighth epoch instead of 14.5 s, two executors 15.0 s instead of 19.6 s
(2 cores, JDK 17). The archive is written by a JVM that ran a pipeline for three epochs, driver and executor in one
(`local[2]`), and by its broker.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from infra.console import Console
from infra.embedded.kafka import CLASSES as BROKER_CLASSES
from infra.embedded.kafka import JVM_FLAGS
from infra.embedded.process import ServerError, descendants, wait_for
from infra.embedded.spark import CLASSES as SPARK_CLASSES
from infra.embedded.spark import JVM_OPTIONS, SparkHome
from infra.embedded.stack import EmbeddedStack, Endpoints
from infra.toolchain.cache import Cache, cache_root, digest
from infra.toolchain.prepare import Toolchain

JOB = "effectively_once_jobs.user_counts"
SINKS = ("accepted", "dead_letter", "user_counts")
LARGE = {"max.message.bytes": "12648592"}
"""Of a sink's topic: a start refuses one that takes less."""
EPOCHS, EPOCH_ROWS = 3, 400
EPOCHS_S, EXIT_S = 300.0, 300.0
"""Some 20 s each on an idle machine of two cores; writing the archive took 95 s at a load of 15."""


def class_archive(toolchain: Toolchain, console: Console) -> Path:
    """The folder of archives for these jars and this Java, made when there is none.

    Raises:
        ServerError: the training run failed; its logs are kept in the cache's `logs/class_archive`.
    """
    key = digest(
        {
            "java": str(toolchain.java.resolve()),
            "jars": str(toolchain.spark_jars),
            "classes": str(toolchain.jvm_jar),
            "options": JVM_OPTIONS,
            "home": str(toolchain.spark_home),
            "broker": str(toolchain.kafka_classpath),
            "broker options": " ".join(JVM_FLAGS),
        }
    )
    cache = Cache(cache_root())
    with console.step("class archives of the JVMs (a training run)", expected_s=40):
        return cache.get("class_archive", key, lambda directory: _train(cache, toolchain, directory))


def _train(cache: Cache, toolchain: Toolchain, directory: Path) -> None:
    run = directory / "run"
    run.mkdir()
    try:
        with EmbeddedStack(run, toolchain, dump_to=directory) as stack:
            _fill(stack.endpoints)
            _run_pipeline(toolchain, stack.endpoints, run, directory)
            stack.kafka.stop(grace_s=EXIT_S)
        for name in (SPARK_CLASSES, BROKER_CLASSES):
            if not (directory / name).exists():
                raise ServerError(
                    f"class archive: {name} was not written; see the logs in the cache's logs/class_archive"
                )
    finally:
        kept = cache.root / "logs" / "class_archive"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(run / "logs", kept, ignore_dangling_symlinks=True)
        shutil.rmtree(run, ignore_errors=True)


def _fill(endpoints: Endpoints) -> None:
    """Make the topics of a pipeline and put some records in."""
    outputs = [f"user_counts.{sink}" for sink in SINKS]
    topics = [NewTopic("events", 2, 1), *(NewTopic(name, 2, 1, config=LARGE) for name in outputs)]
    topics += [NewTopic(f"{name}.progress", 2, 1, config={"cleanup.policy": "compact"}) for name in outputs]
    admin = AdminClient({"bootstrap.servers": endpoints.kafka_bootstrap})
    for made in admin.create_topics(topics).values():
        made.result()
    producer = Producer({"bootstrap.servers": endpoints.kafka_bootstrap})
    for n in range(EPOCHS * EPOCH_ROWS):
        record = {"id": f"i{n}", "user": f"u{n % 7}", "event_time_ms": n * 1_000, "payload": "", "crc": 0}
        producer.produce("events", json.dumps(record), partition=n % 2)
    producer.flush()


def _run_pipeline(toolchain: Toolchain, endpoints: Endpoints, run: Path, archives: Path) -> None:
    settings = {
        "pipeline": "user_counts",
        "topic": "events",
        "job": JOB,
        "kafka_bootstrap": endpoints.kafka_bootstrap,
        "s3_endpoint": endpoints.s3_endpoint,
        "s3_bucket": endpoints.s3_bucket,
        "epoch_rows_max": EPOCH_ROWS,
    }
    path, events = run / "settings.json", run / "events.jsonl"
    path.write_text(json.dumps(settings))
    events.touch()
    home = SparkHome(toolchain, endpoints, run, master="local[2]", dump_to=archives)
    driver = home.start("driver", JOB, [str(path)], {"EFFECTIVELY_ONCE_EVENTS": str(events)})
    try:
        wait_for(f"{EPOCHS} epochs", EPOCHS_S, _watch_published(events), driver)
        # The archive is written while the JVM ends by itself, so it is not killed with its Python process.
        family = [psutil.Process(driver.pid), *descendants(driver.pid)]
        driver.signal(signal.SIGTERM)
        psutil.wait_procs(family[1:], timeout=EXIT_S)
    finally:
        driver.stop()


def _watch_published(events: Path) -> Callable[[], bool]:
    return lambda: events.read_text().count('"published"') >= EPOCHS
